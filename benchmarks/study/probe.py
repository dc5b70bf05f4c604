r"""Linear probes: tasks solved by a linear model on the outputs of a frozen encoder.

    python -m benchmarks.study.probe --tasks sst,chunk --output SCORES.json \
        --data_dir DATA --model_name NAME --init_checkpoint DATA/models/NAME

Further flags are those of run_finetuning.py. A text is represented by the mean of its tokens'
outputs, a pair by both means u and v, |u − v| and u · v, as in SentEval (Conneau and Kiela
2018); a word of a tagging task by the output of its first piece. The scores are those of the
task's dev set, as in fine-tuning.
"""

import json
import pathlib
from collections.abc import Sequence

import numpy as np
from absl import flags

from electra_tf.util.files import write_atomically
from electra_tf.util.tensorflow_import import import_tensorflow
from flags import finetuning
from flags.command_line import program, program_names

_TASKS = flags.DEFINE_list("tasks", None, "Tasks, one by one.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "JSON file of the scores.", required=True)

_BATCH_SIZE = 64
# Inverse strength of the penalty; one value for all models and tasks.
_STRENGTH = 1.0
_MAX_ITERATIONS = 200
# More words do not change a tagging probe, but take minutes.
_MAX_WORDS = 40_000


def main() -> None:
    """Probes the encoder on each task."""
    given = {**finetuning.explicit_settings(), "report": False}
    import_tensorflow()
    print_fn = program_names.print_line
    scores = {}
    for task in _TASKS.value:
        scores[task] = [probe(given, task)]
        print_fn(f"{task}: {scores[task][0]:.2f}")
    pathlib.Path(_OUTPUT.value).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(_OUTPUT.value, json.dumps(scores) + "\n")


def probe(given: dict, task_name: str) -> float:
    """Returns the main metric of a probe on the dev set.

    Args:
        given: hyperparameters of fine-tuning.
        task_name: of a classification, regression or tagging task.
    """
    import keras

    from benchmarks.task_rows import load_task
    from electra_tf.model.encoder import Encoder
    from finetune.config.finetuning import FinetuningConfig
    from finetune.initialization import find_checkpoint, load_pretrained_encoder
    from finetune.tasks.base import TRAIN

    config = FinetuningConfig.create(**given, task_names=(task_name,))
    keras.utils.set_random_seed(config.seed)
    encoder = Encoder(config.encoder)
    checkpoint = find_checkpoint(config)
    if checkpoint:
        load_pretrained_encoder(config, checkpoint, encoder, lambda line: None)
    task, data, dev = load_task(config)
    train = data.get(task, TRAIN, is_training=False)
    is_tagging = task.kind.name == "tagging"
    (label,) = (spec.name for spec in task.feature_specs if spec.name.endswith(_LABELS))
    rows = train.rows
    if is_tagging:
        counts = np.cumsum([len(row[label]) for row in rows])
        rows = rows[: int(np.searchsorted(counts, _MAX_WORDS)) + 1]
    inputs, dev_inputs = (
        _features(encoder, part, task_name, is_tagging) for part in (rows, dev.rows)
    )
    targets = np.concatenate([np.atleast_1d(row[label]) for row in rows])
    predictions, logits = _fit(np.concatenate(inputs), targets, np.concatenate(dev_inputs))
    if is_tagging:
        ends = np.cumsum([len(words) for words in dev_inputs])[:-1]
        predictions = np.split(predictions, ends)
    outputs = [{"predictions": value, "loss": np.float64(0)} for value in predictions]
    if logits is not None and not is_tagging:
        for output, row in zip(outputs, logits, strict=True):
            output["logits"] = row
    return float(task.score(dev, outputs).main_value)


_LABELS = ("_label_ids", "_targets", "_labels")


def _features(
    encoder, rows: Sequence[dict], task_name: str, is_tagging: bool
) -> list[np.ndarray]:
    """Returns float32 [words or 1, size] of each row."""
    import tensorflow as tf

    from finetune.data.features import INPUT_IDS, SEGMENT_IDS

    encode = tf.function(
        lambda ids, mask, segments: encoder(ids, mask, segments).sequence_output,
        reduce_retracing=True,
    )
    length = max(len(row[INPUT_IDS]) for row in rows)
    found = []
    for start in range(0, len(rows), _BATCH_SIZE):
        batch = rows[start : start + _BATCH_SIZE]
        ids, mask, segments = np.zeros((3, _BATCH_SIZE, length), np.int32)
        for i, row in enumerate(batch):
            count = len(row[INPUT_IDS])
            ids[i, :count], mask[i, :count] = row[INPUT_IDS], 1
            segments[i, :count] = row[SEGMENT_IDS]
        outputs = tf.cast(encode(ids, mask, segments), tf.float32).numpy()
        for row, output in zip(batch, outputs, strict=False):
            if is_tagging:
                found.append(output[row[f"{task_name}_labeled_positions"]])
                continue
            segment = np.asarray(row[SEGMENT_IDS])
            u, *others = (
                output[: len(segment)][segment == k].mean(axis=0) for k in np.unique(segment)
            )
            parts = [u, *others]
            for v in others:
                parts += [np.abs(u - v), u * v]
            found.append(np.concatenate(parts)[None])
    return found


def _fit(
    inputs: np.ndarray, targets: np.ndarray, dev_inputs: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns predictions, and logits of classes, of a linear model on standardized inputs."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(inputs)
    inputs, dev_inputs = scaler.transform(inputs), scaler.transform(dev_inputs)
    if not np.issubdtype(targets.dtype, np.integer):
        return Ridge(1 / _STRENGTH).fit(inputs, targets).predict(dev_inputs), None
    model = LogisticRegression(C=_STRENGTH, max_iter=_MAX_ITERATIONS, tol=1e-3)
    model.fit(inputs, targets)
    return model.predict(dev_inputs), model.predict_log_proba(dev_inputs)


if __name__ == "__main__":
    finetuning.define_flags()
    program.run(main)
