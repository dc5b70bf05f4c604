r"""Describes and verifies built records: lengths, segments, tokens, duplicates, examples.

    python inspect_dataset.py --data-dir demo/output --model-name quickstart \
        --flagfile recipes/quickstart.flags --examples 3

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.inspect_dataset()
