"""Settings that make no sense on the devices of a run."""

import pytest

from electra_tf.training.distribution.context import create_context
from electra_tf.util.console import warn_once


@pytest.mark.parametrize(
    ("jit_compile", "batch_size", "is_slow"),
    [
        (True, "train_batch_size", True),
        (False, "train_batch_size", False),
        (True, "eval_batch_size", False),  # faster
    ],
)
def test_training_that_xla_compiles_on_a_cpu_is_warned_of(
    make_config, capsys, jit_compile, batch_size, is_slow
):
    config = make_config(jit_compile=jit_compile, device="cpu")
    warn_once.cache_clear()
    create_context(config, [batch_size])
    assert ("--jit_compile is slow here" in capsys.readouterr().err) == is_slow
