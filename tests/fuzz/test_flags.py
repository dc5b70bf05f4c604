"""Flags, `--hparams` and recipe files with values that nobody would choose."""

import dataclasses
import json
import os

import pytest
from absl import flags as absl_flags
from hypothesis import strategies as st

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from flags import finetuning, pretraining
from flags.command_line import parsing
from tests.fuzz.inputs import json_values, outcome, scalars, texts, tries

PROGRAMS = {PretrainingConfig: pretraining, FinetuningConfig: finetuning}
REQUIRED = ("--data_dir=no/such", "--model_name=m")
programs = st.sampled_from(list(PROGRAMS))


def parse(config_class, *arguments):
    """Returns the configuration of a command line, or its UserError."""
    flag_values = absl_flags.FlagValues()
    program = PROGRAMS[config_class]
    program.define_flags(flag_values)

    def parsed():
        parsing.parse(["program", *REQUIRED, *arguments], None, flag_values)
        config = program.config_from_flags(flag_values)
        if config_class is FinetuningConfig:
            program.search_grid(flag_values)
        return config

    return outcome(parsed)


def fields(config_class):
    return {field.name: field for field in dataclasses.fields(config_class)}


def check(config_class, name, result):
    """A configuration has only values of the fields' types, and numbers are finite."""
    if isinstance(result, UserError):
        return
    assert isinstance(result, config_class)
    json.loads(
        result.to_json(), parse_constant=lambda constant: pytest.fail(f"{name} is {constant}")
    )


@st.composite
def assignments(draw, values):
    config_class = draw(programs)
    names = draw(
        st.lists(st.sampled_from(sorted(fields(config_class))), min_size=1, max_size=3)
    )
    return config_class, {name: draw(values) for name in names}


@tries(250, given=assignments(json_values))
def test_hparams_of_any_type(given):
    config_class, values = given
    result = parse(config_class, f"--hparams={json.dumps(values)}")
    check(config_class, values, result)
    for name in values if isinstance(result, UserError) and len(values) == 1 else ():
        # The message names the hyperparameter, or the one it is a synonym of or decides.
        assert "--" in str(result) or name in str(result), str(result)


@tries(250, given=assignments(scalars))
def test_flags_of_any_text(given):
    config_class, values = given
    arguments = []
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if "\0" in text or "\ud800" in text:
            return  # no operating system passes it
        arguments.append(f"--{name}={text}")
    check(config_class, values, parse(config_class, *arguments))


@tries(100, name=texts, value=json_values, config_class=programs)
def test_hparams_of_any_name(name, value, config_class):
    result = parse(config_class, f"--hparams={json.dumps({name: value})}")
    if name not in fields(config_class) and name not in finetuning.RETIRED:
        assert isinstance(result, UserError)
        assert "--hparams" in str(result)


@pytest.mark.parametrize("config_class", PROGRAMS)
@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"null", b"1", b"{", b'{"seed": 1', b"\xff\xfe{}", b"\xff", b"\0"),
        *(b'{"seed": 1, "seed": 2}', b"[" * 100_000, b'{"seed": ' + b"9" * 5000 + b"}"),
        b'{"a": ' * 50_000,
    ],
    ids=lambda content: repr(content[:15]),
)
def test_hparams_files(tmp_path, config_class, content):
    path = tmp_path / "h.json"
    path.write_bytes(content)
    result = parse(config_class, f"--hparams={path}")
    assert isinstance(result, UserError), result
    assert str(path) in str(result)
    text = content.decode(errors="surrogateescape")
    if content and "\0" not in text:
        assert isinstance(parse(config_class, f"--hparams={text}"), UserError)


def test_a_byte_order_mark_and_folders(tmp_path):
    path = tmp_path / "h.json"
    path.write_bytes(b'\xef\xbb\xbf{"seed": 7}')
    assert parse(PretrainingConfig, f"--hparams={path}").seed == 7
    (tmp_path / "folder.json").mkdir()
    result = parse(PretrainingConfig, f"--hparams={tmp_path / 'folder.json'}")
    assert isinstance(result, UserError)


lines = st.sampled_from(
    [
        *(
            "--seed=3",
            "--seed 3",
            "seed=3",
            "--seed",
            "--sed=3",
            "# seed",
            "",
            "   ",
            "-seed=3",
        ),
        *(
            "--seed=",
            "--seed=x",
            "--do_eval=maybe",
            "--noseed",
            "--seed=3 # three",
            "--",
            "\ufeff",
        ),
        *("--flagfile=no/such", "--flagfile", "//c", "--learning_rate=1e-4", "--hparams={}"),
    ]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@tries(150, contents=st.lists(lines, max_size=4), config_class=programs)
def test_recipe_files(tmp_path_factory, contents, config_class):
    path = tmp_path_factory.getbasetemp() / f"recipe-{os.getpid()}.flags"
    path.write_text("\n".join(contents), encoding="utf-8")
    check(config_class, contents, parse(config_class, f"--flagfile={path}"))


@pytest.mark.parametrize("content", [b"--seed=\xff", b"\xff\xfe-\0-\0", b"--seed=1\0"])
def test_recipe_files_of_any_bytes(tmp_path, content):
    path = tmp_path / "recipe.flags"
    path.write_bytes(content)
    assert isinstance(parse(PretrainingConfig, f"--flagfile={path}"), UserError)


def test_recipe_files_that_include_themselves(tmp_path):
    path = tmp_path / "recipe.flags"
    path.write_text(f"--flagfile={path}\n--seed=5\n")
    result = parse(PretrainingConfig, f"--flagfile={path}")
    assert isinstance(result, UserError) or result.seed == 5


@tries(
    200,
    grid=st.dictionaries(
        st.sampled_from(sorted(fields(FinetuningConfig))) | texts, json_values, max_size=2
    ),
)
def test_searches(grid):
    text = json.dumps(grid)
    parse(FinetuningConfig, f"--hparam_search={text}")


@pytest.mark.parametrize("config_class", PROGRAMS)
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--model_name=../m", "points outside DATA_DIR/models"),
        ("--model_name=/m", "points outside DATA_DIR/models"),
        ("--clip_norm=inf", "--clip_norm must be a number from"),
        ("--learning_rate=nan", "--learning_rate must be a number from"),
        ("--weight_decay_rate=1e39", "--weight_decay_rate must be a number from"),
        ("--seed=4294967296", "--seed must be from 0 to 4294967295"),
        ("--lr_decay_power=-1", "--lr_decay_power must be at least 0, not -1"),
        ('--hparams={"train_batch_size": NaN}', "train_batch_size in --hparams"),
        ('--hparams={"train_batch_size": 1e400}', "train_batch_size in --hparams"),
        ('--hparams={"seed": 1, "seed": 2}', "duplicate key 'seed'"),
        ('--model_hparam_overrides={"hidden_size": 1e400}', "hidden_size must be"),
        ('--model_hparam_overrides={"layer_norm_epsilon": NaN}', "layer_norm_epsilon must"),
        ('--model_hparam_overrides={"vocab_size": 10000000000}', "vocab_size must be"),
        ("--on_nonfinite=ignore", "on_nonfinite"),
    ],
)
def test_values_that_were_not_refused(config_class, argument, message):
    result = parse(config_class, argument)
    assert isinstance(result, UserError)
    assert message in str(result)


@pytest.mark.parametrize("temperature", ["1e-7", "1e-300", "0", "-1"])
def test_temperatures_that_cannot_be(temperature):
    result = parse(PretrainingConfig, f"--temperature={temperature}")
    assert "--temperature must be" in str(result)


@pytest.mark.parametrize("name", ["model_dir", "results_dir", "preprocessed_data_dir"])
def test_files_where_folders_belong(tmp_path, name):
    path = tmp_path / "file"
    path.write_text("")
    result = parse(FinetuningConfig, f"--{name}={path}")
    assert f"--{name}={path} is a file" in str(result)


@pytest.mark.parametrize("arguments", [["--length_buckets", "-4,0"], ["--length_buckets=0"]])
def test_numbers_after_a_flag_are_its_values(arguments):
    """Those that begin with a minus were taken for a flag."""
    result = parse(FinetuningConfig, *arguments)
    assert "--length_buckets must be positive, not" in str(result)


def test_repeated_buckets_are_one():
    config = parse(FinetuningConfig, "--length_buckets=8,8,4", "--max_seq_length=16")
    assert config.length_buckets == (4, 8, 16)
