"""Prints train and inference FLOPs of the paper's models, and of runs of your own.

    python flops_computation.py --recipe recipes/small.flags,recipes/base.flags

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.flops_computation()
