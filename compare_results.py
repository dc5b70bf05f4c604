"""Puts the results of several fine-tuning runs into one Markdown table.

    python compare_results.py --results demo/output/models/quickstart/results

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.compare_results()
