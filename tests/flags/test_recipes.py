"""Every recipe is a flag file that makes a model."""

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Sequence

import pytest
from absl import flags as absl_flags

from electra_tf.config.choices import (
    EMBEDDING_SHARING,
    GENERATORS,
    MASKING,
    OBJECTIVES,
    REPLACEMENTS,
    SHARE_ALL,
)
from electra_tf.config.hyperparameters import TRAINING
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.config.recorded_settings import changed_settings
from electra_tf.config.resumption import DATA
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model_builder import build_model, model_class
from flags import finetuning, pretraining
from flags.command_line import parsing

ROOT = pathlib.Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.flags"))
MODES = sorted((ROOT / "recipes/modes").glob("*.flags"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipe(recipe, monkeypatch):
    monkeypatch.chdir(ROOT)  # recipes name files of the repository
    program = finetuning if "run_finetuning.py" in recipe.read_text() else pretraining
    config = read(program, recipe)
    if isinstance(config, PretrainingConfig):
        size = discriminator_config(config).hidden_size
        assert generator_config(config).hidden_size <= size
    header = [line for line in recipe.read_text().splitlines() if line.startswith("#")]
    for word in ("Command:", "Hardware:"):
        assert any(word in line for line in header)


@pytest.mark.parametrize("name", ["tiny", "tiny_korean"])
def test_the_second_command_of_a_recipe_resumes_the_first(name):
    recipe = ROOT / f"recipes/{name}.flags"
    header = recipe.read_text().replace("\n#", " ").replace("\\", " ")
    more = shlex.split(re.search(r"again with +(--max_seq_length.*?) Hardware:", header)[1])
    first, second = read(pretraining, recipe), read(pretraining, recipe, more=more)
    both = [dataclasses.asdict(config) for config in (first, second)]
    changes = changed_settings(PretrainingConfig, *both)
    changed = {change.name for change in changes if change.influence == TRAINING}
    assert {*changed, DATA} == set(second.allow_changed_settings)


def read(program, *recipes: pathlib.Path, more: Sequence[str] = ()):
    """Returns the configuration of recipes that follow each other, and of more flags."""
    flag_values = absl_flags.FlagValues()
    program.define_flags(flag_values)
    # absl defines --flagfile on its global flags alone.
    arguments = flag_values.read_flags_from_files([f"--flagfile={path}" for path in recipes])
    place = ("--data-dir=d", "--model-name=m")
    parsing.parse(["x", *place, *arguments, *more], None, flag_values)
    return program.config_from_flags(flag_values)


@pytest.mark.parametrize("recipe", MODES, ids=lambda path: path.stem)
def test_every_mode_is_a_recipe_that_goes_with_a_size(recipe):
    config = read(pretraining, ROOT / "recipes/small.flags", recipe)
    model_class(config).parts(config)
    build_model(config, SpecialTokenIds(101, 102, 103))
    assert f"--flagfile recipes/modes/{recipe.name}" in recipe.read_text()


@pytest.mark.parametrize("size", ["base", "large"])
@pytest.mark.parametrize("recipe", MODES, ids=lambda path: path.stem)
def test_a_mode_goes_with_larger_sizes(recipe, size):
    config = read(pretraining, ROOT / f"recipes/{size}.flags", recipe)
    model_class(config).check(config)
    assert model_class(config).parts(config)


@pytest.mark.parametrize("size", ["quickstart", "tiny", "tiny_korean", "little_text"])
@pytest.mark.parametrize("recipe", MODES, ids=lambda path: path.stem)
def test_a_mode_wins_over_settings_of_a_tiny_size(recipe, size, monkeypatch):
    """They share all weights, which two towers, for one, cannot, or raise the temperature."""
    monkeypatch.chdir(ROOT)
    if recipe.stem in ("length_curriculum", "two_stage"):
        pytest.skip("it needs 512 positions, or attention heads of 64 units")
    config = read(pretraining, ROOT / f"recipes/{size}.flags", recipe)
    model_class(config).check(config)
    assert model_class(config).parts(config)
    if config.generator_learning_rate is not None:
        assert config.embedding_sharing != SHARE_ALL


def test_every_choice_has_a_recipe():
    configs = [read(pretraining, path) for path in MODES]
    assert {config.objective for config in configs} == set(OBJECTIVES)
    assert {config.masking for config in configs} == set(MASKING)
    assert {config.generator_type for config in configs} == set(GENERATORS)
    assert {config.embedding_sharing for config in configs} == set(EMBEDDING_SHARING)
    assert {config.replacement for config in configs} == set(REPLACEMENTS)


def test_the_published_sizes_are_there():
    assert {"quickstart", "small", "base", "large"} <= {path.stem for path in RECIPES}


def test_the_page_lists_every_recipe_with_its_header():
    page = (ROOT / "recipes/README.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    assert rows == [row_of(path) for path in (*RECIPES, *MODES)]


def row_of(recipe: pathlib.Path) -> str:
    lines = recipe.read_text(encoding="utf-8").splitlines()
    title, *header = [line[1:].strip() for line in lines if line.startswith("#")]
    paper = re.search(
        r"^Paper: +(.*?)(?=^\w+:|\Z)", "\n".join(header), re.DOTALL | re.MULTILINE
    )
    source = " ".join(paper[1].split()) if paper else "-"
    link = recipe.relative_to(ROOT / "recipes")
    return f"| [`{recipe.name}`]({link}) | {title} | {source} |"
