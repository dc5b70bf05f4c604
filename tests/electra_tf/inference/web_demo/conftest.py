"""Exports for the page: a tiny pre-trained model and a fine-tuned one."""

import pytest

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.pretrained import PRETRAINED
from electra_tf.inference.export.run import export
from electra_tf.inference.web_demo.config import DemoConfig
from finetune.export import FINETUNED
from tests.finetune.conftest import write_model
from tests.finetune.exported_models import write_finetuned

LABELS = ["a", "<b>b</b>"]


@pytest.fixture(scope="session")
def demo_config(tmp_path_factory, tiny_data) -> DemoConfig:
    """A page over all of them, for texts of 100 characters at most."""
    folder = tmp_path_factory.mktemp("web_demo")
    write_model(folder / "m", tiny_data)
    (folder / "finetuned").mkdir()
    task = {"kind": "classification", "has_pairs": False, "labels": LABELS}
    models = {
        "discriminator": str(folder / "m"),
        "generator": str(folder / "m"),
        "topic": write_finetuned(folder / "finetuned", {"topic": task}),
    }
    for name, model_dir in models.items():
        config = ExportConfig(
            model_dir=model_dir, export_dir=folder / name, component=name, top_k=3
        )
        export(config, (PRETRAINED, FINETUNED), lambda line: None)
    return DemoConfig(
        discriminator=folder / "discriminator",
        generator=folder / "generator",
        tasks={"topic": folder / "topic"},
        port=0,
        max_characters=100,
    )
