r"""Puts the results of several fine-tuning runs into one Markdown table.

    python compare_results.py --results models/small/results --results models/base/results

Two runs of one model, under names of your own, written to a file as well:

    python compare_results.py --results first/nsmc_results.json,second/nsmc_results.json \
        --names "rate 1e-4,rate 3e-4" --output comparison.md
"""

from flags import command_line, comparison


def main() -> None:
    """Prints, and writes if asked, what the flags ask for."""
    from electra_tf.util.files import write_atomically
    from finetune.results.comparison import merge_tables

    config = comparison.config_from_flags()
    table = merge_tables(config.results, config.names)
    print(table, end="")
    if config.output:
        write_atomically(config.output, table)
        print(f"\nWritten to {config.output}")


if __name__ == "__main__":
    comparison.define_flags()
    command_line.run(main)
