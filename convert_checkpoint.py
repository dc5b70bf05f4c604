r"""Converts checkpoints between this project, the authors' code, Hugging Face and KerasHub.

    python convert_checkpoint.py --from demo/output/models/quickstart \
        --to_format huggingface --output demo/output/huggingface

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.convert_checkpoint()
