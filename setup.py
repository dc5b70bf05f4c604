"""The packages of the wheel; everything else about it is in pyproject.toml.

`recipes/` lies at the top of a checkout, where users look for it, and is installed as
`flags/recipes/`. pyproject.toml can either find packages or name them, not both.
"""

from setuptools import find_namespace_packages, setup

PACKAGES = ("electra_tf", "pretrain_data", "finetune", "flags")
RECIPES = "flags.recipes"

# Folders of data are packages, too: setuptools warns of files in others.
setup(
    packages=[
        *find_namespace_packages(
            include=[*PACKAGES, *(f"{name}.*" for name in PACKAGES)], exclude=["*.__pycache__"]
        ),
        RECIPES,
        *(f"{RECIPES}.{folder}" for folder in find_namespace_packages("recipes")),
    ],
    package_dir={RECIPES: "recipes"},
)
