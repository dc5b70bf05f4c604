"""Flags of the programs that build pre-training data."""

import shlex
import sys
from collections.abc import Mapping

from absl import flags

from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.util.errors import UserError
from electra_tf.util.file_patterns import split_patterns
from electra_tf.util.path_checks import check_not_empty, local_path
from electra_tf.util.paths import given_path
from flags.command_line.recipe_files import find_recipe
from flags.remote.paths import Role
from pretrain_data.build.dataset import MAX_SEQ_LENGTH, CorpusBuildConfig
from pretrain_data.build.drivers.cluster_run import RUNNERS
from pretrain_data.build.selection import DEDUPLICATE_CHOICES
from pretrain_data.corpus.formats import FORMATS
from pretrain_data.corpus.inputs import INPUT_FLAG
from pretrain_data.corpus.readers.text_files import CORPUS_FLAG
from pretrain_data.corpus.sentences import SENTENCES_CHOICES
from pretrain_data.examples.example_builder import MIN_SEQ_LENGTH

# The authors' negations, as absl spells them.
ALIASES: Mapping[str, str] = {
    "no_lower_case": "nodo_lower_case",
    "no_strip_accents": "nodo_strip_accents",
}

# Flags that accept remote paths (gs://…), or whose program refuses them itself.
REMOTE = dict.fromkeys(
    ("input", "corpus_dir", "data_dir", "vocab_file", "output_dir", "pipeline_options"),
    Role.ITSELF,
)


def define_corpus_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of `build_pretraining_dataset.py`."""
    define = _Definer(flag_values)
    define_text_flags(flag_values)
    define.string(
        "vocab_file", None, "WordPiece vocabulary, one token per line.", required=True
    )
    define.string("output_dir", None, "Output folder of the TFRecords.", required=True)
    define.boolean(
        "blanks_separate_docs",
        True,
        "Treat blank lines as document boundaries; otherwise each file is one document.",
    )
    define.enum(
        "runner",
        None,
        RUNNERS,
        "Build with Apache Beam instead of local processes: DirectRunner tries the pipeline "
        "on this machine, the others use a cluster. Needs the extra `beam`.",
    )
    define.string(
        "pipeline_options",
        "",
        "Options of --runner, as on the command line of a Beam program: "
        "'--parallelism=64 --environment_type=DOCKER'.",
    )
    _define_common_flags(define)


def define_openwebtext_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of `build_openwebtext_pretraining_dataset.py`."""
    define = _Definer(flag_values)
    define.string(
        "data_dir",
        None,
        "Folder with openwebtext/ (the .xz archives) and vocab.txt. The TFRecords are "
        "written to its pretrain_tfrecords/.",
        required=True,
    )
    _define_common_flags(define)


def define_text_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags that select the text of a corpus."""
    define = _Definer(flag_values)
    define.string(
        "corpus_dir",
        None,
        "Folder of the text: .txt and .txt.gz files, searched recursively; if there are "
        "none, files without a suffix.",
    )
    define.string(
        "input",
        None,
        "Instead of --corpus_dir: comma-separated files, globs and folders (searched "
        f"recursively) of {', '.join(FORMATS)}, also on gs://. A line of JSONL, or a row of "
        "Parquet or Arrow, is one document, even if it contains blank lines.",
    )
    define.string("text_field", "text", "Key of the text in JSONL files.")
    define.string("text_column", "text", "Column of the text in Parquet and Arrow files.")


def text_settings(flag_values: flags.FlagValues) -> dict[str, object]:
    """Returns the settings of the flags of `define_text_flags`.

    Raises:
        UserError: not exactly one of --corpus-dir and --input is given.
    """
    corpus_dir, inputs = flag_values.corpus_dir, flag_values.input
    if (corpus_dir is None) == (inputs is None):
        raise UserError(f"Pass exactly one of {INPUT_FLAG} and --corpus-dir")
    return {
        "corpus_dir": None if corpus_dir is None else local_path(corpus_dir, CORPUS_FLAG),
        "inputs": split_inputs(inputs),
        "text_field": flag_values.text_field,
        "text_column": flag_values.text_column,
    }


def split_inputs(value: str | None) -> tuple[str, ...]:
    """Returns the comma-separated entries of a flag such as --input."""
    return tuple(split_patterns(value or ""))


def corpus_build_config(flag_values: flags.FlagValues = flags.FLAGS) -> CorpusBuildConfig:
    """Returns the configuration of the flags of `define_corpus_flags`.

    Raises:
        UserError: a path is empty, or as `text_settings`.
    """
    check_not_empty(flag_values.vocab_file, "--vocab-file")
    check_not_empty(flag_values.output_dir, "--output-dir")
    return CorpusBuildConfig(
        **text_settings(flag_values),
        vocab_file=given_path(find_recipe(flag_values.vocab_file)),
        output_dir=given_path(flag_values.output_dir),
        blanks_separate_docs=flag_values.blanks_separate_docs,
        runner=flag_values.runner,
        pipeline_options=_pipeline_options(flag_values),
        **_common_settings(flag_values),
    )


def _pipeline_options(flag_values: flags.FlagValues) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(flag_values.pipeline_options))
    except ValueError as error:
        raise UserError(f"--pipeline_options cannot be split into options: {error}") from error


def openwebtext_build_config(flag_values: flags.FlagValues = flags.FLAGS) -> CorpusBuildConfig:
    """Returns the configuration of the flags of `define_openwebtext_flags`."""
    data_dir = local_path(flag_values.data_dir, "--data-dir")
    return CorpusBuildConfig(
        corpus_dir=data_dir / "openwebtext",
        vocab_file=data_dir / VOCAB_FILE,
        output_dir=data_dir / "pretrain_tfrecords",
        # As in the authors' program, each text of OpenWebText is one document.
        blanks_separate_docs=False,
        is_openwebtext=True,
        **_common_settings(flag_values),
    )


def _define_common_flags(define: "_Definer") -> None:
    """Defines the flags of both programs."""
    _define_row_flags(define)
    _define_tokenizer_flags(define)
    _define_selection_flags(define)
    _define_build_flags(define)


def _define_row_flags(define: "_Definer") -> None:
    """Defines the flags of rows: their length, and the text that fills them."""
    define.integer(
        "max_seq_length",
        128,
        "Sequence length, in tokens.",
        lower_bound=MIN_SEQ_LENGTH,
        upper_bound=MAX_SEQ_LENGTH,
    )
    define.enum(
        "sentences",
        "lines",
        SENTENCES_CHOICES,
        "Unit of text that fills rows: whole lines, or sentences that lines are split into.",
    )
    define.string(
        "sentence_language",
        "en",
        "Language whose rules split sentences with --sentences=split (ISO 639, such as en, ko, "
        "de); languages without their own rules use those of English.",
    )
    define.boolean(
        "pack",
        False,
        "Pack several documents into a row, separated by [SEP]. By default, every document "
        "starts a new row.",
    )
    define.boolean(
        "authors_trimming",
        False,
        "Drop text that does not fit into a segment, as the authors' builder does. By "
        "default, it continues in the next segment or example, and no token is lost.",
    )


def _define_tokenizer_flags(define: "_Definer") -> None:
    """Defines the flags of the tokenizer, except the vocabulary."""
    define.boolean(
        "do_lower_case",
        None,
        "Lowercase the text; --no-lower-case keeps case. If unset, taken from the tokenizer "
        "description beside the vocabulary, else true.",
    )
    define.boolean(
        "do_strip_accents",
        None,
        "Strip accents when lowercasing; --no-strip-accents keeps them. If unset, taken from "
        "the tokenizer description beside the vocabulary, else true.",
    )


def _define_selection_flags(define: "_Definer") -> None:
    """Defines the flags that select documents to read, hold out and drop."""
    define.boolean(
        "skip_unreadable",
        False,
        "Skip files and folders that cannot be read, and list them; the text before the "
        "damaged part of a file is kept. By default, they are errors.",
    )
    define.float(
        "eval_fraction",
        0.0,
        "Fraction of the documents to hold out, chosen by the hash of their text. Their "
        "records are written to OUTPUT_DIR/held_out, where run_pretraining.py evaluates every "
        "checkpoint on them.",
        lower_bound=0.0,
        upper_bound=0.99,
    )
    define.enum(
        "deduplicate",
        "none",
        DEDUPLICATE_CHOICES,
        "Remove duplicate documents, keeping the first: exact compares the whole text, near "
        "also finds near-duplicates (MinHash LSH).",
    )
    define.float(
        "near_duplicate_threshold",
        0.8,
        "Lowest Jaccard similarity of shingle sets at which --deduplicate=near considers "
        "documents duplicates.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    define.integer(
        "near_duplicate_words",
        5,
        "Words per shingle of --deduplicate=near.",
        lower_bound=1,
    )
    define.integer(
        "near_duplicate_permutations",
        128,
        "MinHash signature length of --deduplicate=near: longer signatures estimate "
        "similarity better, but take more memory.",
        lower_bound=2,
    )


def _define_build_flags(define: "_Definer") -> None:
    """Defines the flags of the build: processes, order and number of files."""
    define.integer(
        "num_processes",
        1,
        "Number of worker processes; affects the order of the examples, but not their content.",
        lower_bound=1,
    )
    define.integer(
        "num_out_files",
        None,
        "Number of TFRecord files; chosen by corpus size if unset.",
        lower_bound=1,
    )
    define.boolean("shuffle_files", True, "Read the files in random order.")
    define.integer(
        "seed", 0, "Random seed; the same seed gives the same examples.", lower_bound=0
    )
    define.boolean("overwrite", False, "Replace the data in the output folder.")


def _common_settings(flag_values: flags.FlagValues) -> dict[str, object]:
    return {
        "max_seq_length": flag_values.max_seq_length,
        "num_processes": flag_values.num_processes,
        "num_out_files": flag_values.num_out_files,
        "do_lower_case": flag_values.do_lower_case,
        "strip_accents": flag_values.do_strip_accents,
        "shuffle_files": flag_values.shuffle_files,
        "seed": flag_values.seed,
        "overwrite": flag_values.overwrite,
        "authors_trimming": flag_values.authors_trimming,
        "skip_unreadable": flag_values.skip_unreadable,
        "eval_fraction": flag_values.eval_fraction,
        "deduplicate": flag_values.deduplicate,
        "near_duplicate_threshold": flag_values.near_duplicate_threshold,
        "near_duplicate_words": flag_values.near_duplicate_words,
        "near_duplicate_permutations": flag_values.near_duplicate_permutations,
        "pack": flag_values.pack,
        "sentences": flag_values.sentences,
        "sentence_language": flag_values.sentence_language,
    }


class _Definer:
    """Defines flags that --help attributes to the running program."""

    def __init__(self, flag_values: flags.FlagValues):
        self._common = {"flag_values": flag_values, "module_name": sys.argv[0]}

    def string(self, *arguments, **options) -> None:
        flags.DEFINE_string(*arguments, **options, **self._common)

    def boolean(self, *arguments, **options) -> None:
        flags.DEFINE_boolean(*arguments, **options, **self._common)

    def float(self, *arguments, **options) -> None:
        flags.DEFINE_float(*arguments, **options, **self._common)

    def enum(self, *arguments, **options) -> None:
        flags.DEFINE_enum(*arguments, **options, **self._common)

    def integer(self, *arguments, **options) -> None:
        flags.DEFINE_integer(*arguments, **options, **self._common)
