r"""Where the time of a pre-training step goes, one component at a time.

    python -m benchmarks.step_profile --precision mixed_bfloat16 --json_file profile.json

Every component is a compiled function of its own on inputs of the step's shapes; all of
them are measured by turns, in several rounds, next to the whole step. What is not a function
of its own is a difference of two: the backward pass is forward and backward less forward,
dropout is a pass with it less one without. Prints a Markdown table: milliseconds (median
and range over the rounds), milliseconds of CPU time over all cores, and the share of the
whole step. Components overlap where one contains another (they are indented), and outside
of the step their inputs are not in the cache: the shares need not add up to 100 %. Matrix
products alone, measured in the same rounds, are the ceiling that the step's model FLOPs
(`electra_tf/flops/counting.py`) are compared with.
The step computes a batch as a whole here, as the components do; on a CPU, `run_pretraining.py`
divides that of a small model (`electra_tf/training/distribution/cores.py`).
Compiling takes a few minutes. On a GPU the CPU time is the host's.
"""

import json
import pathlib

from absl import flags

from benchmarks.matmul_ceiling import create_products, print_ceiling, summarize_ceiling
from benchmarks.random_run import create_run
from benchmarks.side_by_side import describe_machine
from benchmarks.step_components import create_components, measure, print_table, summarize
from electra_tf.config.encoder import MODEL_SIZES
from electra_tf.config.hyperparameters import PRECISIONS
from electra_tf.config.pretraining import PretrainingConfig
from flags.command_line import program

_ROUNDS = flags.DEFINE_integer("rounds", 5, "Turns of each component.", lower_bound=1)
_CALLS = flags.DEFINE_integer("calls", 2, "Calls of a component a turn.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Sequences a step.", lower_bound=1)
_SEQ_LENGTH = flags.DEFINE_integer(
    "seq_length", 128, "Tokens a sequence.", lower_bound=8, upper_bound=512
)
_MODEL_SIZE = flags.DEFINE_enum(
    "model_size", "small", list(MODEL_SIZES), "Size of the discriminator."
)
_PRECISION = flags.DEFINE_enum(
    "precision", "float32", list(PRECISIONS), "Arithmetic of the matrix products."
)
_JSON_FILE = flags.DEFINE_string("json_file", None, "Where the numbers go too, if set.")


def main() -> None:
    """Prints the table."""
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    config = PretrainingConfig.create(
        model_name="benchmark",
        data_dir="unused",
        model_size=_MODEL_SIZE.value,
        max_seq_length=_SEQ_LENGTH.value,
        train_batch_size=_BATCH_SIZE.value,
        precision=_PRECISION.value,
    )
    machine = describe_machine(None)
    title = (
        f"ELECTRA-{config.model_size}, {config.train_batch_size} x {config.max_seq_length}, "
        f"{config.precision}"
    )
    print(f"{machine}\n\n{title}", flush=True)
    components = create_components(create_run(config), config)
    products = create_products(config)
    components |= {name: product.function for name, product in products.items()}
    for component in components.values():
        component()  # compiles
    rounds = [
        {name: measure(component, _CALLS.value) for name, component in components.items()}
        for _ in range(_ROUNDS.value)
    ]
    table = summarize(rounds)
    print_table(table)
    ceiling = summarize_ceiling(rounds, products, config)
    print_ceiling(ceiling)
    if _JSON_FILE.value:
        result = {"machine": machine, "step": title, "rows": table, "ceiling": ceiling}
        pathlib.Path(_JSON_FILE.value).write_text(json.dumps(result, indent=2) + "\n")
        print(f"\nNumbers: {_JSON_FILE.value}")


if __name__ == "__main__":
    program.run(main)
