"""The tasks of a run by name: built-in tasks and custom ones."""

import dataclasses
import pkgutil
from collections.abc import Mapping
from typing import Any

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, nearest_name_hint
from finetune.config.custom_task_fields import OWN_TASK_PREFIX
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import TaskKind, built_in_kinds, kinds_by_name
from finetune.config.task_spec import TaskSpec
from finetune.config.task_spec_parser import load_specs, spec_from_flags
from finetune.tasks.base import Task

# Other names of development sets, in lower case.
_NAMES_OF_DEV = ("dev", "development", "devel", "validation", "valid", "val", "eval")


def build_tasks(config: FinetuningConfig, tokenizer: CachedTokenizer) -> list[Task]:
    """Returns the tasks of `config.task_names`, in order.

    A name is that of a built-in task, of a task in `--task_spec`, or (at most one) of the
    task described by the `--own_task_...` flags.

    Args:
        config: hyperparameters.
        tokenizer: tokenizer of the pre-trained model.

    Raises:
        UserError: a name is unknown, or a description is invalid, unused, or has the name of
            a built-in task.
    """
    specs = custom_specs(config)
    _check_used(config, specs)
    tasks = [
        make_custom_task(config, specs[name], tokenizer)
        if name in specs
        else make_built_in_task(config, name, tokenizer)
        for name in config.task_names
    ]
    has_answers = {getattr(task, "v2", None) for task in tasks} - {None} == {False}
    if has_answers and config.qa_na_threshold != FinetuningConfig.qa_na_threshold:
        warn_once(
            f"--qa_na_threshold={config.qa_na_threshold} has no effect: all questions of "
            f"{', '.join(config.task_names)} have an answer"
        )
    return tasks


def _check_used(config: FinetuningConfig, specs: Mapping[str, TaskSpec]) -> None:
    """Refuses hyperparameters of kinds that no task has; warns of the authors' ones.

    Raises:
        UserError: a hyperparameter that the authors' code does not have is given.
    """
    kinds = {
        name: specs[name].kind if name in specs else built_in_kinds()[name]
        for name in config.task_names
    }
    of_kinds: dict[str, list[TaskKind]] = {}
    for kind in kinds_by_name().values():
        for name in (*kind.hyperparameters, *kind.ignored_hyperparameters):
            of_kinds.setdefault(name, []).append(kind)
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    listed = ", ".join(f"{task} is {kind.name}" for task, kind in kinds.items())
    for name, having in of_kinds.items():
        is_used = any(kind in having for kind in kinds.values())
        if is_used or getattr(config, name) == defaults[name]:
            continue
        named = " and ".join(kind.name for kind in having)
        fault = f"--{name} is for {named} tasks, but {listed}"
        if name in having[0].hyperparameters:
            raise UserError(f"{fault}: remove it")
        warn_once(f"{fault}: it has no effect")


def custom_specs(config: FinetuningConfig) -> dict[str, TaskSpec]:
    """Returns the descriptions of the custom tasks of a run by name, without reading data.

    Raises:
        UserError: as `build_tasks`.
    """
    listed = ", ".join(config.task_names)
    built_in = tuple(built_in_kinds())
    specs = (
        {spec.name: spec for spec in load_specs(config.task_spec)} if config.task_spec else {}
    )
    for name, spec in specs.items():
        if name in built_in:
            raise UserError(
                f"{spec.source}: {name!r} is the name of a built-in task; rename yours, here "
                "and in --task_names"
            )
        if name not in config.task_names:
            raise UserError(
                f"{spec.source} describes task {name!r}, but --task_names is {listed}: add "
                f"it there, or remove the description."
                f"{nearest_name_hint(name, config.task_names)}"
            )
    unknown = [n for n in config.task_names if n not in built_in and n not in specs]
    flagged = spec_from_flags(dataclasses.asdict(config), unknown[0] if unknown else "task")
    if flagged and len(unknown) != 1:
        raise UserError(
            f"The --{OWN_TASK_PREFIX}... flags describe one task, but {len(unknown)} of "
            f"--task_names ({listed}) are neither built-in nor in --task_spec; use "
            "--task_spec for several custom tasks"
        )
    if flagged:
        return {**specs, flagged.name: flagged}
    for name in unknown:
        raise UserError(
            f"Unknown task {name!r} in --task_names."
            f"{nearest_name_hint(name, built_in)} Built-in tasks: "
            f"{', '.join(built_in)}. Describe a custom task with --task_spec or "
            f"--{OWN_TASK_PREFIX}kind and --{OWN_TASK_PREFIX}files"
        )
    return specs


def make_built_in_task(config: FinetuningConfig, name: str, tokenizer: CachedTokenizer) -> Task:
    """Returns a built-in task."""
    kind = built_in_kinds()[name]
    return pkgutil.resolve_name(kind.make_built_in)(config, name, tokenizer)


def make_custom_task(
    config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer
) -> Task:
    """Returns a custom task.

    The train file is read if the description lacks labels or their range.

    Args:
        config: hyperparameters.
        spec: description of the task.
        tokenizer: tokenizer of the pre-trained model.

    Raises:
        UserError: the train file is missing or malformed, or an evaluation is requested
            without a dev split.
    """
    task = pkgutil.resolve_name(spec.kind.make_custom)(config, spec, tokenizer)
    evaluates = config.do_eval or config.keep_best or config.eval_steps
    if evaluates and not task.dev_splits and not config.num_folds:
        raise UserError(
            f"{spec.source}: task {spec.name!r} has nothing to evaluate on: add a dev file or "
            'a "dev_fraction" above 0, or pass --do_eval=false'
        )
    if spec.group_column is not None and not (config.num_folds or spec.held_out_fraction):
        warn_once(
            f'{spec.source}: "group_column" of task {spec.name!r} has no effect: '
            "it is for --num_folds, and for a dev split that is held out of train"
        )
    if spec.dev_seed != TaskSpec.dev_seed and (config.num_folds or not spec.held_out_fraction):
        warn_once(
            f'{spec.source}: "dev_seed" of task {spec.name!r} has no effect: it is for a dev '
            "split that is held out of train"
        )
    if config.num_folds:
        _warn_of_unused_splits(config, spec, task)
    elif spec.held_out_fraction and spec.dev_fraction is None:
        _warn_of_other_dev(spec)
    return task


def _warn_of_other_dev(spec: TaskSpec) -> None:
    """Warns of a split that is probably meant as dev, if dev is held out of train."""
    others = [split for split in spec.files if split.lower() in _NAMES_OF_DEV]
    if others:
        warn_once(
            f"{spec.source}: task {spec.name!r} has no split dev, so "
            f"{spec.held_out_fraction:.0%} of train are held out as dev, which chooses weights "
            f"and trials; {others[0]} is only evaluated after it. If that is the development "
            'set, call it "dev"'
        )


def _warn_of_unused_splits(config: FinetuningConfig, spec: TaskSpec, task: Task) -> None:
    """Warns of splits and settings that --num_folds does not use."""
    # The flag has a warning of its own.
    if spec.dev_fraction and not config.own_task_dev_fraction:
        warn_once(
            f'{spec.source}: "dev_fraction" of task {spec.name!r} has no effect with '
            "--num_folds, which evaluates on folds of train"
        )
    others = [split for split in task.dev_splits if split in spec.files]
    if others:
        warn_once(
            f"--num_folds evaluates on folds of train alone, not on {', '.join(others)} of "
            f"task {spec.name!r}"
        )


def restore_tasks(
    config: FinetuningConfig,
    tokenizer: CachedTokenizer,
    descriptions: Mapping[str, Mapping[str, Any]],
) -> list[Task]:
    """Returns the tasks of a fine-tuned model for prediction, without data.

    Args:
        config: hyperparameters of the model.
        tokenizer: tokenizer of the model.
        descriptions: `Task.description` of each of `config.task_names`.
    """
    return [
        task_class(descriptions[name]["kind"]).restore(
            config, name, tokenizer, descriptions[name]
        )
        for name in config.task_names
    ]


def task_class(kind: str) -> type[Task]:
    """Returns the task class of a kind.

    Raises:
        UserError: there is no such kind.
    """
    if kind not in kinds_by_name():
        raise UserError(
            f"the kind of task {kind!r} is not one of {', '.join(kinds_by_name())}: register a "
            "kind of your own in every program, before using it"
        )
    return pkgutil.resolve_name(kinds_by_name()[kind].task)
