r"""Builds pre-training data (TFRecords) from a directory of text.

    python build_pretraining_dataset.py --corpus-dir demo/corpus \
        --vocab-file demo/vocab.txt --output-dir demo/output/pretrain_tfrecords \
        --max-seq-length 128

On all cores, with the case and the accents of the text kept:

    python build_pretraining_dataset.py --corpus-dir corpus --vocab-file vocab.txt \
        --output-dir data/pretrain_tfrecords --max-seq-length 512 --num-processes 16 \
        --no-lower-case --no-strip-accents

A line is a sentence or paragraph, a blank line ends a document. The output directory
gets TFRecords in the format of the ELECTRA authors and a manifest, pretrain_data.json.
"""

from flags import command_line, corpus


def main() -> None:
    """Builds what the flags ask for."""
    from pretrain_data.build.dataset import build_pretraining_data

    build_pretraining_data(corpus.corpus_build_config())


if __name__ == "__main__":
    corpus.define_corpus_flags()
    command_line.run(main, corpus.ALIASES)
