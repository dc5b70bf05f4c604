r"""Builds pre-training data (TFRecords) from the archives of OpenWebText.

    python build_openwebtext_pretraining_dataset.py --data-dir data \
        --max-seq-length 128 --num-processes 5

The data directory holds openwebtext/ with the .xz archives as they were downloaded, and
the vocabulary, vocab.txt. The archives are read as they are: nothing is unpacked to disk.
The TFRecords and their manifest, pretrain_data.json, go to pretrain_tfrecords/ beside them.
"""

from flags import command_line, corpus


def main() -> None:
    """Builds what the flags ask for."""
    from pretrain_data.build.dataset import build_pretraining_data

    build_pretraining_data(corpus.openwebtext_build_config())


if __name__ == "__main__":
    corpus.define_openwebtext_flags()
    command_line.run(main, corpus.ALIASES)
