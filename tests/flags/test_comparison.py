"""Flags of compare_results.py, and the program itself."""

import pathlib
import subprocess
import sys

import pytest
from absl import flags as absl_flags

from electra_tf.util.errors import UserError
from finetune.results.result_files import write_results
from finetune.results.summary import TrialResult
from flags import comparison
from flags.command_line import parsing

ROOT = pathlib.Path(__file__).parents[2]


def parse(*arguments: str) -> comparison.ComparisonConfig:
    flag_values = absl_flags.FlagValues()
    comparison.define_flags(flag_values)
    parsing.parse(["program", *arguments], None, flag_values)
    return comparison.config_from_flags(flag_values)


def write_run(folder: pathlib.Path, model_name: str, tasks: str = "cola") -> str:
    metrics = {"cola/dev": {"mcc": 61.5}}
    result = TrialResult(trial=1, seed=42, metrics=metrics, main={"cola/dev": "mcc"})
    return write_results(
        [result], model_name=model_name, tasks_label=tasks, results_dir=str(folder)
    ).json


def test_files_of_several_tasks_have_commas_in_their_names(tmp_path):
    single = write_run(tmp_path / "a", "small")
    several = write_run(tmp_path / "a", "small", "cola,mrpc,rte")
    config = parse(f"--results={several},{single}, {several}", "--names=x,y", "--names=z")
    assert config.results == (several, single, several)
    assert config.names == ("x", "y", "z")
    assert config.output is None
    assert parse("--results", single, "--results", several).results == (single, several)
    assert parse("--results", single).names is None


def test_an_empty_name_is_refused(tmp_path):
    single = write_run(tmp_path, "small")
    with pytest.raises(UserError, match="--names has an empty name: pass one for each"):
        parse(f"--results={single},{single}", "--names=x,")


def test_folders_stand_for_their_files(tmp_path):
    paths = [write_run(tmp_path, "small", tasks) for tasks in ("rte", "cola")]
    # What an evaluation of pre-training leaves in the same folder.
    (tmp_path / "unsup_results.json").write_text('{"loss": 1.0}')
    assert parse("--results", str(tmp_path)).results == tuple(sorted(paths))


def test_a_folder_of_several_tasks_has_one_name(tmp_path):
    folders = [tmp_path / model for model in ("a", "b")]
    for folder in folders:
        for task in ("cola", "rte"):
            write_run(folder, "small", task)
    both = "--results", str(folders[0]), "--results", str(folders[1])
    assert parse(*both, "--names=x,y").names == ("x", "x", "y", "y")
    assert parse(*both, "--names=p,q,r,s").names == ("p", "q", "r", "s")
    single = f"--results={folders[0]},{folders[1] / 'rte_results.json'}"
    assert parse(single, "--names=x,y").names == ("x", "x", "y")


def test_refuses_what_is_not_there(tmp_path):
    with pytest.raises(UserError, match="--results"):
        parse()
    with pytest.raises(UserError, match="--output is empty: pass a path"):
        parse(f"--results={write_run(tmp_path, 'm')}", "--output=")
    with pytest.raises(UserError, match=r"--results: no such file or folder: '.*none.json'"):
        parse(f"--results={write_run(tmp_path, 'm')},{tmp_path / 'none.json'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no \*_results.json in .*empty"):
        parse(f"--results={tmp_path / 'empty'}")


def test_the_table_replaces_no_results(tmp_path):
    path = write_run(tmp_path / "a", "small")
    for results in (path, str(tmp_path / "a")):
        with pytest.raises(UserError, match=r"--output=.* is the file that --results reads"):
            parse("--results", results, "--output", path)
    other = write_run(tmp_path / "b", "base")
    with pytest.raises(UserError, match=r"--output=.*_results\.json is not a table"):
        parse("--results", path, "--output", other)
    with pytest.raises(UserError, match=r"--output=.* is a folder"):
        parse("--results", path, "--output", str(tmp_path))


def test_the_program_prints_and_writes_the_table(tmp_path):
    paths = [write_run(tmp_path / name, name) for name in ("small", "base")]
    output = tmp_path / "new" / "table.md"
    done = subprocess.run(
        [
            *(sys.executable, "-X", "importtime", "compare_results.py"),
            *("--results", ",".join(paths), "--output", str(output)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    table = output.read_text(encoding="utf-8")
    assert "| small | 61.50 (1) |\n| base | 61.50 (1) |" in table
    assert done.stdout == f"{table}\nWritten to {output}\n"
    assert "| tensorflow" not in done.stderr
    assert "| matplotlib" not in done.stderr
