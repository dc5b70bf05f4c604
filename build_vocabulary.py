r"""Trains a WordPiece vocabulary on a directory of text.

    python build_vocabulary.py --corpus-dir demo/corpus --vocab-size 4096 \
        --output-file demo/output/vocab.txt

`--help` tells the rest.
"""

from flags import programs

if __name__ == "__main__":
    programs.build_vocabulary()
