"""Programs with remote paths: `ram://`, in this process."""

import json
import pathlib
import tempfile
import uuid
from collections.abc import Callable

import pytest
import safetensors.numpy
from absl import flags as absl_flags

from electra_tf.inference.export.run import _warn_of_versions
from electra_tf.inference.web_demo.models import ExportedModel
from electra_tf.util.errors import UserError
from electra_tf.util.paths import RemotePath, as_path
from flags import (
    comparison,
    conversion,
    corpus,
    export,
    finetuning,
    flops,
    inspection,
    pretraining,
    replaced_tokens,
    report,
    scoring,
    vocabulary,
    web_demo,
)
from flags.command_line import parsing
from flags.remote import copies
from flags.remote.finetuning_folders import staged
from flags.remote.paths import Role, local_paths, remote_values
from tests.electra_tf.interop.models import HUGGINGFACE_DATA, assert_same_arrays
from tests.electra_tf.report.test_page import write_run
from tests.finetune.conftest import finetuning_data  # noqa: F401 - a fixture
from tests.flags.test_comparison import write_run as write_results_of
from tests.flags.test_docs_commands import DEFINE_FLAGS
from tests.in_process import run_program

ROOT = pathlib.Path(__file__).parents[3]
# Of the programs that take remote paths; the others refuse them.
REMOTE = {
    "run_pretraining.py": pretraining.REMOTE,
    "run_finetuning.py": finetuning.REMOTE,
    "build_pretraining_dataset.py": corpus.REMOTE,
    "build_openwebtext_pretraining_dataset.py": corpus.REMOTE,
    "build_vocabulary.py": vocabulary.REMOTE,
    "inspect_dataset.py": inspection.REMOTE,
    "convert_checkpoint.py": conversion.REMOTE,
    "export_saved_model.py": export.REMOTE,
    "score_text.py": scoring.REMOTE,
    "show_replaced_tokens.py": replaced_tokens.REMOTE,
    "report.py": report.REMOTE,
    "compare_results.py": comparison.REMOTE,
    "serve_demo.py": web_demo.REMOTE,
    "flops_computation.py": flops.REMOTE,
}
# Flags of text that is no path.
NO_PATHS = ("allowed_hosts", "host", "mlflow", "tpu_name", "wandb", "workers")


@pytest.fixture
def remote(tmp_path, monkeypatch) -> RemotePath:
    """A folder of a remote file system that does not exist yet."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return RemotePath(f"ram://programs/{uuid.uuid4().hex}")


@pytest.fixture
def program(tmp_path, monkeypatch, capfd) -> Callable[..., str]:
    """Runs a program in an empty folder, and returns what it printed."""
    folder = tmp_path / "working"
    folder.mkdir()

    def run(name: str, *arguments: object, status: int = 0) -> str:
        command = [str(ROOT / f"{name}.py"), *map(str, arguments)]
        ended = run_program(command, folder, monkeypatch, capfd)
        assert ended.returncode == status, ended.stderr
        assert not list(folder.glob("*:*"))  # a remote path taken for a local one
        return ended.stdout if status == 0 else ended.stderr

    return run


def names(folder: RemotePath) -> list[str]:
    return sorted(str(path).removeprefix(f"{folder}/") for path in folder.walk())


@pytest.mark.parametrize("name", DEFINE_FLAGS)
def test_no_remote_path_is_taken_for_a_local_one(name):
    roles = REMOTE.get(name, {})
    flag_values = absl_flags.FlagValues()
    DEFINE_FLAGS[name](flag_values)
    checked = 0
    for flag in flag_values:
        if flag_values[flag].flag_type() not in ("string", "comma separated list of strings"):
            continue
        path = "nope://bucket/x"
        is_list = isinstance(flag_values[flag].default, list)
        before = flag_values[flag].value
        flag_values[flag].value = [path] if is_list else path
        if flag == "hparams":
            flag_values[flag].value = json.dumps({"model_dir": path, "results_txt": path})
        if flag in NO_PATHS or roles.get(flag) is Role.ITSELF:
            with local_paths(roles, flag_values):
                assert flag_values[flag].value == ([path] if is_list else path)
        else:
            wanted = r"--(model_dir|results_txt)" if flag == "hparams" else f"--{flag}"
            with (
                pytest.raises(
                    UserError, match=rf"{wanted}=nope://bucket/x (must be on|cannot)"
                ),
                local_paths(roles, flag_values),
            ):
                pass
            checked += 1
        flag_values[flag].value = before
    assert checked or name.startswith("build_")
    with (
        pytest.raises(UserError, match="nope://x must be on this machine"),
        local_paths({}, flag_values, ["nope://x"]),
    ):
        pass


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--model_dir=gs:/bucket/m"], "--model_dir=gs:/bucket/m"),
        (["--pretrain_tfrecords=a/*,s3:b/*"], "--pretrain_tfrecords=a/.,s3:b/."),
        (["--hparams", '{"model_dir": "hdfs:/m"}'], "--model_dir=hdfs:/m"),
        (["gs:/bucket/run"], "gs:/bucket/run"),
    ],
)
def test_a_mistyped_remote_path_does_not_become_a_local_folder(arguments, named):
    flag_values = absl_flags.FlagValues()
    pretraining.define_flags(flag_values)
    rest = parsing.parse(["program", *arguments], None, flag_values)
    with (
        pytest.raises(UserError, match=rf"^{named}: remote paths begin with (gs|s3|hdfs)://, "),
        local_paths(pretraining.REMOTE, flag_values, rest[1:]),
    ):
        pass


def test_odd_names_of_local_folders_are_allowed():
    flag_values = absl_flags.FlagValues()
    pretraining.define_flags(flag_values)
    parsing.parse(["program", "--model_dir=./gs:m", "--wandb=gs:x"], None, flag_values)
    with local_paths(pretraining.REMOTE, flag_values):
        assert flag_values.model_dir == "./gs:m"


def test_text_that_contains_a_remote_path_is_refused():
    flag_values = absl_flags.FlagValues()
    finetuning.define_flags(flag_values)
    given = "--own_task_files=train=gs://b/x.csv"
    parsing.parse(["run_finetuning.py", given], None, flag_values)
    with (
        pytest.raises(UserError, match=f"{given} must be on this machine"),
        local_paths(finetuning.REMOTE, flag_values),
    ):
        pass


def test_conversion_reads_and_writes_remote_folders(program, remote):
    source = HUGGINGFACE_DATA / "small"
    copies.upload(source, remote / "pair")
    program(
        "convert_checkpoint",
        f"--from={remote}/pair",
        "--to_format=electra_tf",
        f"--output={remote}/ours",
    )
    written = names(remote / "ours")
    assert {"checkpoint", "config.json", "vocab.txt"} <= set(written)
    program(
        "convert_checkpoint",
        f"--from={remote}/ours",
        "--to_format=huggingface",
        f"--output={remote}/back",
    )
    for part in ("discriminator", "generator"):
        file = f"{part}/model.safetensors"
        after = safetensors.numpy.load(
            (remote / "back" / part / "model.safetensors").read_bytes()
        )
        assert_same_arrays(after, safetensors.numpy.load_file(source / file))
    before = names(remote / "back")
    arguments = (f"--from={remote}/ours", "--to_format=huggingface", f"--output={remote}/back")
    message = program("convert_checkpoint", *arguments, status=1)
    assert message.endswith(
        f"error: --output={remote}/back is not empty: pass another folder, or --overwrite\n"
    )
    message = program("convert_checkpoint", *arguments, "--overwrite", status=1)
    assert f"--output={remote}/back is not empty, and --overwrite cannot replace" in message
    assert names(remote / "back") == before
    message = program(
        "convert_checkpoint",
        f"--from={remote}/none",
        "--to_format=huggingface",
        f"--output={remote}/other",
        status=1,
    )
    assert f"--from={remote}/none cannot be read: No such file" in message
    assert not (remote / "other").exists()


def test_what_cannot_be_written_is_kept_here(program, remote, tmp_path, monkeypatch):
    def refuse(self, source):
        raise PermissionError(13, "no permission: 403", str(self))

    monkeypatch.setattr(RemotePath, "copy_from_local", refuse)
    message = program(
        "convert_checkpoint",
        f"--from={HUGGINGFACE_DATA / 'small/generator'}",
        "--to_format=electra_tf",
        f"--output={remote}/ours",
        status=1,
    )
    (line,) = [line for line in message.splitlines() if line.startswith("error:")]
    assert f"--output={remote}/ours cannot be written: no permission: 403" in line
    assert "config.json" in {p.name for p in pathlib.Path(line.rpartition(" ")[2]).iterdir()}


def test_export_of_a_remote_model(program, remote, finetuning_data):  # noqa: F811
    copies.upload(finetuning_data / "models/m", remote / "m")
    flags = ("--component=embeddings", f"--export_dir={remote}/served")
    for _ in range(2):
        program("export_saved_model", f"--model_dir={remote}/m", *flags)
    written = names(remote / "served")
    for version in ("1", "2"):
        assert {f"{version}/saved_model.pb", f"{version}/variables/variables.index"} <= set(
            written
        )
    message = program(
        "export_saved_model", f"--model_dir={remote}/m", *flags, "--version=1", status=1
    )
    assert f"--version=1: {remote}/served/1 exists" in message


def test_an_export_is_told_of_the_formats_of_remote_versions(remote, capsys):
    copies.upload(HUGGINGFACE_DATA / "small/generator/config.json", remote / "served/1/a.onnx")
    values = absl_flags.FlagValues()
    absl_flags.DEFINE_string("export_dir", f"{remote}/served", "", flag_values=values)
    values.mark_as_parsed()
    with local_paths(export.REMOTE, values):
        folder = pathlib.Path(values.export_dir)
        (folder / "2").mkdir()
        (folder / "2" / "saved_model.pb").write_text("new")
        _warn_of_versions(folder, 2)
    warned = capsys.readouterr().err
    assert f"{remote}/served has SavedModels and versions of other formats" in warned
    assert names(remote / "served") == ["1/a.onnx", "2/saved_model.pb"]
    kept = (remote / "served/1/a.onnx").read_bytes()
    assert kept == (HUGGINGFACE_DATA / "small/generator/config.json").read_bytes()


def test_inspection_of_remote_records(program, remote, tiny_data, finetuning_data):  # noqa: F811
    copies.upload(tiny_data, remote)
    copies.upload(finetuning_data / "models/m", remote / "models/m")
    here = json.loads(program("inspect_dataset", f"--data-dir={tiny_data}", "--json=-"))
    there = json.loads(program("inspect_dataset", f"--data-dir={remote}", "--json=-"))
    assert there["total"] == here["total"]
    records = f"--pretrain_tfrecords={remote}/pretrain_tfrecords/pretrain_data.tfrecord*"
    alone = json.loads(program("inspect_dataset", records, "--json=-"))
    assert alone["total"] == here["total"]
    for name in ("m", "not_begun"):
        of_run = (f"--model-name={name}", "--examples=1")
        assert "Examples" in program("inspect_dataset", f"--data-dir={remote}", *of_run)
    assert "are intact" in program("inspect_dataset", records, "--verify")
    message = program("inspect_dataset", records, f"--html={remote}/x.html", status=1)
    assert f"--html={remote}/x.html must be on this machine" in message


def test_scoring_and_showing_with_a_remote_model(
    program,
    remote,
    tiny_data,
    finetuning_data,  # noqa: F811
    tmp_path,
):
    copies.upload(tiny_data, remote)
    copies.upload(finetuning_data / "models/m", remote / "models/m")
    text = tmp_path / "text.txt"
    text.write_text("w1 w2 w3\nw4 w5\n")
    copies.upload(text, remote / "text.txt")
    recorded = json.loads((finetuning_data / "models/m/config.json").read_text())
    settings = recorded["hyperparameters"]
    model = [
        f"--model_hparam_overrides={json.dumps(settings['model_hparam_overrides'])}",
        *(
            f"--{name}={settings[name]}"
            for name in (
                "max_seq_length",
                "vocab_size",
                "embedding_size",
                "generator_hidden_size",
            )
        ),
        "--model-name=m",
    ]
    here = ["--data-dir", tiny_data, "--model_dir", finetuning_data / "models/m"]
    there = ["--data-dir", remote]
    program("score_text", *here, *model, "--text_file", text, "--output_file", tmp_path / "s")
    output = ("--text_file", remote / "text.txt", "--output_file", remote / "scores/s.tsv")
    program("score_text", *there, *model, *output)
    assert (remote / "scores/s.tsv").read_bytes() == (tmp_path / "s").read_bytes()
    message = program("score_text", *there, *model, *output, status=1)
    assert f"--output_file={remote}/scores/s.tsv exists" in message
    shown = [
        program("show_replaced_tokens", *place, *model, "--text_file", path)
        for place, path in ((here, text), (there, remote / "text.txt"))
    ]
    assert "w1" in shown[0]
    # The first lines name the checkpoint.
    assert shown[1].splitlines()[2:] == shown[0].splitlines()[2:]


def test_reports_of_remote_runs(program, remote, tmp_path):
    copies.upload(write_run(tmp_path / "first"), remote / "models/first")
    (remote / "models/first/ckpt-1.data-00000-of-00001").write_bytes(b"weights")
    program("report", remote / "models/first")
    page = (tmp_path / "working/report.html").read_text()
    assert "first" in page
    program("report", remote / "models/first", f"--output={remote}/page.html")
    assert (remote / "page.html").read_text() == page
    message = program("report", remote / "models/none", status=1)
    assert f"run={remote}/models/none cannot be read" in message


def test_comparison_of_remote_results(program, remote, tmp_path):
    paths = [write_results_of(tmp_path / name / "results", name) for name in "ab"]
    expected = program("compare_results", "--results", paths[0], "--results", paths[1])
    for name in "ab":
        copies.upload(tmp_path / name, remote / name)
    there = [remote / "a/results", remote / "b/results" / pathlib.Path(paths[1]).name]
    given = f"--results={there[0]},{there[1]}"
    assert program("compare_results", given) == expected
    program("compare_results", given, "--output", remote / "table.md")
    assert (remote / "table.md").read_text() == expected
    mixed = f"--results={paths[0]},{there[1]}"
    assert program("compare_results", mixed) == expected
    message = program("compare_results", f"--results={remote}/none", status=1)
    assert f"--results={remote}/none cannot be read" in message
    message = program("compare_results", given, "--names=x", status=1)
    assert "--names has 1 names" in message


def test_flops_are_written_to_a_remote_file(program, remote):
    program("flops_computation", "--json", remote / "flops.json")
    assert json.loads((remote / "flops.json").read_text())


def test_flops_of_a_remote_model(program, remote, finetuning_data, tmp_path):  # noqa: F811
    copies.upload(finetuning_data / "models/m/config.json", remote / "models/m/config.json")
    copies.upload(finetuning_data / "models/m/vocab.txt", remote / "models/m/vocab.txt")
    recipe = tmp_path / "cola.flags"
    recipe.write_text("--task_names=cola\n--vocab_size=40\n")
    flags = ("--model-name=m", f"--recipe={recipe}")
    here = program("flops_computation", f"--data-dir={finetuning_data}", *flags)
    assert program("flops_computation", f"--data-dir={remote}", *flags) == here
    assert program("flops_computation", "--data-dir=nowhere", *flags) != here
    message = program("flops_computation", "--data-dir=nope://b", *flags, status=1)
    assert "--data_dir=nope://b cannot be read" in message


def test_the_page_serves_the_newest_version_of_remote_exports(remote):
    for name in ("sst", "9", "10"):
        (remote / "first" / name / "variables").mkdir()
        (remote / "first" / name / "saved_model.pb").write_bytes(name.encode())
        (remote / "first" / name / "variables/data").write_bytes(b"weights")
    (remote / "empty").mkdir()
    flag_values = absl_flags.FlagValues()
    web_demo.define_flags(flag_values)
    given = [f"--discriminator={remote}/first", f"--tasks={remote}/first,{remote}/empty,local"]
    parsing.parse(["serve_demo.py", *given], None, flag_values)
    with local_paths(web_demo.REMOTE, flag_values):
        config = web_demo.config_from_flags(flag_values)
        assert list(config.tasks) == ["first", "empty", "local"]
        for folder in (config.discriminator, config.tasks["first"]):
            assert [path.name for path in folder.iterdir()] == ["10"]
            assert (folder / "10/saved_model.pb").read_bytes() == b"10"
            assert (folder / "10/variables/data").read_bytes() == b"weights"
    assert not config.discriminator.exists()
    web_demo_flags = absl_flags.FlagValues()
    web_demo.define_flags(web_demo_flags)
    parsing.parse(["serve_demo.py", f"--tasks={remote}/empty"], None, web_demo_flags)
    with (
        pytest.raises(UserError, match=f"--tasks={remote}/empty contains no version"),
        local_paths(web_demo.REMOTE, web_demo_flags),
    ):
        ExportedModel(web_demo.config_from_flags(web_demo_flags).tasks["empty"], "--tasks")


def test_pretraining_goes_on_from_a_remote_model(
    program,
    remote,
    tiny_data,
    finetuning_data,  # noqa: F811
    tmp_path,
):
    copies.upload(tiny_data, remote)
    copies.upload(finetuning_data / "models/m", remote / "models/first")
    (remote / "models/first/ckpt-1.index").write_bytes(b"an older checkpoint, not copied")
    # The shape is that of the model.
    settings = {"max_seq_length": 16, "train_batch_size": 4, "num_train_steps": 2}
    settings |= {"num_warmup_steps": 1, "report": False, "generator_hidden_size": 0.5}
    second = tmp_path / "second"
    run = (f"--data-dir={remote}", "--model-name=m", f"--hparams={json.dumps(settings)}")
    run = (*run, "--model_dir", second)
    output = program("run_pretraining", *run, "--init_checkpoint=first")
    assert f"{remote}/models/first" in output
    shape = json.loads((finetuning_data / "models/m/config.json").read_text())
    record = json.loads((second / "config.json").read_text())
    name = "model_hparam_overrides"
    wanted = shape["hyperparameters"][name]
    assert {**record["hyperparameters"][name], **wanted} == record["hyperparameters"][name]
    # Resumes, though the copy was elsewhere.
    log = (second / "train_log.jsonl").read_bytes()
    program("run_pretraining", *run, f"--init_checkpoint={remote}/models/first")
    assert (second / "train_log.jsonl").read_bytes() == log
    message = program("run_pretraining", *run, f"--init_checkpoint={remote}/none", status=1)
    assert f"--init_checkpoint={remote}/none cannot be read: No such file" in message


FINETUNING = (
    "--model-name=m",
    "--task_names=cola",
    "--max_seq_length=16",
    "--train_batch_size=16",
    "--num_train_epochs=1",
    "--report=false",
)


def test_finetuning_in_a_remote_folder(program, remote, finetuning_data, tmp_path):  # noqa: F811
    for name in ("models", "finetuning_data"):
        copies.upload(finetuning_data / name, remote / name)
    model = remote / "models/m"
    (model / "ckpt-1.index").write_bytes(b"an older checkpoint, which is not copied")
    predicted = tmp_path / "test.tsv"
    predicted.write_bytes((finetuning_data / "finetuning_data/cola/test.tsv").read_bytes())
    copies.upload(predicted, remote / "unlabeled.tsv")
    prediction = (
        "--do_predict",
        f"--predict_file={remote}/unlabeled.tsv",
        f"--predict_output={remote}/predictions.jsonl",
    )
    before = names(remote)
    program("run_finetuning", f"--data-dir={remote}", *FINETUNING, *prediction)
    written = set(names(remote)) - set(before)
    assert "predictions.jsonl" in written
    assert "models/m/results/cola_results.json" in written
    assert "models/m/finetuning_models/cola_model_1/config.json" in written
    assert all(
        name.startswith(("models/m/results/", "models/m/finetuning_models/cola_model_1/"))
        for name in written - {"predictions.jsonl"}
    )
    results = model / "results/cola_results.json"
    there = json.loads(results.read_bytes())
    here = (
        "--model_dir",
        tmp_path / "model",
        "--results_dir",
        tmp_path / "results",
        "--preprocessed_data_dir",
        tmp_path / "features",
    )
    program("run_finetuning", "--data-dir", finetuning_data, *FINETUNING, *here)
    local = json.loads((tmp_path / "results/cola_results.json").read_bytes())
    assert there["summary"] == local["summary"]
    assert there["model_dir"] == "../finetuning_models/cola_model"

    # Its report, with the logs of the models beside the results.
    program("report", results)
    page = (tmp_path / "working/report.html").read_text()
    log = (tmp_path / "model_1/train_log.jsonl").read_text().splitlines()[0]
    assert str(json.loads(log)["learning_rate"]) in page

    # Goes on from what is there: the trial is finished.
    weights = {name: (remote / name).read_bytes() for name in written if ".data-" in name}
    log = model / "finetuning_models/cola_model_1/train_log.jsonl"
    weights[str(log).removeprefix(f"{remote}/")] = log.read_bytes()
    printed = program("run_finetuning", f"--data-dir={remote}", *FINETUNING)
    assert f"Results: {remote}/models/m/results/cola_results.md" in printed
    assert weights == {name: (remote / name).read_bytes() for name in weights}

    # Evaluation of a fine-tuned model of the bucket, with the data of this machine.
    trained = model / "finetuning_models/cola_model_1"
    program(
        "run_finetuning",
        "--data-dir",
        finetuning_data,
        *FINETUNING,
        "--do_train=false",
        f"--init_checkpoint={trained}",
        "--model_dir",
        tmp_path / "none",
        "--results_dir",
        tmp_path / "evaluated",
        *here[4:],
    )
    evaluated = json.loads((tmp_path / "evaluated/cola_results.json").read_bytes())
    assert evaluated["summary"] == there["summary"]


def test_finetuning_errors_name_the_remote_files(program, remote, finetuning_data):  # noqa: F811
    copies.upload(finetuning_data / "models/m", remote / "models/m")
    message = program("run_finetuning", f"--data-dir={remote}", *FINETUNING, status=1)
    assert f"{remote}/finetuning_data/cola/train.tsv" in message
    flag = f"--preprocessed_data_dir={remote}/x"
    message = program("run_finetuning", f"--data-dir={remote}", *FINETUNING, flag, status=1)
    assert f"{flag} must be on this machine" in message
    message = program(
        "run_finetuning",
        f"--data-dir={remote}",
        *FINETUNING,
        f"--init_checkpoint={remote}/none",
        status=1,
    )
    assert f"--init_checkpoint={remote}/none cannot be read: No such file" in message


def test_finetuning_results_in_other_remote_folders(program, remote, finetuning_data, tmp_path):  # noqa: F811
    given = ("--data-dir", finetuning_data, *FINETUNING)
    flags = (*given, f"--preprocessed_data_dir={tmp_path}/features")
    folders = (f"--model_dir={remote}/runs/first", f"--results_dir={remote}/runs/scores/a")
    # Others are not copied here, and left alone.
    for name in ("runs/second_1/ckpt-1.index", "runs/scores/b/cola_results.json", "x/y"):
        (remote / name).parent.mkdir()
        (remote / name).write_bytes(b"of others")
    message = program("run_finetuning", *flags, folders[0], status=1)
    assert f"--model_dir={remote}/runs/first and --results_dir=" in message
    assert "must be in the same bucket" in message
    other = folders[1].replace("programs", "others")
    assert "same bucket" in program("run_finetuning", *flags, folders[0], other, status=1)
    assert len(names(remote)) == 3

    printed = program("run_finetuning", *flags, *folders)
    assert f"Results: {remote}/runs/scores/a/cola_results.json" in printed
    written = {name: (remote / name).read_bytes() for name in names(remote)}
    assert [name for name, content in written.items() if content == b"of others"] == [
        "runs/scores/b/cola_results.json",
        "runs/second_1/ckpt-1.index",
        "x/y",
    ]
    results = json.loads(written["runs/scores/a/cola_results.json"])
    assert results["model_dir"] == "../../first"
    assert "runs/first_1/config.json" in written
    assert not (finetuning_data / "models/m/results").exists()

    # The same command again reuses the finished trial.
    program("run_finetuning", *flags, *folders)
    assert all(
        (remote / name).read_bytes() == content
        for name, content in written.items()
        if name.startswith("runs/first_1/")
    )


def test_a_task_described_in_a_remote_file(program, remote, finetuning_data):  # noqa: F811
    copies.upload(finetuning_data / "models/m", remote / "models/m")
    lines = [{"text": f"w{i} w{i % 7}", "label": "ab"[i % 2]} for i in range(24)]
    rows = "".join(f"{json.dumps(line)}\n" for line in lines)
    (remote / "finetuning_data/mine").mkdir()
    (remote / "finetuning_data/mine/train.jsonl").write_bytes(rows.encode())
    spec = {"name": "mine", "kind": "classification", "files": {"train": "train.jsonl"}}
    spec["columns"] = {"text": "text", "label": "label"}
    (remote / "mine.json").write_bytes(json.dumps(spec).encode())
    flags = [f"--task_spec={remote}/mine.json", *FINETUNING, "--task_names=mine"]
    program("run_finetuning", f"--data-dir={remote}", *flags)
    log = remote / "models/m/finetuning_models/mine_model_1/train_log.jsonl"
    before = log.read_bytes()
    program("run_finetuning", f"--data-dir={remote}", *flags)
    assert log.read_bytes() == before
    message = program("run_finetuning", f"--data-dir={finetuning_data}", *flags, status=1)
    assert f"--task_spec={remote}/mine.json must be on this machine, as" in message


def test_workers_need_a_shared_folder():
    flag_values = absl_flags.FlagValues()
    finetuning.define_flags(flag_values)
    arguments = ["--data-dir=gs://b", "--model-name=m", "--strategy=multi_worker"]
    parsing.parse(["run_finetuning.py", *arguments], None, flag_values)
    message = "multi_worker needs a --data_dir that all workers mount, not gs://b"
    with pytest.raises(UserError, match=message), staged(print, flag_values):
        pass
    assert flag_values.data_dir == "gs://b"


def test_the_newest_checkpoint_of_each_name_is_copied():
    files = ["ckpt-9.index", "ckpt-10.index", "ckpt-10.data-00000-of-00001", "config.json"]
    assert copies.older_checkpoints(files) == {"ckpt-9"}
    files += ["electra_small.index", "model.ckpt-5.index", "model.ckpt-5.manifest.json"]
    assert copies.older_checkpoints(files) == {"ckpt-9"}


def test_hparams_name_remote_paths_too(remote):
    flag_values = absl_flags.FlagValues()
    scoring.define_flags(flag_values)
    given = json.dumps({"model_dir": f"{remote}/m"})
    parsing.parse(["score_text.py", "--hparams", given], None, flag_values)
    assert remote_values(flag_values) == {"model_dir": f"{remote}/m"}
    assert as_path(f"{remote}/m") == remote / "m"
