"""Pipes are refused where a file is read again."""

import json
import os
import pathlib

import pytest

from flags.command_line import program
from tests.in_process import run_program

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize(
    "arguments",
    [
        "inspect_dataset.py --data_dir=data --vocab_file",
        "build_pretraining_dataset.py --corpus-dir=x --output-dir=x --vocab-file",
        "convert_checkpoint.py --from=x --to_format=tf1 --output=x --vocab_file",
        "run_finetuning.py --task_spec",
        "run_pretraining.py --word_list",
    ],
)
def test_a_pipe_is_refused_where_a_file_is_read_again(arguments, tmp_path, monkeypatch, capfd):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = run_program([*arguments.split(), str(pipe)], ROOT, monkeypatch, capfd)
    assert result.returncode == program.USAGE_ERROR_STATUS
    assert f"={pipe} is a pipe or device, but this file is read several" in result.stderr


@pytest.mark.parametrize("program_name", ["run_pretraining.py", "run_finetuning.py"])
def test_a_pipe_in_hparams_is_refused(program_name, tmp_path, monkeypatch, capfd):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given = [f"--data-dir={tmp_path}", "--model-name=x"]
    given.append(f"--hparams={json.dumps({'vocab_file': str(pipe)})}")
    result = run_program([program_name, *given], ROOT, monkeypatch, capfd)
    assert result.returncode == program.USER_ERROR_STATUS
    assert f"vocab_file in --hparams: {pipe} is a pipe or device" in result.stderr
