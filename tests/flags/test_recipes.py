"""Every recipe is a flag file that makes a model."""

import pathlib

import pytest
from absl import flags as absl_flags

from electra_tf.config import PretrainingConfig, discriminator_config, generator_config
from flags import command_line, finetuning, pretraining

ROOT = pathlib.Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.flags"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipe(recipe, monkeypatch):
    monkeypatch.chdir(ROOT)  # recipes name files of the repository
    program = finetuning if "run_finetuning.py" in recipe.read_text() else pretraining
    flag_values = absl_flags.FlagValues()
    program.define_flags(flag_values)
    # absl defines --flagfile on its global flags alone.
    arguments = flag_values.read_flags_from_files([f"--flagfile={recipe}"])
    command_line.parse(["x", "--data-dir=d", "--model-name=m", *arguments], None, flag_values)
    config = program.config_from_flags(flag_values)
    if isinstance(config, PretrainingConfig):
        size = discriminator_config(config).hidden_size
        assert generator_config(config).hidden_size <= size
    header = [line for line in recipe.read_text().splitlines() if line.startswith("#")]
    for word in ("Command:", "Hardware:"):
        assert any(word in line for line in header)


def test_the_published_sizes_are_there():
    assert {"quickstart", "small", "base", "large"} <= {path.stem for path in RECIPES}
