"""Recipes are found from any folder, and a file of the working folder wins."""

import pathlib

import pytest
from absl import flags as absl_flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.errors import UserError
from flags import corpus, finetuning, flops, pretraining
from flags.command_line import parsing, recipe_files
from flags.command_line.recipe_files import find_flagfiles, find_recipe

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


def test_a_flagfile_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "own.flags"
    path.write_bytes(b"--model-name=\xff\n")
    message = f"^--flagfile={path}: the file, or one that it names, is not UTF-8$"
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
