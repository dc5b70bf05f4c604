"""Runs the commands of the README and of pages of `docs/`, with fewer steps.

They run in a copy of the repository; tests/flags/test_docs_commands.py parses those of the
other pages.

`make demo` and `make test` are run by `.ci/run`.
"""

import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import urllib.request

import pytest

from electra_tf.util.cpu_cores import num_cores
from tests.in_process import run_program

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
# Run after the README's. A command that names one of the folders in capitals cannot run here.
PAGES = [(ROOT / "docs" / page).read_text() for page in ("own_language.md", "corpora.md")]
PLACEHOLDERS = ("DATA", "TEXT", "PATH")
# Appended to the training commands; a later flag wins over the recipe's.
# Without a decay, a single step of fine-tuning learns something, as is expected of it.
QUICKLY = {
    "run_pretraining.py": [
        "--num_train_steps=2",
        "--num_warmup_steps=0",
        "--iterations_per_loop=1",
        "--num_eval_steps=2",
    ],
    "run_finetuning.py": ["--num_train_epochs=0.2", "--lr_decay_power=0"],
}
# Their first command is a process. So is every program in tests/flags/test_programs.py; later
# commands, and those of the other programs, spare TensorFlow's start.
PROCESSES = {
    "build_pretraining_dataset.py",
    "build_openwebtext_pretraining_dataset.py",
    "run_pretraining.py",
    "run_finetuning.py",
    "export_saved_model.py",
}
# Programs whose processes divide a batch: see electra_tf/training/distribution/cores.py.
DIVIDING = {"run_pretraining.py", "run_finetuning.py"}
# Begins what a processor without bfloat16 is told of some recipes.
IS_SLOW = "warning: --precision=mixed_bfloat16 is slow here"
# Fewer trials, where a command has several.
FEWER = {"num_trials": "--num_trials=2", "topics.flags": "--num_trials=2"}
# Runs until it is interrupted: its page is looked at instead.
SERVER = "serve_demo.py"
NOT_RUN_HERE = ("make", "pip", "tensorboard")


def readme_commands() -> list[list[str]]:
    """Returns the commands of the bash blocks that can run here, in order."""
    commands = []
    for block in re.findall(r"```bash\n(.*?)```", "".join([README, *PAGES]), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] not in NOT_RUN_HERE and not set(words) & {*PLACEHOLDERS}:
                commands.append(words)
    return commands


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> pathlib.Path:
    """A folder that looks like the repository, whose outputs stay in it."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("recipes", "tests"):
        (folder / name).symlink_to(ROOT / name)
    for path in ROOT.glob("*.py"):
        (folder / path.name).symlink_to(path)
    shutil.copytree(ROOT / "demo", folder / "demo", ignore=shutil.ignore_patterns("output"))
    archives = folder / "data" / "openwebtext"
    archives.mkdir(parents=True)
    shutil.copy(ROOT / "demo" / "vocab.txt", folder / "data" / "vocab.txt")
    for name in ("urlsf_subset00-1_data.xz", "urlsf_subset00-2_data.xz"):
        with tarfile.open(archives / name, "w:xz") as archive:
            text = b"The first line of a page.\nAnother line of it.\n" * 20
            member = tarfile.TarInfo("0001-page.txt")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    cola = folder / "my_data" / "finetuning_data" / "cola"
    cola.mkdir(parents=True)
    for split in ("train", "dev"):
        rows = (f"src\t{i % 2}\t\tThe {split} sentence number {i}." for i in range(40))
        (cola / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def look_at_page(command: list[str], workplace: pathlib.Path) -> None:
    """Starts the server of a command on a free port, and asks it for its page."""
    process = subprocess.Popen(
        [sys.executable, *command[1:], "--port=0"],
        cwd=workplace,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        lines = iter(process.stdout.readline, "")
        line = next((line for line in lines if line.startswith("Serving:")), "")
        assert line.startswith("Serving: http://127.0.0.1:"), line
        with urllib.request.urlopen(line.split()[1], timeout=60) as response:
            assert "data-url" in response.read().decode()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def has_two_cores() -> bool:
    given = {"TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"} & os.environ.keys()
    return num_cores() > 1 and not given


def run_as_process(
    arguments: list[str], workplace: pathlib.Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=workplace,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_the_readmes_commands_work(workplace, monkeypatch, capfd):
    commands = readme_commands()
    programs = {command[1] for command in commands}
    assert {
        "build_pretraining_dataset.py",
        "build_openwebtext_pretraining_dataset.py",
        "run_pretraining.py",
        "run_finetuning.py",
        "build_vocabulary.py",
        "compare_results.py",
        "flops_computation.py",
        "convert_checkpoint.py",
        "export_saved_model.py",
        SERVER,
    } <= programs
    to_start, divided = set(PROCESSES), set()
    for command in commands:
        interpreter, program, *flags = command
        assert interpreter == "python", command
        if program == SERVER:
            look_at_page(command, workplace)
            continue
        fewer = [flag for word, flag in FEWER.items() if word in " ".join(flags)]
        arguments = [program, *flags, *QUICKLY.get(program, []), *fewer]
        if program in to_start:
            result = run_as_process(arguments, workplace)
            to_start.remove(program)
        else:
            result = run_program(arguments, workplace, monkeypatch, capfd)
        assert result.returncode == 0, f"{shlex.join(command)}\n{result.stdout}{result.stderr}"
        if program in DIVIDING & PROCESSES - to_start - divided and has_two_cores():
            divided.add(program)
            assert ", 2 parts side by side" in result.stdout
        # Nothing but ours is printed, and never a warning of TensorFlow's.
        told = [line for line in result.stderr.splitlines() if not line.startswith(IS_SLOW)]
        assert not told, shlex.join(command)
    assert not to_start


def test_the_readmes_files_exist():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    named = re.findall(r"`((?:\w+/)+[\w.]*)`", README)
    paths = [path.partition("#")[0] for path in links + named]
    missing = [path for path in paths if not (ROOT / path).exists()]
    elsewhere = ("DATA_DIR", "my_data")
    assert [path for path in missing if not path.startswith(elsewhere)] == []
