"""The launch recipes start what their headers promise, as far as a machine alone can tell."""

import os
import pathlib
import shlex
import subprocess

import pytest
import yaml
from absl import flags as absl_flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.errors import PreemptedError, WorkerLostError
from flags import pretraining
from flags.command_line import parsing, program

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "recipes" / "launch"
SCRIPTS = ("one_host.sh", "two_hosts.sh", "slurm.sbatch", "cloud_tpu.sh")
FLAGS = ("--data-dir", "d", "--model-name", "m")


def parse(arguments: list[str]) -> PretrainingConfig:
    assert (ROOT / arguments[0]).resolve() == ROOT / "run_pretraining.py"
    flag_values = absl_flags.FlagValues()
    pretraining.define_flags(flag_values)
    parsing.parse(arguments, None, flag_values)
    return pretraining.config_from_flags(flag_values)


def run_script(*command: str, status: int = 0, **environment: str) -> str:
    """Runs a recipe with `echo` for Python; returns what it printed."""
    result = subprocess.run(
        ["bash", *command],
        env={**os.environ, "PYTHON": "echo", **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == status, result.stderr
    return result.stdout


def test_every_recipe_says_command_hardware_and_how_it_stops():
    recipes = sorted(FOLDER.iterdir())
    assert {path.name for path in recipes} == {*SCRIPTS, "kubernetes.yaml"}
    for path in recipes:
        header = [line for line in path.read_text().splitlines() if line.startswith("#")]
        for word in ("Command:", "Hardware:", "Stopping:"):
            assert any(line.startswith(f"# {word}") for line in header), (path, word)


@pytest.mark.parametrize("script", SCRIPTS)
def test_bash_can_read(script):
    subprocess.run(["bash", "-n", FOLDER / script], check=True)


def test_one_host():
    config = parse(shlex.split(run_script("recipes/launch/one_host.sh", *FLAGS)))
    assert (config.strategy, config.device) == ("mirrored", "gpu")
    tried = ["recipes/launch/one_host.sh", *FLAGS, "--num_virtual_cpus=2"]
    assert parse(shlex.split(run_script(*tried, DEVICE="cpu"))).num_virtual_cpus == 2


def test_two_hosts():
    script = "recipes/launch/two_hosts.sh"
    config = parse(shlex.split(run_script(script, "1", *FLAGS, HOSTS="a:1,b:2")))
    assert (config.strategy, config.device) == ("multi_worker", "gpu")
    assert (config.workers, config.task_index) == (("a:1", "b:2"), 1)
    run_script(script, *FLAGS, status=2, HOSTS="a:1,b:2")
    run_script(script, "0", *FLAGS, status=2, HOSTS="")


def test_cloud_tpu():
    config = parse(shlex.split(run_script("recipes/launch/cloud_tpu.sh", *FLAGS)))
    assert (config.strategy, config.precision) == ("tpu", "mixed_bfloat16")


@pytest.mark.parametrize("script", ["one_host.sh", "two_hosts.sh", "cloud_tpu.sh"])
def test_relative_paths_are_those_of_the_user(script, tmp_path):
    command = 'echo "$PWD" "$@"'
    (tmp_path / "python").write_text(f"#!/usr/bin/env bash\n{command}\n")
    (tmp_path / "python").chmod(0o755)
    result = subprocess.run(
        [FOLDER / script, "0", "--data-dir", "d"],
        env={**os.environ, "PYTHON": "./python", "HOSTS": "a:1,b:2"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    folder, program, *_ = result.stdout.split()
    assert folder == str(tmp_path), result.stderr
    assert pathlib.Path(program).resolve() == ROOT / "run_pretraining.py"


@pytest.mark.parametrize(
    ("statuses", "status", "requeues"),
    [
        ("0 0", 0, False),
        ("42 42", 42, True),
        ("137 43", 137, False),
        ("43 0", 43, True),
        # One was started wrongly, or found bad data; the other has lost it.
        ("1 43", 1, False),
        ("43 2", 2, False),
        ("1 1", 1, False),
    ],
)
def test_slurm(tmp_path, statuses, status, requeues):
    """With stand-ins for SLURM's programs and for two workers."""
    stubs = {
        "srun": 'shift; highest=0; for i in 0 1; do SLURM_PROCID=$i "$@"; s=$?; '
        "((s > highest)) && highest=$s; done; exit $highest",
        "worker": 'echo "$@"; all=($WORKER_STATUSES); exit ${all[$SLURM_PROCID]}',
        "scontrol": 'if [[ $1 == show ]]; then printf "n1\\nn2\\n"; else echo "$@" >$LOG; fi',
    }
    for name, body in stubs.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    printed = run_script(
        str(FOLDER / "slurm.sbatch"),
        *FLAGS,
        status=status,
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        PYTHON="worker",
        WORKER_STATUSES=statuses,
        LOG=str(log),
        SLURM_JOB_ID="40007",
        SLURM_JOB_NODELIST="n[1-2]",
        SLURM_SUBMIT_DIR=str(tmp_path),
    )
    config = parse(shlex.split(printed.splitlines()[1]))
    assert (config.workers, config.task_index) == (("n1:20007", "n2:20007"), 1)
    assert config.max_starts_without_progress == 5
    assert not list(tmp_path.glob(".electra*"))
    assert log.exists() == requeues
    if log.exists():
        assert log.read_text() == "requeue 40007\n"


def test_a_signal_reaches_the_worker(tmp_path):
    """Sent to its shell alone, as srun may do; the shell still reports the worker's status."""
    worker = (FOLDER / "slurm.sbatch").read_text().partition("worker='")[2]
    body = worker.partition("\n'\n")[0]
    program = "trap 'exit 42' TERM; echo ready; for i in {1..100}; do sleep 0.05; done"
    shell = subprocess.Popen(
        ["bash", "-c", body, "bash", "-c", program],
        env={**os.environ, "SLURM_PROCID": "0", "STATUSES": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shell.stdout.readline() == "ready\n"
    shell.terminate()
    assert shell.wait(timeout=60) == 42
    assert (tmp_path / "0").read_text() == "42\n"


def test_slurm_asks_for_one_task_a_node_and_warns_of_the_end():
    lines = (FOLDER / "slurm.sbatch").read_text().splitlines()
    options = dict(
        line.removeprefix("#SBATCH --").partition("=")[::2]
        for line in lines
        if line.startswith("#SBATCH")
    )
    assert options["ntasks-per-node"] == "1"
    assert options["signal"].startswith("USR1@")
    assert "requeue" in options


def test_kubernetes():
    service, job = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    spec = job["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    name = job["metadata"]["name"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    # A headless service of the pods' subdomain gives them their names.
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    command = [*container["command"], *container["args"]]
    printed = subprocess.run(
        [command[0], command[1], command[2].replace("python", "echo"), *command[3:]],
        env={**os.environ, "JOB_COMPLETION_INDEX": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    arguments = [a for a in shlex.split(printed) if not a.startswith("--flagfile")]
    config = parse(arguments)
    hosts = [f"{name}-{i}.{pod['subdomain']}" for i in range(spec["completions"])]
    port = container["ports"][0]["containerPort"]
    assert config.workers == tuple(f"{host}:{port}" for host in hosts)
    assert config.task_index == 1
    ignore, fail = spec["podFailurePolicy"]["rules"]
    resumable = [PreemptedError.exit_status, WorkerLostError.exit_status]
    assert (ignore["action"], ignore["onExitCodes"]["values"]) == ("Ignore", resumable)
    assert (fail["action"], fail["onExitCodes"]["values"]) == (
        "FailJob",
        [program.USER_ERROR_STATUS, program.USAGE_ERROR_STATUS],
    )
