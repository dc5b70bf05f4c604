"""Flags of flops_computation.py, and the program itself."""

import json
import pathlib
import subprocess
import sys

import pytest
from absl import flags as absl_flags

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from flags import flops
from flags.command_line import parsing
from tests.finetune.conftest import write_model
from tests.in_process import run_program

ROOT = pathlib.Path(__file__).parents[2]
SMALL, ROUTER = "recipes/small.flags", "recipes/text_router.flags"


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)  # recipes name files of the repository


def parse(*arguments: str) -> flops.FlopsConfig:
    flag_values = absl_flags.FlagValues()
    flops.define_flags(flag_values)
    parsing.parse(["program", *arguments], None, flag_values)
    return flops.config_from_flags(flag_values)


def test_nothing_given_counts_no_run():
    assert parse() == flops.FlopsConfig((), None)
    assert parse("--data-dir=d", "--model-name=m").runs == ()


def test_every_recipe_is_counted():
    recipes = sorted(str(path) for path in pathlib.Path("recipes").glob("*.flags"))
    runs = parse(f"--recipe={','.join(recipes)}").runs
    assert [run.name for run in runs] == [pathlib.Path(path).stem for path in recipes]
    for run, recipe in zip(runs, recipes, strict=True):
        finetuning = "run_finetuning.py" in pathlib.Path(recipe).read_text()
        assert (run.train_flops is None) == finetuning
        assert run.train_flops_per_step > run.inference_flops > 0


def test_recipes_of_one_name_are_told_apart(tmp_path):
    other = tmp_path / "small.flags"
    other.write_text(pathlib.Path(SMALL).read_text() + "\n--train_batch_size=7\n")
    frozen = tmp_path / "frozen.flags"
    frozen.write_text(pathlib.Path(ROUTER).read_text() + "\n--freeze_layers=6\n")
    runs = parse(f"--recipe={SMALL},{other},{ROUTER},{frozen}").runs
    assert [run.name for run in runs] == [SMALL, str(other), "text_router", "frozen"]
    assert runs[3].model_flops_per_step < runs[2].model_flops_per_step


def test_hyperparameters_make_a_run_of_their_own():
    recipe, whole, half = (
        parse(f"--recipe={SMALL}", "--train_batch_size=128").runs
        + parse("--train_batch_size=64", "--model_name=half").runs
    )
    assert [run.name for run in (recipe, whole, half)] == ["small", "command line", "half"]
    assert whole.train_flops_by_part == recipe.train_flops_by_part
    assert half.train_flops_per_step == whole.train_flops_per_step / 2
    assert half.train_flops == 1_000_000 * half.train_flops_per_step


def test_a_run_that_goes_on_from_a_checkpoint_has_its_size(tiny_data, tmp_path):
    write_model(tmp_path / "model", tiny_data)
    place = (f"--data_dir={tiny_data}", "--model_name=m", "--max_seq_length=16")
    (found,) = parse(*place, f"--init_checkpoint={tmp_path / 'model'}").runs
    (default,) = parse(*place).runs
    assert found.train_flops_per_step < default.train_flops_per_step / 100
    with pytest.raises(UserError, match=r"--init_checkpoint.*no such checkpoint"):
        parse(*place, "--init_checkpoint=missing")


def test_finetuning_takes_the_encoder_of_the_model(tmp_path, capsys):
    (unknown,) = parse(f"--recipe={ROUTER}").runs
    folder = tmp_path / "models" / "large"
    folder.mkdir(parents=True)
    hyperparameters = {"model_size": "large", "vocab_size": 30522}
    content = {"hyperparameters": hyperparameters, "variables": {}}
    (folder / "config.json").write_text(json.dumps(content))
    (large,) = parse(f"--recipe={ROUTER}", f"--data-dir={tmp_path}", "--model-name=large").runs
    assert unknown.inference_flops == 3_677_281_792  # ELECTRA-small, as the authors count
    assert large.inference_flops > 20 * unknown.inference_flops
    assert not capsys.readouterr().err
    (lost,) = parse(f"--recipe={ROUTER}", f"--data-dir={tmp_path}", "--model-name=larg").runs
    assert lost.inference_flops == unknown.inference_flops
    assert (
        f"--model_name=larg: there is no model in {tmp_path}/models/larg, so --recipe={ROUTER} "
        "is counted with an encoder of size small"
    ) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--json=", "--json is empty: pass a path"),
        ('--objective_hparams={"share": 1}', "Unknown key 'share' in --objective_hparams"),
        ('--masking_hparams={"p": 0.2}', "Unknown key 'p' in --masking_hparams"),
        ("--objective=two_stage", "pass --embedding_sharing=none"),
    ],
)
def test_what_training_would_refuse_is_refused(argument, message):
    with pytest.raises(UserError, match=message):
        parse("--model_name=m", argument)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        ("--max_seq_lenght=3", "Did you mean 'max_seq_length'"),
        ("--max_seq_length=9999", "exceeds the model's 512 position embeddings"),
        (
            "max_seq_length=256\n--train_batch_size=8",
            "Unexpected argument 'max_seq_length=256'",
        ),
        ("--model_name=\udcff", "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_recipe_that_cannot_be_counted(tmp_path, text, message):
    path = tmp_path / "own.flags"
    if text is not None:
        path.write_text(text + "\n", errors="surrogateescape")
    with pytest.raises(UserError, match=message) as error:
        parse(f"--recipe={path}")
    assert str(path) in str(error.value)


@pytest.mark.parametrize("kind", ["classification", "multiple_choice"])
def test_the_sequences_of_multiple_choice_are_told(kind, tmp_path, capsys):
    columns = {"text": "sentence", "label": "label"}
    columns |= {"choices": "endings"} if kind == "multiple_choice" else {}
    spec = {"name": "t", "kind": kind, "columns": columns, "files": {"train": "train.jsonl"}}
    recipe = tmp_path / f"{kind}.flags"
    recipe.write_text(f"--task_spec={json.dumps(spec)}\n")
    (run,) = parse(f"--recipe={recipe}").runs
    assert run.train_flops_per_step > 0
    said = "multiple choice has one for each choice" in capsys.readouterr().err
    assert said == (kind == "multiple_choice")


@pytest.mark.parametrize("flag", ["flagfile", "recipe"])
def test_the_flags_are_not_overwritten(flag, tmp_path, monkeypatch, capfd):
    path = tmp_path / "own.flags"
    path.write_text("--train_batch_size=8\n")
    outer = tmp_path / "outer.flags"
    outer.write_text(f"# Includes another.\n--flagfile={path}\n")
    for given in ([f"--{flag}={path}"], [f"--{flag}", str(path)], [f"--{flag}={outer}"]):
        arguments = [str(ROOT / "flops_computation.py"), *given, "--json", "own.flags"]
        result = run_program(arguments, tmp_path, monkeypatch, capfd)
        assert f"--json=own.flags is the file that --{flag} reads" in result.stderr
    assert path.read_text() == "--train_batch_size=8\n"


def test_numbers_that_cannot_be_written_are_refused_first(tmp_path):
    with pytest.raises(UserError, match=r"--json=.* is a folder"):
        parse("--json", str(tmp_path))


def test_a_vocabulary_is_not_replaced_by_numbers(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n")
    for given in (["--vocab_file", str(vocabulary)], ["--data_dir", str(tmp_path)]):
        with pytest.raises(UserError, match=r"--json=.* is the file that .* reads"):
            parse(*given, "--json", str(vocabulary))


def test_a_name_alone_counts_nothing(capsys):
    warn_once.cache_clear()
    assert parse("--model_name=m").runs == ()
    assert "--model_name=m does not describe a run to count: pass" in capsys.readouterr().err


def test_the_program(tmp_path):
    output = tmp_path / "flops.json"
    result = subprocess.run(
        [
            sys.executable,
            "flops_computation.py",
            *("--flagfile", SMALL, "--train_batch_size", "64", "--recipe", SMALL),
            *("--json", str(output)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""  # nor messages of TensorFlow, which tells the objective's parts
    lines = result.stdout.splitlines()
    row = "| BERT-Small | counted here | 1.42e18 | 3.68e09 | 45.3x | 7.78x | 45x / 8x |"
    assert row in lines
    assert "| ELECTRA-1.75M | counted here | 3.11e21 | 8.75e10 | 4.38x | 4.4x |" in lines
    run = "| small | 1.29e12 | 1,000,000 | 1.29e18 | 3.68e09 | 49.7x | 7.78x | 1.15e12 |"
    assert run in lines
    written = json.loads(output.read_text())
    assert [run["name"] for run in written["runs"]] == ["small", "command line"]
    speed_ups = {m["name"]: m["train_speed_up"] for m in written["published"]}
    assert speed_ups["ELMo"] == pytest.approx(18.84, abs=0.01)
    assert speed_ups["BERT-Base"] == 1
