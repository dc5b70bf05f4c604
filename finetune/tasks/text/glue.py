"""The tasks of GLUE (Wang et al. 2019), read from the files of its official download.

`RAW_DATA_DIR/<task>/<split>.tsv`: tab-separated, no quoting. Columns are counted from 0.
"""

import dataclasses
import os
from collections.abc import Mapping

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.console import warn_once
from finetune.config.finetuning import FinetuningConfig
from finetune.tasks.text.classification import ClassificationTask
from finetune.tasks.text.examples import class_label, number_label
from finetune.tasks.text.regression import RegressionTask
from finetune.tasks.text.submissions import STS_RANGE
from finetune.tasks.text.tsv import TRAIN, TsvLayout, TsvSource

BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """Definition of a task.

    Attributes:
        labels: labels in the order of the authors' ids; empty for regression.
        layouts: file layout of each split.
        metrics: metrics, the main one first.
        dev_splits, test_splits: splits in order.
        unordered: whether the texts of a pair may be swapped.
    """

    labels: tuple[str, ...]
    layouts: dict[str, TsvLayout]
    metrics: tuple[str, ...] = ("accuracy",)
    dev_splits: tuple[str, ...] = ("dev",)
    test_splits: tuple[str, ...] = ("test",)
    unordered: bool = False

    @property
    def has_pairs(self) -> bool:
        """Whether examples are pairs of texts."""
        return self.layouts[TRAIN].text_b is not None


def _layouts(labeled: TsvLayout, test: TsvLayout) -> dict[str, TsvLayout]:
    return {TRAIN: labeled, "dev": labeled, "test": test}


_MNLI = TsvLayout(text_a=8, text_b=9, label=-1)
_MNLI_TEST = TsvLayout(text_a=8, text_b=9)
_PAIR = TsvLayout(text_a=1, text_b=2, label=3)
_PAIR_TEST = TsvLayout(text_a=1, text_b=2)
GLUE_TASKS = {
    "cola": GlueTask(
        BINARY,
        _layouts(
            TsvLayout(text_a=3, label=1, num_columns=4, header=False), TsvLayout(text_a=1)
        ),
        metrics=("mcc", "accuracy"),
    ),
    "sst": GlueTask(BINARY, _layouts(TsvLayout(text_a=0, label=1), TsvLayout(text_a=1))),
    "mrpc": GlueTask(
        BINARY,
        _layouts(TsvLayout(text_a=3, text_b=4, label=0), TsvLayout(text_a=3, text_b=4)),
        metrics=("accuracy", "f1"),
        unordered=True,
    ),
    "qqp": GlueTask(
        BINARY,
        _layouts(
            # GLUE's release has malformed rows.
            TsvLayout(text_a=3, text_b=4, label=5, skip_malformed=True),
            dataclasses.replace(_PAIR_TEST, skip_malformed=True),
        ),
        metrics=("accuracy", "f1"),
    ),
    "mnli": GlueTask(
        ("contradiction", "entailment", "neutral"),
        {
            TRAIN: _MNLI,
            "dev_matched": _MNLI,
            "dev_mismatched": _MNLI,
            "test_matched": _MNLI_TEST,
            "test_mismatched": _MNLI_TEST,
            "diagnostic": _PAIR_TEST,
        },
        dev_splits=("dev_matched", "dev_mismatched"),
        test_splits=("test_matched", "test_mismatched", "diagnostic"),
    ),
    "qnli": GlueTask(ENTAILMENT, _layouts(_PAIR, _PAIR_TEST)),
    "rte": GlueTask(ENTAILMENT, _layouts(_PAIR, _PAIR_TEST)),
    "wnli": GlueTask(BINARY, _layouts(_PAIR, _PAIR_TEST)),
    "sts": GlueTask(
        (),
        _layouts(TsvLayout(text_a=-3, text_b=-2, label=-1), TsvLayout(text_a=-2, text_b=-1)),
        metrics=("spearman",),
        unordered=True,
    ),
}


def make_glue_task(
    config: FinetuningConfig, name: str, tokenizer: CachedTokenizer
) -> ClassificationTask | RegressionTask:
    """Returns a task of GLUE."""
    task = GLUE_TASKS[name]
    directory = os.path.join(config.raw_data_dir, name)
    files = {split: os.path.join(directory, f"{split}.tsv") for split in task.layouts}
    source = TsvSource(
        files,
        task.layouts,
        class_label(task.labels) if task.labels else number_label(*STS_RANGE),
        task.labels[0] if task.labels else STS_RANGE[0],
        dev_splits=_dev_splits(name, task, files),
        test_splits=task.test_splits,
        double_unordered=task.unordered and config.double_unordered,
    )
    if task.labels:
        return ClassificationTask(
            config, name, tokenizer, source, labels=task.labels, metrics=task.metrics
        )
    low, high = STS_RANGE
    return RegressionTask(config, name, tokenizer, source, min_label=low, max_label=high)


def _dev_splits(name: str, task: GlueTask, files: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the dev splits to evaluate on, without the second one if it has no file.

    The authors' code reads the first one only. If both are missing, the error names the first.
    """
    first, *others = task.dev_splits
    if not os.path.exists(files[first]):
        return task.dev_splits
    there = [split for split in others if os.path.exists(files[split])]
    for split in others:
        if split not in there:
            warn_once(f"{name}: there is no {files[split]}, so only {first} is evaluated")
    return (first, *there)
