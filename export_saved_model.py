r"""Exports a model as a SavedModel that takes raw text, or as LiteRT, ONNX or StableHLO.

    python export_saved_model.py --model_dir demo/output/models/quickstart \
        --export_dir demo/output/exported/discriminator

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.export_saved_model()
