r"""Exports a model as a SavedModel that takes raw text, or as LiteRT.

    python export_saved_model.py --model_dir demo/output/models/quickstart \
        --export_dir demo/output/exported/discriminator
    python export_saved_model.py --model_dir demo/output/models/quickstart \
        --export_dir demo/output/exported/generator --component generator
    python export_saved_model.py --export_dir demo/output/exported/router \
        --model_dir demo/output/models/quickstart/finetuning_models/router_model_1_fold1

The signature "serving_default" takes texts and tokenizes them as training did, "tokens"
takes ids; `saved_model_cli show --dir EXPORT_DIR/1 --all` lists what they answer. An
existing version is never overwritten.
"""

from flags import command_line, export


def main() -> None:
    """Exports what the flags ask for."""
    config = export.export_config()

    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from electra_tf.inference.export.run import run

    run(config)


if __name__ == "__main__":
    export.define_flags()
    command_line.run(main)
