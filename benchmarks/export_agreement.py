r"""Compares the predictions of a classifier's exports with those of the model, on real texts.

    python -m benchmarks.export_agreement --model_dir TASK_model_1 --texts FILE

It exports a fine-tuned classification model of single texts to SavedModels (float32 and
bfloat16), LiteRT and ONNX (float32 and int8 weights each). For each it reports the share of
texts with the class that the model predicts in float32, and the differences from the
model's probabilities. Classes differ first where the model is undecided, so the share of
such texts is printed, too. It needs the packages of `benchmarks.export_formats`.
"""

import pathlib
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import flags

from benchmarks.exported_models import IDS, LITERT, LOADERS, ONNX
from benchmarks.side_by_side import NUM_CORES
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from electra_tf.util.tensorflow_import import import_tensorflow
from flags.command_line import program

if TYPE_CHECKING:
    from electra_tf.inference.export.servable import Servable
    from electra_tf.text.text_inputs import EncoderInputs

_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Fine-tuned model.", required=True)
_TEXTS = flags.DEFINE_string("texts", None, "File with a text per line.", required=True)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 1, "Texts per request.", lower_bound=1)

# Name of an export: its format, precision, file in the folder of the version, and loader.
EXPORTS = {
    "SavedModel, float32": ("saved_model", "float32", "", IDS),
    "SavedModel, mixed_bfloat16": ("saved_model", "mixed_bfloat16", "", IDS),
    "LiteRT, float32": ("litert", "float32", "model_float32.tflite", LITERT),
    "LiteRT, int8 weights": ("litert", "float32", "model_int8.tflite", LITERT),
    "ONNX Runtime, float32": ("onnx", "float32", "model.onnx", ONNX),
    "ONNX Runtime, int8 weights": ("onnx", "float32", "model_int8.onnx", ONNX),
}

UNDECIDED = 0.05


def main() -> None:
    """Prints the table."""
    import_tensorflow()
    from electra_tf.inference.export.config import ExportConfig
    from electra_tf.inference.export.run import export, load_servable
    from electra_tf.inference.export.servable import trace_predict
    from finetune.export import FINETUNED

    with tempfile.TemporaryDirectory() as folder:

        def config_of(kind: str, precision: str) -> ExportConfig:
            return ExportConfig(
                model_dir=_MODEL_DIR.value,
                export_dir=pathlib.Path(folder, f"{kind}_{precision}"),
                format=kind,
                precision=precision,
            )

        servable = load_servable(config_of("saved_model", "float32"), [FINETUNED], _quiet)
        batches = make_batches(servable, read_texts(_TEXTS.value), _BATCH_SIZE.value)
        predict = trace_predict(servable)
        wanted = np.concatenate([predict(**i._asdict())["scores"].numpy() for i in batches])
        exports, rows = {}, []
        for name, (kind, precision, file, loader) in EXPORTS.items():
            key = (kind, precision)
            if key not in exports:
                exports[key] = export(config_of(*key), [FINETUNED], _quiet)
            run = LOADERS[loader](str(exports[key] / file), NUM_CORES)
            found = np.concatenate([run(*(x.numpy() for x in inputs)) for inputs in batches])
            rows.append([name, *compare(found, wanted)])
    top = np.sort(wanted, axis=1)
    undecided = np.mean(top[:, -1] - top[:, -2] < UNDECIDED)
    print(
        f"{len(wanted)} texts, {_BATCH_SIZE.value} per request. For {undecided:.1%} of them, "
        f"the model's two best probabilities differ by less than {UNDECIDED}.\n"
    )
    header = ["", "same class", "largest difference", "mean difference"]
    print(markdown_table(header, rows, text_columns=1))


def read_texts(path: str) -> list[str]:
    """Returns the lines of a file that have text.

    Raises:
        UserError: there are none.
    """
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise UserError(f"--texts={path} has no text")
    return texts


def make_batches(
    servable: "Servable", texts: Sequence[str], size: int
) -> "list[EncoderInputs]":
    """Returns the inputs of each request, padded to its longest text."""
    from electra_tf.text.text_inputs import single_text_inputs

    batches = []
    for start in range(0, len(texts), size):
        tokens = servable.tokenizer.tokenize(list(texts[start : start + size]))
        inputs = single_text_inputs(servable.vocabulary, tokens, servable.max_seq_length)
        batches.append(inputs)
    return batches


def compare(found: np.ndarray, wanted: np.ndarray) -> list[str]:
    """Returns the cells of a row: the share of equal classes, and differences."""
    same = np.mean(found.argmax(axis=1) == wanted.argmax(axis=1))
    differences = np.abs(found - wanted)
    return [f"{same:.2%}", f"{differences.max():.1e}", f"{differences.mean():.1e}"]


def _quiet(message: str) -> None:
    """Prints nothing."""


if __name__ == "__main__":
    program.run(main)
