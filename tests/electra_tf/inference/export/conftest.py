"""Exports of a tiny pre-trained model, shared by the tests of a session."""

import pathlib

import pytest

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.pretrained import COMPONENTS, PRETRAINED
from electra_tf.inference.export.run import export
from tests.finetune.conftest import write_model


@pytest.fixture(scope="session")
def pretrained_dir(tmp_path_factory, tiny_data) -> str:
    """The folder of a tiny pre-trained model."""
    folder = tmp_path_factory.mktemp("pretrained") / "models" / "m"
    write_model(folder, tiny_data)
    return str(folder)


@pytest.fixture(scope="session")
def exported(pretrained_dir, tmp_path_factory) -> dict[str, pathlib.Path]:
    """The SavedModels of its components, by their names."""
    folder = tmp_path_factory.mktemp("exported")
    return {
        name: export(
            ExportConfig(
                model_dir=pretrained_dir, export_dir=folder / name, component=name, top_k=3
            ),
            [PRETRAINED],
            lambda line: None,
        )
        for name in COMPONENTS
    }
