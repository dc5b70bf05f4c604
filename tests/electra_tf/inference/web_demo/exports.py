"""Exports for the page: a tiny pre-trained model and a fine-tuned one."""

import pathlib

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.pretrained import PRETRAINED
from electra_tf.inference.export.run import export
from finetune.export import FINETUNED
from tests.finetune.conftest import write_model
from tests.finetune.exported_models import write_finetuned

LABELS = ["a", "<b>b</b>"]
COMPONENTS = ("discriminator", "generator", "topic")


def write_exports(folder: pathlib.Path, tiny_data: pathlib.Path) -> None:
    """Exports each of `COMPONENTS` into its folder; "topic" is a task."""
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
