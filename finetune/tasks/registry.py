"""The tasks of a run, by name: the authors' own and those that users describe."""

from collections.abc import Mapping
from typing import Any

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError, nearest_name_hint
from finetune.config.defaults import QA_TASKS
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_spec import TaskSpec
from finetune.config.task_spec_parser import OWN_TASK_PREFIX, load_specs, spec_from_flags
from finetune.tasks.base import Task
from finetune.tasks.qa.custom import CustomQATask
from finetune.tasks.qa.task import QATask, make_qa_task
from finetune.tasks.sources import NoSource
from finetune.tasks.tagging.custom import CustomTaggingSource
from finetune.tasks.tagging.task import TAGGING_TASKS, TaggingTask, make_tagging_task
from finetune.tasks.text.classification import ClassificationTask
from finetune.tasks.text.custom import TextSource
from finetune.tasks.text.glue import GLUE_TASKS, make_glue_task
from finetune.tasks.text.multilabel import MultilabelTask
from finetune.tasks.text.regression import RegressionTask

BUILT_IN_TASKS = (*GLUE_TASKS, *TAGGING_TASKS, *QA_TASKS)


def build_tasks(config: FinetuningConfig, tokenizer: CachedTokenizer) -> list[Task]:
    """Returns the tasks of `config.task_names`, in that order.

    A name is that of a built-in task, or of a task described by `--task_spec`, or, for
    one name at most, by the `--own_task_...` flags.

    Args:
        config: hyperparameters.
        tokenizer: of the pre-trained model.

    Raises:
        UserError: for an unknown name, or a description that is wrong, has the name of a
            built-in task or is not used.
    """
    specs = own_specs(config)
    return [_build_task(config, name, tokenizer, specs.get(name)) for name in config.task_names]


def own_specs(config: FinetuningConfig) -> dict[str, TaskSpec]:
    """Returns the descriptions of a run's own tasks by name, having read no data.

    Raises:
        UserError: as `build_tasks`.
    """
    listed = ", ".join(config.task_names)
    specs = (
        {spec.name: spec for spec in load_specs(config.task_spec)} if config.task_spec else {}
    )
    for name, spec in specs.items():
        if name in BUILT_IN_TASKS:
            raise UserError(
                f"{spec.source}: {name!r} is the name of a built-in task; choose another one "
                "for yours, here and in --task_names"
            )
        if name not in config.task_names:
            raise UserError(
                f"{spec.source} describes task {name!r}, and --task_names is {listed}: add "
                f"it there, or remove the description."
                f"{nearest_name_hint(name, config.task_names)}"
            )
    unknown = [n for n in config.task_names if n not in BUILT_IN_TASKS and n not in specs]
    flagged = spec_from_flags(config, unknown[0] if unknown else "task")
    if flagged and len(unknown) != 1:
        raise UserError(
            f"The --{OWN_TASK_PREFIX}... flags describe one task, and of --task_names "
            f"({listed}) {len(unknown)} are neither built-in nor in --task_spec; use "
            "--task_spec for several tasks of your own"
        )
    if flagged:
        return {**specs, flagged.name: flagged}
    for name in unknown:
        raise UserError(
            f"Unknown task {name!r} in --task_names."
            f"{nearest_name_hint(name, BUILT_IN_TASKS)} Built-in tasks: "
            f"{', '.join(BUILT_IN_TASKS)}. Describe a task of your own with --task_spec or "
            f"--{OWN_TASK_PREFIX}kind and --{OWN_TASK_PREFIX}files"
        )
    return specs


def _build_task(
    config: FinetuningConfig, name: str, tokenizer: CachedTokenizer, spec: TaskSpec | None
) -> Task:
    if spec is not None:
        return make_custom_task(config, spec, tokenizer)
    if name in GLUE_TASKS:
        return make_glue_task(config, name, tokenizer)
    if name in TAGGING_TASKS:
        return make_tagging_task(config, name, tokenizer)
    return make_qa_task(config, name, tokenizer)


def restore_tasks(
    config: FinetuningConfig,
    tokenizer: CachedTokenizer,
    descriptions: Mapping[str, Mapping[str, Any]],
) -> list[Task]:
    """Returns the tasks of a fine-tuned model to predict with; no data are needed.

    Args:
        config: hyperparameters of the model.
        tokenizer: of the model.
        descriptions: `Task.description` of each of `config.task_names`.
    """
    return [
        _restore_task(config, name, tokenizer, descriptions[name]) for name in config.task_names
    ]


def _restore_task(
    config: FinetuningConfig, name: str, tokenizer: CachedTokenizer, description: Mapping
) -> Task:
    settings = dict(description)
    kind = settings.pop("kind")
    given = (config, name, tokenizer)
    if kind == "qa":
        return QATask(*given, **settings, files={})
    if kind == "tagging":
        return TaggingTask(*given, NoSource(), **settings)
    source = NoSource(settings.pop("has_pairs"))
    task_classes = (ClassificationTask, MultilabelTask, RegressionTask)
    (task_class,) = [each for each in task_classes if kind == each.kind]
    return task_class(*given, source, **settings)


def make_custom_task(
    config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer
) -> Task:
    """Returns the task that a specification describes.

    The train file is read where labels, or their range, are to be found in it.

    Args:
        config: hyperparameters.
        spec: of the task.
        tokenizer: of the pre-trained model.

    Raises:
        UserError: for a train file that is missing or broken, or if an evaluation is asked
            for and there is nothing to evaluate on.
    """
    task = _make(config, spec, tokenizer)
    evaluates = config.do_eval or config.keep_best or config.eval_steps
    if evaluates and not task.dev_splits and not config.num_folds:
        raise UserError(
            f"{spec.source}: task {spec.name!r} has nothing to evaluate on: give it a dev "
            'file or a "dev_fraction" above 0, or pass --do_eval=false'
        )
    return task


def _make(config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer) -> Task:
    if spec.kind == "qa":
        return CustomQATask(config, spec, tokenizer)
    given = (config, spec.name, tokenizer)
    if spec.kind == "tagging":
        source = CustomTaggingSource(spec, config)
        return TaggingTask(
            *given, source, labels=source.labels, level=spec.level, main_metric=spec.metric
        )
    source = TextSource(spec, config)
    if spec.kind == "regression":
        low, high = source.label_range
        return RegressionTask(
            *given, source, min_label=low, max_label=high, main_metric=spec.metric
        )
    if spec.kind == "multilabel":
        return MultilabelTask(*given, source, labels=source.labels, main_metric=spec.metric)
    return ClassificationTask(
        *given,
        source,
        labels=source.labels,
        metrics=ClassificationTask.METRICS,
        main_metric=spec.metric,
    )
