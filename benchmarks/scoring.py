"""Measures pseudo-log-likelihoods of the lines of a file, from one process.

    python -m benchmarks.scoring --text_file TEXTS

ELECTRA-small with random weights and BERT's vocabulary: the masked language model, which takes
a copy of a text for every token, and Electric, which takes a text once. The first time is that
of `score_text.py`, with compiling; the second one is that of the same texts again. CPU seconds
are of all threads: on busy cores, they say more than elapsed ones.
"""

import pathlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from benchmarks.side_by_side import NUM_CORES, describe_machine
from electra_tf.util.console import markdown_table
from electra_tf.util.files import read_lines
from flags.command_line import program

if TYPE_CHECKING:
    from electra_tf.inference.scoring.scorer import Scorer

_TEXT_FILE = flags.DEFINE_string("text_file", None, "One text per line.", required=True)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 64, "Rows per pass.", lower_bound=1)
_PRECISION = flags.DEFINE_enum(
    "precision", "float32", ["float32", "mixed_bfloat16"], "Keras dtype policy."
)
_NUM_CORES = flags.DEFINE_integer(
    "num_cores",
    None,
    "Parts of a batch in bfloat16; with 1, operations have all threads. All cores if unset.",
    lower_bound=1,
)

VOCABULARY = pathlib.Path(__file__).parents[1] / "recipes/vocab/bert_uncased_vocab.txt"
MAX_SEQ_LENGTH = 128
OBJECTIVES = {"masked language model": "electra", "Electric": "electric"}


def main() -> None:
    """Prints the table."""
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from electra_tf.training.distribution.cores import limit_operation_threads

    if _PRECISION.value != "float32" and _NUM_CORES.value != 1:
        limit_operation_threads()
    print(describe_machine(None), flush=True)
    rows = [measure(name, objective) for name, objective in OBJECTIVES.items()]
    header = ["", "tokens", "s, with compiling", "CPU s", "s, compiled", "CPU s", "tokens/s"]
    print(markdown_table(header, rows, text_columns=1))


def measure(name: str, objective: str) -> list[str]:
    """Returns the row of one method."""
    import keras
    import tensorflow as tf

    from electra_tf import model_builder
    from electra_tf.config.pretraining import PretrainingConfig
    from electra_tf.inference.scoring.config import AUTO
    from electra_tf.inference.scoring.pseudo_likelihood import create_scorer
    from electra_tf.text.framing import frame
    from electra_tf.text.tokenizer import Tokenizer

    config = PretrainingConfig.create(
        model_name="benchmark",
        data_dir="unused",
        vocab_file=str(VOCABULARY),
        model_size="small",
        max_seq_length=MAX_SEQ_LENGTH,
        objective=objective,
        precision=_PRECISION.value,
    )
    vocabulary = model_builder.load_checked_vocabulary(config)
    keras.utils.set_random_seed(config.seed)
    model = model_builder.build_model(config, model_builder.special_token_ids(vocabulary))
    lines = [line for line in read_lines(_TEXT_FILE.value) if line.strip()]
    ids = Tokenizer(vocabulary).tokenize(tf.constant(lines)).to_list()
    texts = [frame(vocabulary, row[: MAX_SEQ_LENGTH - 2]).input_ids.tolist() for row in ids]
    scorer = create_scorer(model, AUTO, _BATCH_SIZE.value, _NUM_CORES.value or NUM_CORES)
    tokens = sum(len(text) - 2 for text in texts)
    times = [_seconds(scorer, texts) for _ in range(2)]
    cells = [f"{seconds:.1f}" for each in times for seconds in each]
    return [name, f"{tokens:,}", *cells, f"{tokens / times[1][0]:,.0f}"]


def _seconds(scorer: "Scorer", texts: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Returns how many seconds scoring takes, and how many of the CPU."""
    start, cpu_start = time.perf_counter(), time.process_time()
    scorer.score(texts)
    return time.perf_counter() - start, time.process_time() - cpu_start


if __name__ == "__main__":
    program.run(main)
