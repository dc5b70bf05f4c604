r"""Trains a WordPiece vocabulary on a directory of text.

    python build_vocabulary.py --corpus-dir demo/corpus --vocab-size 4096 \
        --output-file demo/output/vocab.txt

Korean, whose syllables would be taken apart if accents were dropped:

    python build_vocabulary.py --corpus-dir corpus --vocab-size 8192 \
        --output-file data/vocab.txt --no-strip-accents

The vocabulary has exactly as many entries as asked for, [PAD], [UNK], [CLS], [SEP] and
[MASK] first. Give build_pretraining_dataset.py the same flags for case and accents.
"""

from flags import command_line, corpus, vocabulary


def main() -> None:
    """Builds what the flags ask for."""
    config = vocabulary.vocabulary_build_config()

    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from pretrain_data.build.vocabulary_builder import build_vocabulary

    build_vocabulary(config)


if __name__ == "__main__":
    vocabulary.define_flags()
    command_line.run(main, corpus.ALIASES)
