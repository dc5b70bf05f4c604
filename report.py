"""Writes what runs have logged as one HTML page.

    python report.py demo/output/models/quickstart

`--help` tells the rest.
"""

from flags import programs

if __name__ == "__main__":
    programs.report()
