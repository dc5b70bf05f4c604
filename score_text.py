r"""Scores texts by their pseudo-log-likelihood, and re-ranks n-best lists by it.

    python score_text.py --data-dir demo/output --model-name quickstart \
        --flagfile recipes/quickstart.flags --text_file demo/sentences.txt \
        --output_file demo/output/scores.tsv

    python score_text.py --data-dir DATA --model-name electric \
        --flagfile recipes/electric.flags --nbest_file lists.jsonl \
        --tune_nbest_file tune.jsonl --output_file reranked.jsonl
"""

from flags import command_line, scoring


def main() -> None:
    """Loads the newest checkpoint, scores, and writes the output file."""
    config = scoring.config_from_flags()

    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from electra_tf.inference.scoring.run import run

    run(config)


if __name__ == "__main__":
    scoring.define_flags()
    command_line.run(main)
