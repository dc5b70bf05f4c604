r"""Prints train and inference FLOPs of the paper's models, and of runs of your own.

    python flops_computation.py
    python flops_computation.py --recipe recipes/small.flags,recipes/base.flags

A recipe with changes, all numbers written to a file as well:

    python flops_computation.py --flagfile recipes/small.flags --train_batch_size 64 \
        --json flops.json

Fine-tuning, with the encoder of a pre-trained model:

    python flops_computation.py --recipe recipes/text_router.flags \
        --data-dir demo/output --model-name quickstart
"""

from flags import command_line, flops


def main() -> None:
    """Prints, and writes if asked, what the flags ask for."""
    from electra_tf.flops.report import format_report, to_json
    from electra_tf.util.files import write_atomically

    config = flops.config_from_flags()
    print(format_report(config.runs), end="")
    if config.json:
        write_atomically(config.json, to_json(config.runs))
        print(f"\nWritten to {config.json}")


if __name__ == "__main__":
    flops.define_flags()
    command_line.run(main)
