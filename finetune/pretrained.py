"""Loads the encoder of a pre-trained checkpoint: all of it, or nothing."""

import os
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from electra_tf.checkpoints import describe_differences
from electra_tf.description import load_description
from electra_tf.encoder import Encoder
from electra_tf.errors import UserError
from electra_tf.tf1_checkpoint import encoder_variables, load_tf1_variables
from finetune.config import RANDOM_INIT, FinetuningConfig

FLAG = "--init_checkpoint"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_NAMES_SHOWN = 8


class LoadReport(NamedTuple):
    """Names of variables: loaded, wanted but absent, in the checkpoint but not wanted."""

    matched: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]

    def lines(self) -> list[str]:
        """Returns one line for each of the three, with the first names."""
        return [
            f"{kind:9}{len(names):4}  {_shortened(names)}"
            for kind, names in zip(("matched", "missing", "unused"), self, strict=True)
        ]


def find_checkpoint(config: FinetuningConfig) -> str | None:
    """Returns the prefix of the checkpoint to start from; None for random weights.

    Raises:
        UserError: there is no checkpoint where `init_checkpoint` says.
    """
    path = config.init_checkpoint
    if path == RANDOM_INIT:
        return None
    if os.path.isdir(path):
        prefix = tf.train.latest_checkpoint(path)
        if prefix is None:
            raise UserError(
                f"{FLAG}: the folder {path} holds no checkpoint. Pre-train with "
                "run_pretraining.py first, name another --model_name or --init_checkpoint, "
                f"or pass {FLAG}={RANDOM_INIT} to start from random weights"
            )
        return prefix
    prefix = path.removesuffix(".index")
    if not tf.io.gfile.exists(prefix + ".index"):
        raise UserError(
            f"{FLAG}: there is no checkpoint {prefix} (no {prefix}.index), and no such folder"
        )
    return prefix


def load_encoder(
    prefix: str, encoder: Encoder, say: Callable[[str], None] = print
) -> LoadReport:
    """Loads an encoder from a checkpoint of this project or of the authors' code.

    Args:
        prefix: of the checkpoint's files.
        encoder: every variable of it must be in the checkpoint, in the same shape.
        say: is told what was matched, missing and unused.

    Raises:
        UserError: the checkpoint has not the whole encoder; nothing is loaded then.
    """
    if _OBJECT_GRAPH in tf.train.load_checkpoint(prefix).get_variable_to_shape_map():
        report = _load_ours(prefix, encoder)
    else:
        report = LoadReport(*load_tf1_variables(prefix, encoder_variables(encoder)))
    say(f"Encoder of {prefix}, variables:")
    for line in report.lines():
        say(f"  {line}")
    return report


def _load_ours(prefix: str, encoder: Encoder) -> LoadReport:
    wanted = {v.path: list(v.shape) for v in encoder.variables}
    description = load_description(os.path.dirname(prefix))
    saved = description.variables if description else wanted
    problems = describe_differences({k: v for k, v in saved.items() if k in wanted}, wanted)
    only_saved = [k for k in saved if k not in wanted and k.startswith(f"{encoder.name}/")]
    problems += [f"{name}: {saved[name]} only in the checkpoint" for name in only_saved]
    if problems:
        missing = [name for name in wanted if name not in saved]
        raise UserError(
            f"{FLAG}: the encoder of {prefix} is of another size than the flags ask for "
            f"({len(wanted) - len(missing)} of {len(wanted)} variables are there, "
            f"{len(problems)} differ). Leave out --model_size, --model_hparam_overrides, "
            "--embedding_size and --vocab_size to take those of the checkpoint. Differing:\n  "
            + "\n  ".join(problems)
        )
    root = tf.train.Checkpoint(model=tf.train.Checkpoint(electra=encoder))
    try:
        status = root.restore(prefix).expect_partial()
        status.assert_existing_objects_matched()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        raise UserError(
            f"{FLAG}: the encoder cannot be loaded from {prefix}: {str(error)[:500]}"
        ) from error
    unused = tuple(name for name in saved if name not in wanted)
    return LoadReport(tuple(wanted), (), unused)


def _shortened(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown + (", …" if len(names) > _NAMES_SHOWN else "")
