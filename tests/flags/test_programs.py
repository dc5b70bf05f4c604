"""The programs as a shell runs them: quick answers, exit statuses, no TensorFlow."""

import errno
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from absl.testing import flagsaver

from flags import programs
from flags.command_line import program, program_names
from flags.command_line.path_encoding import describe_path_encoding
from tests.in_process import run_program

ROOT = pathlib.Path(__file__).parents[2]
# A flag of each program, with a slip of the pen.
MISSPELLED = {
    "run_pretraining.py": ("max_seq_length", "max_seq_lenght"),
    "run_finetuning.py": ("max_seq_length", "max_seq_lenght"),
    "build_pretraining_dataset.py": ("max_seq_length", "max_seq_lenght"),
    "build_openwebtext_pretraining_dataset.py": ("max_seq_length", "max_seq_lenght"),
    "build_vocabulary.py": ("vocab_size", "vocab_sice"),
    "inspect_dataset.py": ("max_records", "max_recrods"),
    "convert_checkpoint.py": ("from_format", "from_fromat"),
    "export_saved_model.py": ("export_dir", "exprot_dir"),
    "score_text.py": ("nbest_metric", "nbest_metirc"),
    "show_replaced_tokens.py": ("max_seq_length", "max_seq_lenght"),
    "serve_demo.py": ("discriminator", "discriminater"),
    "compare_results.py": ("results", "resluts"),
    "flops_computation.py": ("max_seq_length", "max_seq_lenght"),
    "report.py": ("output", "outptu"),
}


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def run_plainly(*arguments: str) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_every_program_is_a_file_a_function_and_a_console_script():
    files = {path.name for path in ROOT.glob("*.py")} - {"setup.py"}
    assert files == set(MISSPELLED) == set(program_names.CONSOLE_SCRIPTS)
    for file in files:
        assert callable(getattr(programs, file.removesuffix(".py")))


@pytest.mark.parametrize(("program", "names"), MISSPELLED.items(), ids=MISSPELLED)
def test_help_and_flag_errors_do_not_wait_for_tensorflow(program, names):
    flag, misspelled = names
    helped = run(program, "--help")
    assert helped.returncode == 0
    assert f"--{flag}" in helped.stdout
    assert "--[no]verbose" in helped.stdout
    # The docstring of the function, a real command in it, is what --help prints first.
    assert helped.stdout.splitlines()[0].endswith(".")
    assert f"\n    python {program}" in helped.stdout
    wrong = run(program, f"--{misspelled}=3")
    assert wrong.returncode == 2
    assert f"Did you mean '{flag}'" in wrong.stderr
    for result in (helped, wrong):
        # The import log names whatever was loaded: the two seconds are TensorFlow's.
        loaded = set(re.findall(r"\|\s+(\w+)", result.stderr))
        assert "flags" in loaded
        slow = {
            "tensorflow",
            "keras",
            "keras_hub",
            "matplotlib",
            "scipy",
            "sklearn",
            "flask",
            "plotly",
        }
        assert not loaded & slow


@pytest.mark.parametrize(
    ("program", "name"), [("report.py", "--help"), ("run_finetuning.py", "--helpfull")]
)
def test_help_whose_reader_has_ended_is_no_error(program, name):
    """As in `--help | head`; the help of the first is shorter than a buffer of the output."""
    reader, writer = os.pipe()
    os.close(reader)
    helped = subprocess.run(
        [sys.executable, program, name], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (helped.returncode, helped.stderr) == (0, b"")


def test_h_is_short_for_help():
    helped = run_plainly("run_pretraining.py", "-h")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "--max_seq_length" in helped.stdout


def test_a_console_script_names_console_scripts(monkeypatch):
    text = "Next: python run_pretraining.py --x; see build_openwebtext_pretraining_dataset.py"
    monkeypatch.setattr(sys, "argv", ["run_pretraining.py", "--data-dir", "a b"])
    assert program_names.spell_programs(text) == text
    line = program_names.next_command("show_replaced_tokens.py", "--color")
    assert line == "Next:        python show_replaced_tokens.py --data-dir 'a b' --color"
    monkeypatch.setattr(sys, "argv", ["/opt/bin/electra-pretrain", "--data-dir", "a b"])
    expected = "Next: electra-pretrain --x; see electra-build-openwebtext"
    assert program_names.spell_programs(text) == expected
    line = program_names.next_command("show_replaced_tokens.py", "--color")
    assert line == "Next:        electra-show-replaced --data-dir 'a b' --color"


def test_the_next_command_of_a_worker_runs_by_itself(monkeypatch):
    of_worker = ["--strategy=multi_worker", "--workers", "a:1,b:1", "--task-index", "0"]
    others = ["--data-dir", "d", "--model-name=m"]
    monkeypatch.setattr(sys, "argv", ["run_pretraining.py", *of_worker, *others])
    settings = ("strategy", "workers", "task_index")
    line = program_names.next_command("show_replaced_tokens.py", worker_settings=settings)
    assert line == "Next:        python show_replaced_tokens.py --data-dir d --model-name=m"
    in_file = ["--flagfile=cluster.flags", "--task_index=0"]
    monkeypatch.setattr(sys, "argv", ["run_pretraining.py", *in_file])
    line = program_names.next_command("show_replaced_tokens.py", worker_settings=settings)
    assert line == (
        "Next:        without --strategy, --workers of --flagfile or --hparams, "
        "python show_replaced_tokens.py --flagfile=cluster.flags"
    )


def test_a_user_error_is_one_message(tmp_path):
    result = run("run_pretraining.py", "--data-dir", str(tmp_path), "--model-name", "m")
    assert result.returncode == 1
    assert "error: " in result.stderr
    assert "(--vocab_file) does not exist" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("setup.py", "quote patterns"),  # the shell has expanded one
        ("none", "options are flags"),
        ("\ufeff--seed=1", "a --flagfile begins with a byte order mark"),
    ],
)
def test_an_argument_that_is_no_flag(argument, hint, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", argument])
    with pytest.raises(SystemExit) as ended:
        program.run(lambda: None)
    assert ended.value.code == 2
    assert f"Unexpected argument {argument!r}: {hint}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "output", "reason"),
    [
        (["--json=/sys/flops.json"], os.devnull, "/sys/flops.json"),
        ([], "/dev/full", "standard output cannot be written: No space left on device"),
    ],
    ids=["read-only folder", "full disk"],
)
def test_an_error_of_the_disk_is_one_line(arguments, output, reason):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with open(output, "w") as stdout:
        result = subprocess.run(
            [sys.executable, "flops_computation.py", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert reason in line


def run_main(main, monkeypatch, capfd, *arguments: str) -> tuple[int, str]:
    """Returns the status and the errors of a program that calls a function."""
    monkeypatch.setattr(sys, "argv", ["program.py", *arguments])
    with flagsaver.flagsaver(), pytest.raises(SystemExit) as ended:
        program.run(main)
    return ended.value.code, capfd.readouterr().err


def raising(error: BaseException) -> Callable[[], None]:
    def main() -> None:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileNotFoundError(2, "No such file or directory", "/proc/x"), "/proc/x: No such"),
        (OSError(errno.ELOOP, "Too many levels", "a"), "a: Too many levels"),
        (MemoryError(), "out of memory"),
        (MemoryError("8 EiB"), "out of memory: 8 EiB"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_the_system_are_one_line(error, message, monkeypatch, capfd):
    status, errors = run_main(raising(error), monkeypatch, capfd)
    assert status == 1
    (line,) = errors.splitlines()
    assert line.startswith(f"error: {message}")


def test_a_path_that_is_not_utf8_is_named(tmp_path, monkeypatch, capfd):
    name = os.fsdecode(b"caf\xe9")
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    as_tensor = ValueError("Error converting unicode string while converting a sequence")
    for error in (UnicodeEncodeError("utf-8", name, 3, 4, "surrogates not allowed"), as_tensor):
        status, errors = run_main(raising(error), monkeypatch, capfd)
        assert (status, errors.count("\n")) == (1, 1)
        assert "error: The path of the working directory is not UTF-8" in errors
    monkeypatch.chdir(tmp_path)
    for error in (as_tensor, KeyError("x")):
        message = describe_path_encoding(error, {"data_dir": "a", "files": ["b", name]})
        if error is as_tensor:
            assert message.startswith(f"--files={name} is not UTF-8, and TensorFlow")
        else:
            assert message is None
    assert describe_path_encoding(as_tensor, {"data_dir": "a"}) is None


@pytest.mark.usefixtures("heeded_sigint")
def test_a_second_interrupt_does_not_disturb_the_exit(monkeypatch, capfd):
    status, errors = run_main(raising(KeyboardInterrupt()), monkeypatch, capfd)
    assert (status, errors) == (130, "\nInterrupted.\n")
    signal.raise_signal(signal.SIGINT)


def test_an_error_of_the_program_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program.py"])
    for error in (OSError(errno.EBADF, "Bad file descriptor"), KeyError("x")):
        with flagsaver.flagsaver(), pytest.raises(type(error)):
            program.run(raising(error))


def test_a_working_directory_that_is_gone_is_named(tmp_path, monkeypatch, capfd):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    status, errors = run_main(os.getcwd, monkeypatch, capfd)
    assert (status, errors.count("\n")) == (1, 1)
    assert "The working directory has been removed" in errors


def test_settings_of_keras_for_other_programs_are_not_those_of_this_one(monkeypatch, capfd):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    found = {}
    assert run_main(lambda: found.update(os.environ), monkeypatch, capfd) == (0, "")
    assert found["KERAS_BACKEND"] == "tensorflow"
    assert "TF_USE_LEGACY_KERAS" not in found


@pytest.mark.parametrize("discarding", ["", "with suppress_native_stderr(): "])
@pytest.mark.parametrize("started_by_another", [False, True])
def test_a_crash_of_native_code_names_the_line(discarding, started_by_another, monkeypatch):
    monkeypatch.delenv("PYTHONFAULTHANDLER", raising=False)
    if started_by_another:  # programs set it for processes that they start
        monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    crash = (
        "import os, signal\n"
        "from electra_tf.util.tensorflow_import import suppress_native_stderr\n"
        f"{discarding}os.kill(os.getpid(), signal.SIGSEGV)"
    )
    main = f"from flags.command_line import program; program.run(lambda: exec({crash!r}))"
    result = subprocess.run(
        [sys.executable, "-c", main], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in result.stderr
    assert "flags/command_line/program.py" in result.stderr


BUILD = (
    *("build_pretraining_dataset.py", "--corpus-dir=demo/corpus_heldout"),
    *("--vocab-file=demo/vocab.txt", "--max-seq-length=32"),
)


def test_quiet_prints_errors_only(tmp_path, monkeypatch, capfd):
    records = tmp_path / "records"
    for status, error in ((0, ""), (1, "error: Output folder")):  # it exists
        arguments = (*BUILD, f"--output-dir={records}", "--quiet")
        result = run_program(arguments, ROOT, monkeypatch, capfd)
        assert (result.returncode, result.stdout) == (status, "")
        assert result.stderr.startswith(error)
        assert bool(result.stderr) == bool(error)
    assert list(records.glob("*.tfrecord*"))


def test_there_is_no_quiet_where_output_is_the_result():
    result = run_plainly("flops_computation.py", "--quiet")
    assert result.returncode == 2
    assert "Unknown flag --quiet" in result.stderr


def test_verbose_prints_messages_of_tensorflow_and_tracebacks(tmp_path):
    flags = (f"--data-dir={tmp_path}", "--model-name=m", "--verbose")
    result = run_plainly("run_pretraining.py", *flags)
    assert result.returncode == 1
    # Which ones depends on the processor.
    assert re.search(r"^[IWE]\d{4} .*\w+\.cc:\d+\] ", result.stderr, re.M)
    assert "Traceback" in result.stderr
    *_, last = result.stderr.splitlines()
    assert last.startswith("error: ")


def test_the_server_limits_threads_before_it_loads_models(tmp_path, monkeypatch, capfd):
    from electra_tf.inference.web_demo import app
    from electra_tf.training.distribution import cores

    calls = []
    monkeypatch.setattr(cores, "limit_operation_threads", lambda: calls.append("limit"))
    monkeypatch.setattr(app, "serve", lambda config: calls.append("serve"))
    command = [str(ROOT / "serve_demo.py"), "--discriminator=exported"]
    ended = run_program(command, tmp_path, monkeypatch, capfd)
    assert ended.returncode == 0, ended.stderr
    assert calls == ["limit", "serve"]


@pytest.mark.parametrize("program", ["run_pretraining.py", "run_finetuning.py"])
def test_a_signal_before_the_training_ends_a_run_as_preempted(
    program, tmp_path, monkeypatch, capfd
):
    """Cluster managers start runs again after this exit status alone."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(
        programs, "import_tensorflow", lambda: signal.raise_signal(signal.SIGTERM)
    )
    flags = ["--data-dir", str(tmp_path), "--model-name", "m"]
    if program == "run_finetuning.py":
        flags += ["--task_names", "cola", "--vocab_file", str(ROOT / "demo/vocab.txt")]
    ended = run_program([str(ROOT / program), *flags], tmp_path, monkeypatch, capfd)
    assert (ended.returncode, ended.stderr.strip().splitlines()[-1]) == (
        42,
        "SIGTERM: nothing to save. Run the same command again to resume.",
    )
    assert signal.getsignal(signal.SIGTERM) is before
