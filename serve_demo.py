"""Serves a web page over exported models, on this machine.

    python serve_demo.py --discriminator demo/output/exported/discriminator

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.serve_demo()
