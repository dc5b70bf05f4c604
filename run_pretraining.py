r"""Pre-trains an ELECTRA model, or evaluates one on held-out text.

    python run_pretraining.py --data-dir demo/output --model-name quickstart \
        --flagfile recipes/quickstart.flags

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.run_pretraining()
