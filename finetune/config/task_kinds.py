"""The kinds of tasks: names, file formats, metrics, and the code that implements them.

A new kind is a folder in `finetune/tasks/` and a `TaskKind` here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

# Units of tagging metrics.
LEVELS = SPAN, TOKEN = ("span", "token")
# Formats of records with named columns.
TABLES = ("tsv", "csv", "jsonl", "parquet")
FILE_FORMATS = (*TABLES, "conll", "squad", "mrqa")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskKind:
    """One kind of task. Code is given as "module:name" and imported on use.

    Attributes:
        name: name in `config.json`, task descriptions and `--own_task_kind`.
        task: subclass of `finetune.tasks.base.Task`.
        servable: class (model, task, max_seq_length) of exported models.
        make_custom: function (config, spec, tokenizer) -> Task, for custom tasks.
        make_built_in: function (config, name, tokenizer) -> Task, for `built_in` tasks.
        built_in: names of the built-in tasks: the authors', and a few of the same kinds.
        file_formats: supported formats of a custom task's files.
        required_columns, optional_columns: roles of columns.
        list_columns: roles whose values are lists: in one column, or one column per value.
        column_synonyms: alternative names of roles.
        formats_without_columns: format assumed for an extension if no columns are given.
        spec_keys: keys of a description in addition to those of every kind.
        metrics: possible main metrics by level, the default first; under None for kinds
            without levels.
        defaults: default hyperparameters of a single task of this kind.
        hyperparameters: hyperparameters for this kind and others that list them; an error for
            tasks of any other kind.
        ignored_hyperparameters: the same, but ignored with a warning, as tasks of all kinds
            may share a file of the authors' hyperparameters.
        serving: hyperparameters that the predictions of exported models depend on.
    """

    name: str
    task: str
    servable: str
    make_custom: str
    make_built_in: str | None = None
    built_in: tuple[str, ...] = ()
    file_formats: tuple[str, ...] = TABLES
    required_columns: tuple[str, ...]
    optional_columns: tuple[str, ...] = ("id",)
    list_columns: tuple[str, ...] = ()
    column_synonyms: Mapping[str, str] = dataclasses.field(default_factory=dict)
    formats_without_columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    spec_keys: tuple[str, ...] = ()
    metrics: Mapping[str | None, tuple[str, ...]]
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hyperparameters: tuple[str, ...] = ()
    ignored_hyperparameters: tuple[str, ...] = ()
    serving: tuple[str, ...] = ("max_seq_length",)

    def main_metrics(self, level: str | None = None) -> tuple[str, ...]:
        """Returns the possible main metrics of a task, the default first.

        Args:
            level: level of the task; None chooses the first level of the kind.
        """
        return self.metrics.get(level) or next(iter(self.metrics.values()))


_TEXT_COLUMNS: Mapping[str, Any] = {
    "required_columns": ("text_a", "label"),
    "optional_columns": ("text_b", "id"),
    "column_synonyms": {"text": "text_a"},
}

CLASSIFICATION = TaskKind(
    name="classification",
    task="finetune.tasks.text.classification:ClassificationTask",
    servable="finetune.tasks.text.classification:ClassificationServable",
    make_custom="finetune.tasks.text.custom:make_custom_classification_task",
    make_built_in="finetune.tasks.text.glue:make_glue_task",
    built_in=("cola", "sst", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli"),
    **_TEXT_COLUMNS,
    spec_keys=("labels",),
    metrics={None: ("accuracy", "mcc", "f1", "macro_f1")},
    hyperparameters=(
        "class_weights",
        "label_smoothing",
        "focal_gamma",
        "long_text",
        "window_stride",
        "window_pooling",
    ),
    serving=("max_seq_length", "long_text", "window_stride", "window_pooling"),
)
MULTILABEL = TaskKind(
    name="multilabel",
    task="finetune.tasks.text.multilabel:MultilabelTask",
    servable="finetune.tasks.text.multilabel:MultilabelServable",
    make_custom="finetune.tasks.text.custom:make_custom_multilabel_task",
    **_TEXT_COLUMNS,
    spec_keys=("labels", "label_separator"),
    metrics={None: ("micro_f1", "macro_f1", "subset_accuracy")},
)
REGRESSION = TaskKind(
    name="regression",
    task="finetune.tasks.text.regression:RegressionTask",
    servable="finetune.tasks.text.regression:RegressionServable",
    make_custom="finetune.tasks.text.custom:make_custom_regression_task",
    make_built_in="finetune.tasks.text.glue:make_glue_task",
    built_in=("sts",),
    **_TEXT_COLUMNS,
    spec_keys=("min_label", "max_label"),
    metrics={None: ("spearman", "pearson")},
)
TAGGING = TaskKind(
    name="tagging",
    task="finetune.tasks.tagging.task:TaggingTask",
    servable="finetune.tasks.tagging.serving:TaggingServable",
    make_custom="finetune.tasks.tagging.custom:make_custom_tagging_task",
    make_built_in="finetune.tasks.tagging.task:make_tagging_task",
    built_in=("chunk", "ner", "pos"),
    file_formats=(*TABLES, "conll"),
    required_columns=("words", "tags"),
    spec_keys=("labels", "level"),
    metrics={SPAN: ("f1", "accuracy"), TOKEN: ("accuracy",)},
    hyperparameters=("authors_tagging_truncation",),
)
QA = TaskKind(
    name="qa",
    task="finetune.tasks.qa.task:QATask",
    servable="finetune.tasks.qa.serving:QAServable",
    make_custom="finetune.tasks.qa.custom:CustomQATask",
    make_built_in="finetune.tasks.qa.task:make_qa_task",
    built_in=("squad", "squadv1", "newsqa", "naturalqs", "triviaqa", "searchqa"),
    file_formats=("squad", "mrqa", *TABLES),
    required_columns=("question", "context", "answers"),
    optional_columns=("answer_start", "id"),
    formats_without_columns={"jsonl": "mrqa"},
    spec_keys=("unanswerable",),
    metrics={None: ("f1", "exact_match")},
    defaults={"num_train_epochs": 2.0, "max_seq_length": 512},
    hyperparameters=("authors_qa_answer_check",),
    ignored_hyperparameters=(
        "answerable_classifier",
        "answerable_uses_start_logits",
        "answerable_weight",
        "beam_size",
        "doc_stride",
        "joint_prediction",
        "max_answer_length",
        "max_query_length",
        "n_best_size",
        "qa_na_threshold",
    ),
    serving=(
        "max_seq_length",
        "max_query_length",
        "doc_stride",
        "n_best_size",
        "max_answer_length",
        "beam_size",
        "qa_na_threshold",
    ),
)
MULTIPLE_CHOICE = TaskKind(
    name="multiple_choice",
    task="finetune.tasks.choice.task:ChoiceTask",
    servable="finetune.tasks.choice.serving:ChoiceServable",
    make_custom="finetune.tasks.choice.custom:make_custom_choice_task",
    required_columns=("text", "choices", "label"),
    optional_columns=("question", "id"),
    list_columns=("choices",),
    spec_keys=("labels",),
    metrics={None: ("accuracy",)},
    hyperparameters=("label_smoothing", "focal_gamma"),
)
KINDS: tuple[TaskKind, ...] = (
    CLASSIFICATION,
    MULTILABEL,
    REGRESSION,
    TAGGING,
    QA,
    MULTIPLE_CHOICE,
)


def kinds_by_name() -> dict[str, TaskKind]:
    """Returns the kinds in the order of `KINDS`."""
    return {kind.name: kind for kind in KINDS}


def built_in_kinds() -> dict[str, TaskKind]:
    """Returns the kind of each built-in task."""
    return {task: kind for kind in KINDS for task in kind.built_in}


def kind_of_task(task_name: str) -> str:
    """Returns the kind of a built-in task by name; "classification" for other names."""
    return built_in_kinds().get(task_name, CLASSIFICATION).name
