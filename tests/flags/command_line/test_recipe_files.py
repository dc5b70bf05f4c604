"""Recipes are found from any folder, and a file of the working folder wins."""

import pathlib

import pytest
from absl import flags as absl_flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.errors import UserError
from flags import corpus, finetuning, flops, pretraining
from flags.command_line import parsing, recipe_files
from flags.command_line.recipe_files import find_flagfiles, find_recipe, given_flagfiles

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> pathlib.Path:
    """The working folder: not the repository, and empty."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_recipe_is_found_from_any_folder():
    assert find_recipe("recipes/small.flags") == str(ROOT / "recipes/small.flags")
    assert find_recipe("recipes/modes/span.flags") == str(ROOT / "recipes/modes/span.flags")


def test_the_working_folder_wins(elsewhere):
    (elsewhere / "recipes").mkdir()
    (elsewhere / "recipes/small.flags").write_text("--model_size=base")
    assert find_recipe("recipes/small.flags") == "recipes/small.flags"
    assert find_recipe("recipes/base.flags") == str(ROOT / "recipes/base.flags")


@pytest.mark.parametrize(
    "path",
    [
        "recipes/none.flags",
        "recipes",
        "own/recipes/small.flags",
        "/recipes/small.flags",
        '{"name": "recipes/small.flags"}',
        "",
    ],
)
def test_other_paths_stay_as_they_are(path):
    assert find_recipe(path) == path


def test_the_wheels_folder_is_taken_where_there_is_one(tmp_path, monkeypatch):
    installed = tmp_path / "site-packages/flags/recipes"
    installed.mkdir(parents=True)
    (installed / "small.flags").write_text("")
    monkeypatch.setattr(
        recipe_files, "__file__", str(installed.parent / "command_line" / "recipe_files.py")
    )
    assert find_recipe("recipes/small.flags") == str(installed / "small.flags")


def test_flagfiles_are_found_in_both_spellings():
    small = ROOT / "recipes/small.flags"
    assert find_flagfiles(
        ["--flagfile=recipes/small.flags", "--flagfile", "recipes/small.flags", "--x=recipes/y"]
    ) == [f"--flagfile={small}", "--flagfile", str(small), "--x=recipes/y"]


def test_recipes_are_found_that_a_flag_file_includes(elsewhere):
    (elsewhere / "outer.flags").write_text("--flagfile=own.flags\n--train_batch_size=8\n")
    (elsewhere / "own.flags").write_text(
        "# Ours\n--num_train_steps=5\n--flagfile=recipes/base.flags \n--seed=3\n"
    )
    place = ("--data-dir=d", "--model-name=m")
    for given in (["--flagfile=outer.flags"], ["--flagfile", "outer.flags"]):
        config = pretraining.config_from_flags(parse(pretraining, *place, *given))
        assert (config.model_size, config.train_batch_size, config.seed) == ("base", 8, 3)
        assert config.num_train_steps != 5  # the recipe, which comes later, has its own
    base = str(ROOT / "recipes/base.flags")
    assert given_flagfiles(["--flagfile=outer.flags"]) == ["outer.flags", "own.flags", base]

    runs = flops.config_from_flags(parse(flops, "--recipe=own.flags")).runs
    assert [run.name for run in runs] == ["own"]


def test_an_included_file_that_is_missing_or_includes_itself_is_reported(elsewhere):
    own = elsewhere / "own.flags"
    own.write_text("--flagfile=recipes/base.flags\n--flagfile=recipes/none.flags\n")
    with pytest.raises(UserError, match=r"No such file .*: 'recipes/none\.flags'"):
        parse(pretraining, "--flagfile=own.flags")
    own.write_text("--flagfile=recipes/base.flags\n--flagfile=own.flags\n--seed=3\n")
    assert parse(pretraining, "--flagfile=own.flags").seed == 3


def parse(program, *arguments: str) -> absl_flags.FlagValues:
    flag_values = absl_flags.FlagValues()
    absl_flags.DEFINE_string("flagfile", None, "As absl's own.", flag_values=flag_values)
    program.define_flags(flag_values)
    parsing.parse(["program", *arguments], None, flag_values)
    return flag_values


def test_the_programs_find_recipes():
    place = ("--data-dir=d", "--model-name=m")
    given = parse(
        pretraining,
        *place,
        "--flagfile",
        "recipes/base.flags",
        "--vocab-file=recipes/vocab/bert_uncased_vocab.txt",
    )
    config: PretrainingConfig = pretraining.config_from_flags(given)
    assert config.model_size == "base"
    assert config.vocab_file == str(ROOT / "recipes/vocab/bert_uncased_vocab.txt")

    # The flag file names a description, and that its data, by their places in the checkout.
    given = parse(finetuning, *place, "--flagfile=recipes/text_router.flags")
    config = finetuning.config_from_flags(given)
    assert config.task_spec == str(ROOT / "recipes/tasks/router.json")
    assert config.num_folds == 5

    runs = flops.config_from_flags(parse(flops, "--recipe=recipes/small.flags")).runs
    assert [run.name for run in runs] == ["small"]
    with pytest.raises(UserError, match=r"no such file: 'recipes/none\.flags'"):
        flops.config_from_flags(parse(flops, "--recipe=recipes/none.flags"))


@pytest.mark.parametrize("line", ["--seed 3", "--do-eval true"])
def test_a_value_after_a_space_in_a_flag_file_is_told(elsewhere, line):
    (elsewhere / "own.flags").write_text(f"{line}\n")
    name = line.split()[0].replace("-", "_").replace("__", "--")
    message = f'^Unknown flag "{line}": write {name}=VALUE$'
    with pytest.raises(UserError, match=message):
        parse(pretraining, "--flagfile=own.flags")


def test_a_flagfile_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "own.flags"
    path.write_bytes(b"--model-name=\xff\n")
    message = f"^--flagfile={path}: the file, or one that it includes, is not UTF-8$"
    with pytest.raises(UserError, match=message):
        parse(pretraining, f"--flagfile={path}")


def test_records_are_built_with_the_vocabulary_of_a_recipe():
    flag_values = absl_flags.FlagValues()
    corpus.define_corpus_flags(flag_values)
    vocabulary = "--vocab-file=recipes/vocab/bert_uncased_vocab.txt"
    arguments = ["program", "--corpus-dir=c", vocabulary, "--output-dir=o"]
    parsing.parse(arguments, corpus.ALIASES, flag_values)
    found = corpus.corpus_build_config(flag_values).vocab_file
    assert found == ROOT / "recipes/vocab/bert_uncased_vocab.txt"
