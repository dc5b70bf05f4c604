"""Writes what runs have logged as one HTML page.

    python report.py demo/output/models/quickstart

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.report()
