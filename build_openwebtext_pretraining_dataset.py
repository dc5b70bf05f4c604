r"""Builds pre-training data (TFRecords) from the archives of OpenWebText.

    python build_openwebtext_pretraining_dataset.py --data-dir data \
        --max-seq-length 128 --num-processes 5

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.build_openwebtext_pretraining_dataset()
