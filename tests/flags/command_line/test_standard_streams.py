"""Programs whose standard streams are closed, or cannot encode what is printed."""

import io
import os
import subprocess
import sys

import pytest

from flags.command_line.standard_streams import prepare_standard_streams
from tests.processes import ROOT

PRINT = "from flags.command_line.standard_streams import prepare_standard_streams as p; p(); "


def run_closed(closed: tuple[int, ...], *command: str) -> subprocess.CompletedProcess:
    """Runs Python with some of the standard streams closed."""

    def close() -> None:
        for number in closed:
            os.close(number)

    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, preexec_fn=close
    )


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_files_of_the_program(closed, tmp_path):
    # Whatever is opened next would be what native code prints to.
    opened = f"import os; assert os.open({str(tmp_path / 'file')!r}, os.O_CREAT) > 2; "
    inherited = "import subprocess; subprocess.run(['true'], check=True); "
    prints = "print('out'); sys.stdout.flush(); print('err', file=sys.stderr); "
    result = run_closed(closed, "-c", PRINT + opened + inherited + "import sys; " + prints)
    assert result.returncode == 0
    assert result.stdout == ("" if 1 in closed else "out\n")
    assert result.stderr == ("" if 2 in closed else "err\n")


def test_a_program_runs_as_usual_without_streams():
    main = "from flags.command_line import program; program.run(lambda: print('done'))"
    for closed in ((1,), (0, 1, 2)):
        assert run_closed(closed, "-c", main).returncode == 0


@pytest.mark.parametrize(
    ("encoding", "printed"),
    [
        ("ascii", b"caf\\xe9 \xe9 \\u2026\n"),
        ("utf-8", "caf\xe9 ".encode() + b"\xe9 \xe2\x80\xa6\n"),
    ],
)
def test_any_text_and_any_path_can_be_printed(encoding, printed, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    prepare_standard_streams()
    print(f"caf\xe9 {os.fsdecode(bytes([233]))} \u2026", flush=True)
    assert written.getvalue() == printed
