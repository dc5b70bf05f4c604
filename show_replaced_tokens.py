r"""Shows which tokens of a few sentences the discriminator believes were replaced.

    python show_replaced_tokens.py --data-dir demo/output --model-name quickstart \
        --flagfile recipes/quickstart.flags --text_file demo/sentences.txt

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.show_replaced_tokens()
