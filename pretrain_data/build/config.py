"""Settings of a build of pre-training data."""

import dataclasses
import pathlib

from electra_tf.util.errors import refuse_single_string
from electra_tf.util.paths import convert_paths


@dataclasses.dataclass(frozen=True)
class CorpusBuildConfig:
    """Settings of a build of pre-training data; paths may be given as strings.

    Attributes:
        corpus_dir: folder of the text: `.txt` and `.txt.gz` files at any depth, or `.xz`
            tar archives if `is_openwebtext`. None reads `inputs`.
        vocab_file: WordPiece vocabulary.
        output_dir: folder of the shards and the manifest.
        max_seq_length: sequence length, in tokens.
        num_processes: number of worker processes. The examples depend on the corpus, the
            settings and `seed`; their order also depends on this number.
        num_out_files: number of shards; None chooses by corpus size.
        blanks_separate_docs: a blank line ends a document, not only the end of a file.
        do_lower_case: lowercase the text; None is the setting described beside the
            vocabulary, or true without a description.
        strip_accents: strip accents when lowercasing; None is as for `do_lower_case`.
        shuffle_files: read the files in random order instead of sorted by path.
        seed: random seed.
        overwrite: replace data in the output folder.
        authors_trimming: drop what does not fit into a segment, as the authors do, instead of
            continuing in the next segment or example.
        skip_unreadable: skip files and folders that cannot be read, and list them.
        is_openwebtext: read archives.
        inputs: files, globs and folders of the formats in `pretrain_data.corpus.formats`,
            instead of `corpus_dir`.
        text_field: key of the text in JSONL.
        text_column: column of the text in Parquet.
        eval_fraction: share of the documents to hold out, by the hash of their text, into
            records of their own.
        deduplicate: one of `selection.DEDUPLICATE_CHOICES`; "exact" leaves out all but the
            first of equal documents, "near" also all but the first of similar ones.
        near_duplicate_threshold, near_duplicate_words, near_duplicate_permutations: settings
            of `near_duplicates`.
        pack: continue a row with the next document.
        sentences: one of `sentences.SENTENCES_CHOICES`; "split" makes a line of every sentence.
        sentence_language: code of the language whose rules split sentences.
        runner: one of `cluster_run.RUNNERS`, the Apache Beam runner that builds; None builds
            in processes of this machine.
        pipeline_options: options of Beam, such as `--parallelism=8`.

    Raises:
        UserError: `inputs` is a single string.
    """

    corpus_dir: pathlib.Path | None
    vocab_file: pathlib.Path
    output_dir: pathlib.Path
    max_seq_length: int = 128
    num_processes: int = 1
    num_out_files: int | None = None
    blanks_separate_docs: bool = True
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    shuffle_files: bool = True
    seed: int = 0
    overwrite: bool = False
    authors_trimming: bool = False
    skip_unreadable: bool = False
    is_openwebtext: bool = False
    inputs: tuple[str, ...] = ()
    text_field: str = "text"
    text_column: str = "text"
    eval_fraction: float = 0.0
    deduplicate: str = "none"
    near_duplicate_threshold: float = 0.8
    near_duplicate_words: int = 5
    near_duplicate_permutations: int = 128
    pack: bool = False
    sentences: str = "lines"
    sentence_language: str = "en"
    runner: str | None = None
    pipeline_options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        convert_paths(self, "corpus_dir", "vocab_file", "output_dir")
        refuse_single_string("inputs", self.inputs)

    @property
    def selects_documents(self) -> bool:
        """Whether the documents are hashed in a first pass."""
        return self.eval_fraction > 0 or self.deduplicate != "none"

    @property
    def corpus_name(self) -> str:
        """The corpus, for messages."""
        return str(self.corpus_dir or ", ".join(self.inputs))
