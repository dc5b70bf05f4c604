"""Flags of `flops_computation.py`, in addition to those of pre-training."""

import contextlib
import dataclasses
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Sequence

from absl import flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.flops.counting import objective_class
from electra_tf.flops.report import RunFlops, count_finetuning, count_pretraining
from electra_tf.interop.initial_settings import pretraining_config
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.output_checks import check_not_input, check_output_file
from electra_tf.util.path_checks import check_not_empty
from electra_tf.util.paths import RemotePath, is_remote
from electra_tf.util.tensorflow_import import import_tensorflow
from finetune.config.defaults import RANDOM_INIT, own_kinds
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import MULTIPLE_CHOICE
from flags import finetuning, hyperparameters, pretraining
from flags.command_line import parsing
from flags.command_line.recipe_files import find_flagfiles, find_recipe, with_included
from flags.remote import copies
from flags.remote.paths import Role, naming_remote_paths

# Flags that accept remote paths (gs://…).
REMOTE = {
    "data_dir": Role.ITSELF,
    "vocab_file": Role.VOCABULARY,
    "json": Role.OUTPUT_FILE,
}
# These locate a checkpoint, but alone they do not describe a run to count.
_PLACE = ("data_dir", "model_name")
_UNNAMED = "command line"


@dataclasses.dataclass(frozen=True)
class FlopsConfig:
    """Runs to count.

    Attributes:
        runs: the recipes, then the run described by the hyperparameters, if any.
        json: JSON file to write all numbers to, or None.
    """

    runs: tuple[RunFlops, ...]
    json: str | None


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of pre-training, `--recipe` and `--json`."""
    pretraining.define_flags(flag_values)
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_multi_string(
        "recipe",
        None,
        "Flag files of pre-training or fine-tuning runs to count, comma-separated; may be "
        "repeated. Fine-tuning uses the encoder of --model_name in --data_dir, or a small one "
        "if unset.",
        **options,
    )
    flags.DEFINE_string("json", None, "Also write all numbers to this JSON file.", **options)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> FlopsConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a value is invalid, or a recipe cannot be read.
    """
    json = flag_values.json
    check_not_empty(json, "--json")
    if json is not None:
        json = os.path.expanduser(json)
        check_output_file(json, "--json")
    given = hyperparameters.explicit_values(PretrainingConfig, flag_values)
    place = {"data_dir": given.get("data_dir", "."), "model_name": given.get("model_name")}
    recipes = [path.strip() for each in flag_values.recipe or () for path in each.split(",")]
    if json is not None:
        for path in with_included([find_recipe(each) for each in recipes]):
            check_not_input(json, "--json", {"--recipe": path})
        vocabularies = {"--vocab_file": given.get("vocab_file")}
        vocabularies["--data_dir"] = os.path.join(place["data_dir"], VOCAB_FILE)
        check_not_input(json, "--json", {k: v for k, v in vocabularies.items() if v})
    if given.get("model_name") and not recipes and not set(given) - set(_PLACE):
        warn_once(
            f"--model_name={given['model_name']} does not describe a run to count: pass "
            "--recipe, or settings such as --model_size"
        )
    with _local_place(place) as place:
        runs = [_count_recipe(path, name, place) for path, name in _named(recipes)]
        if set(given) - set(_PLACE):
            name = place["model_name"] or _UNNAMED
            given = {**given, **place, "model_name": name}
            # A run that starts from a checkpoint has the model size of the checkpoint.
            create = (
                pretraining_config if "init_checkpoint" in given else PretrainingConfig.create
            )
            runs.append(_count_pretraining(name, create(**given)))
    return FlopsConfig(tuple(runs), json)


@contextlib.contextmanager
def _local_place(place: dict[str, str | None]) -> Iterator[dict[str, str | None]]:
    """Yields data_dir and model_name, with a copy of the description of a remote model."""
    data_dir, name = place["data_dir"], place["model_name"]
    if not is_remote(data_dir):
        yield place
        return
    import_tensorflow()
    remote = RemotePath(data_dir)
    with tempfile.TemporaryDirectory(prefix="electra-remote-") as folder:
        local = pathlib.Path(folder)
        try:
            if (remote / VOCAB_FILE).exists():
                copies.copy_vocabulary(remote / VOCAB_FILE, local / VOCAB_FILE)
            if name and (remote / f"models/{name}").is_dir():
                copies.copy_description(remote / f"models/{name}", local / "models" / name)
        except OSError as error:
            raise UserError(
                f"--data_dir={data_dir} cannot be read: {error.strerror}"
            ) from error
        with naming_remote_paths({folder: str(remote)}):
            yield {**place, "data_dir": folder}


def _named(recipes: Sequence[str]) -> list[tuple[str, str]]:
    """Returns each path and its stem, or the path again if several have that stem."""
    stems = [pathlib.Path(path).stem for path in recipes]
    return [
        (path, path if stems.count(stem) > 1 else stem)
        for path, stem in zip(recipes, stems, strict=True)
    ]


def _count_recipe(path: str, name: str, place: dict[str, str | None]) -> RunFlops:
    """Returns the FLOPs of a recipe under `name`; `place` locates the model, if any."""
    arguments = _read_recipe(find_recipe(path))
    given_name = place["model_name"]
    place = {**place, "model_name": given_name or pathlib.Path(path).stem}
    try:
        if _is_finetuning(arguments):
            config = finetuning.config_from_flags(_parse(finetuning, arguments, place))
            model = config.pretrained_model_dir
            is_read = given_name and config.init_checkpoint in (model, RANDOM_INIT)
            if is_read and not os.path.isdir(model):
                warn_once(
                    f"--model_name={given_name}: there is no model in {model}, so "
                    f"--recipe={path} is counted with an encoder of size {config.model_size}"
                )
            kinds = own_kinds(dataclasses.asdict(config), config.task_names)
            if MULTIPLE_CHOICE.name in kinds.values():
                warn_once(
                    f"--recipe={path}: FLOPs of a step are counted for one sequence per "
                    "example, but multiple choice has one for each choice: multiply by their "
                    "number"
                )
            return count_finetuning(
                name,
                config.encoder,
                batch_size=config.train_batch_size,
                seq_length=config.max_seq_length,
                num_frozen_layers=config.num_frozen_layers,
            )
        config = pretraining.config_from_flags(_parse(pretraining, arguments, place))
        return _count_pretraining(name, config)
    except UserError as error:
        raise UserError(f"--recipe={path}: {error}") from error


def _count_pretraining(name: str, config: PretrainingConfig) -> RunFlops:
    """Returns the FLOPs of a run; raises UserError if it cannot be trained."""
    objective_class(config).check(config)
    return count_pretraining(name, config)


def _read_recipe(path: str) -> list[str]:
    if not os.path.isfile(path):
        raise UserError(f"--recipe: no such file: {path!r}")
    try:
        return flags.FlagValues().read_flags_from_files(find_flagfiles([f"--flagfile={path}"]))
    except (flags.Error, OSError, UnicodeDecodeError) as error:
        raise UserError(f"--recipe={path}: {error}") from error


def _is_finetuning(arguments: Sequence[str]) -> bool:
    """Whether any of the flags exists in fine-tuning only."""
    ours, theirs = (
        {field.name for field in dataclasses.fields(config_class)}
        for config_class in (PretrainingConfig, FinetuningConfig)
    )
    normalized = parsing.normalize_arguments(arguments)
    names = {argument.lstrip("-").partition("=")[0] for argument in normalized}
    return bool(names & (theirs - ours))


def _parse(
    program: type(pretraining), arguments: Sequence[str], place: dict[str, str | None]
) -> flags.FlagValues:
    flag_values = flags.FlagValues()
    program.define_flags(flag_values)
    # Values in the recipe take precedence.
    defaults = [f"--{name}={value}" for name, value in place.items()]
    rest = parsing.parse(["recipe", *defaults, *arguments], None, flag_values)
    if len(rest) > 1:
        raise UserError(parsing.unexpected_argument_message(rest[1]))
    return flag_values
