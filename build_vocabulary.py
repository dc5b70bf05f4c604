r"""Trains a WordPiece vocabulary on text.

    python build_vocabulary.py --corpus-dir demo/factbook/corpus --vocab-size 4096 \
        --output-file demo/output/vocab.txt

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.build_vocabulary()
