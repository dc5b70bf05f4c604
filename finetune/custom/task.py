"""Tasks made of a user's specification."""

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError
from finetune.classification.task import ClassificationTask, MultilabelTask, RegressionTask
from finetune.config import FinetuningConfig
from finetune.custom.qa import OwnQATask
from finetune.custom.spec import TaskSpec
from finetune.custom.tagging_source import OwnTaggingSource
from finetune.custom.text_source import TextSource
from finetune.tagging.task import TaggingTask
from finetune.task import Task


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
        return OwnQATask(config, spec, tokenizer)
    given = (config, spec.name, tokenizer)
    if spec.kind == "tagging":
        source = OwnTaggingSource(spec, config)
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
