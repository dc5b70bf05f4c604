r"""Converts checkpoints between this project, the authors' code, Hugging Face and KerasHub.

    python convert_checkpoint.py --from DATA/models/small --to_format huggingface \
        --output hf_small

    python convert_checkpoint.py --from electra_small --to_format electra_tf \
        --output DATA/models/small

The format of --from is found by its files: a folder, or the prefix of a TensorFlow
checkpoint. What the target has no place for is named, line by line.
"""

from flags import command_line, conversion


def main() -> None:
    """Converts what the flags ask for."""
    config = conversion.config_from_flags()

    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from electra_tf.interop.conversion import convert

    convert(config)


if __name__ == "__main__":
    conversion.define_flags()
    command_line.run(main)
