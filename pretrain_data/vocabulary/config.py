"""Settings of the training of a vocabulary."""

import dataclasses
import pathlib

from electra_tf.util.errors import refuse_single_string
from electra_tf.util.paths import convert_paths

MIN_VOCAB_SIZE = 32


@dataclasses.dataclass(frozen=True)
class VocabularyBuildConfig:
    """Settings of vocabulary training; paths may be given as strings.

    Attributes:
        corpus_dir: folder of the text: `.txt` and `.txt.gz` files at any depth; None reads
            `inputs`.
        output_file: vocabulary file to write.
        vocab_size: vocabulary size, including special tokens.
        do_lower_case: lowercase the text.
        strip_accents: strip accents when lowercasing. This also decomposes Hangul.
        overwrite: replace `output_file`.
        character_coverage: share of the text's characters to cover; None covers all that
            leave half of the vocabulary, at most 8,000 entries, to longer pieces.
        inputs: files, globs and folders of every corpus format, instead of `corpus_dir`.
        text_field: key of the text in JSONL.
        text_column: column of the text in Parquet.
        num_processes: number of processes that count words.
        report: files, globs and folders of held-out text to report on.
        compare_with: another vocabulary file to include in the report.

    Raises:
        UserError: `inputs` or `report` is a single string.
    """

    corpus_dir: pathlib.Path | None
    output_file: pathlib.Path
    vocab_size: int
    do_lower_case: bool = True
    strip_accents: bool = True
    overwrite: bool = False
    character_coverage: float | None = None
    inputs: tuple[str, ...] = ()
    text_field: str = "text"
    text_column: str = "text"
    num_processes: int = 1
    report: tuple[str, ...] = ()
    compare_with: pathlib.Path | None = None

    def __post_init__(self) -> None:
        convert_paths(self, "corpus_dir", "output_file", "compare_with")
        refuse_single_string("inputs", self.inputs)
        refuse_single_string("report", self.report)

    @property
    def corpus_name(self) -> str:
        """The corpus, for messages."""
        return str(self.corpus_dir or ", ".join(self.inputs))
