"""The packages of the wheel; everything else about it is in pyproject.toml.

`recipes/` lies at the top of a checkout, where users look for it, and is installed as
`flags/recipes/`. pyproject.toml can either find packages or name them, not both.
"""

from setuptools import find_packages, setup

PACKAGES = ("electra_tf", "pretrain_data", "finetune", "flags")

setup(
    packages=[
        *find_packages(include=[*PACKAGES, *(f"{name}.*" for name in PACKAGES)]),
        "flags.recipes",
    ],
    package_dir={"flags.recipes": "recipes"},
)
