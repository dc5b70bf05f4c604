r"""Scores texts by their pseudo-log-likelihood, and re-ranks n-best lists by it.

    python score_text.py --data-dir demo/output --model-name quickstart \
        --flagfile recipes/quickstart.flags --text_file demo/sentences.txt \
        --output_file demo/output/scores.tsv

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.score_text()
