r"""Builds pre-training data (TFRecords) from text.

    python build_pretraining_dataset.py --corpus-dir demo/factbook/corpus \
        --vocab-file demo/output/vocab.txt --max-seq-length 32 \
        --output-dir demo/output/pretrain_tfrecords

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.build_pretraining_dataset()
