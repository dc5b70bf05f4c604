"""Flags of `build_vocabulary.py`; `flags.corpus.ALIASES` has the negated spellings."""

import math
import sys

from absl import flags

from electra_tf.text.tokenizer_description import warn_of_kept_accents
from electra_tf.util.errors import UserError
from electra_tf.util.path_checks import check_not_empty, local_path
from flags.command_line.recipe_files import find_recipe
from flags.corpus import define_text_flags, split_inputs, text_settings
from flags.remote.paths import Role
from pretrain_data.vocabulary.config import MIN_VOCAB_SIZE, VocabularyBuildConfig

# Flags that accept remote paths (gs://…), or whose program refuses them itself.
REMOTE = dict.fromkeys(
    ("input", "corpus_dir", "report", "compare_with", "output_file"), Role.ITSELF
)


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of `build_vocabulary.py`."""
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    define_text_flags(flag_values)
    flags.DEFINE_string(
        "output_file",
        None,
        "Vocabulary to write, one token per line.",
        required=True,
        **options,
    )
    flags.DEFINE_integer(
        "vocab_size",
        None,
        "Vocabulary size, including special tokens.",
        required=True,
        lower_bound=MIN_VOCAB_SIZE,
        **options,
    )
    flags.DEFINE_boolean(
        "do_lower_case", True, "Lowercase the text; --no-lower-case keeps case.", **options
    )
    flags.DEFINE_boolean(
        "do_strip_accents",
        True,
        "Strip accents when lowercasing; --no-strip-accents keeps them, which Korean, "
        "Japanese, Thai and Indic languages require: stripping takes their letters apart.",
        **options,
    )
    flags.DEFINE_float(
        "character_coverage",
        None,
        "Fraction of the text's characters to cover; words with other characters become "
        "[UNK]. If unset, the most frequent characters are kept, and half of the vocabulary "
        "(in a large one, 8,000 entries) is left for longer pieces.",
        lower_bound=0.5,
        upper_bound=1.0,
        **options,
    )
    flags.DEFINE_integer(
        "num_processes",
        1,
        "Number of processes that count words; the vocabulary does not depend on it.",
        lower_bound=1,
        **options,
    )
    flags.DEFINE_string(
        "report",
        None,
        "Held-out text to report on, which is not trained on: files, globs and folders, as "
        "for --input. Shows pieces per word, unknown words, and the longest and rarest pieces.",
        **options,
    )
    flags.DEFINE_string(
        "compare_with",
        None,
        "Second vocabulary to report on, with the case and accents of its tokenizer "
        "description.",
        **options,
    )
    flags.DEFINE_boolean("overwrite", False, "Replace the output file.", **options)


def config_from_flags(
    flag_values: flags.FlagValues = flags.FLAGS,
) -> VocabularyBuildConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: flags contradict each other.
    """
    if flag_values.compare_with is not None and flag_values.report is None:
        raise UserError("--compare_with needs --report: the held-out text to compare on")
    check_not_empty(flag_values.report, "--report")
    report = split_inputs(flag_values.report)
    if flag_values.report is not None and not report:
        raise UserError("--report names no file, glob or folder")
    coverage = flag_values.character_coverage
    if coverage is not None and math.isnan(coverage):  # NaN passes all bounds
        raise UserError(f"--character_coverage must be from 0.5 to 1, not {coverage}")
    strip = flag_values["do_strip_accents"]
    if strip.present and strip.value and not flag_values.do_lower_case:
        warn_of_kept_accents("--do-strip-accents")
    compare_with = flag_values.compare_with
    if compare_with is not None:
        compare_with = local_path(find_recipe(compare_with), "--compare_with")
    return VocabularyBuildConfig(
        **text_settings(flag_values),
        output_file=local_path(flag_values.output_file, "--output-file"),
        vocab_size=flag_values.vocab_size,
        do_lower_case=flag_values.do_lower_case,
        strip_accents=flag_values.do_strip_accents,
        overwrite=flag_values.overwrite,
        character_coverage=coverage,
        num_processes=flag_values.num_processes,
        report=report,
        compare_with=compare_with,
    )
