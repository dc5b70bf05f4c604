r"""Shows which tokens of a few sentences the discriminator believes were replaced.

    python show_replaced_tokens.py --data-dir demo/output --model-name quickstart \
        --flagfile recipes/quickstart.flags --text_file demo/sentences.txt
"""

from flags import command_line, replaced_tokens


def main() -> None:
    """Loads the newest checkpoint and prints each sentence of the file."""
    config = replaced_tokens.config_from_flags()

    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from electra_tf.inference.replaced_tokens import show

    show(config.model, config.sentences, color=config.color)
    print("\nNext: pre-train on your own text, see README.md")


if __name__ == "__main__":
    replaced_tokens.define_flags()
    command_line.run(main)
