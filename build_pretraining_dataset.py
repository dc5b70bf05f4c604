r"""Builds pre-training data (TFRecords) from text.

    python build_pretraining_dataset.py --corpus-dir demo/corpus \
        --vocab-file demo/vocab.txt --output-dir demo/output/pretrain_tfrecords \
        --max-seq-length 128

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.build_pretraining_dataset()
