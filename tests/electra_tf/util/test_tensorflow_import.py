"""Tests of the import of TensorFlow."""

import gc
import importlib.util
import json
import os
import subprocess
import sys
import types

import pytest

from electra_tf.util.errors import UserError
from electra_tf.util.tensorflow_import import (
    hiding,
    import_tensorflow,
    no_garbage_collection,
)

REPORT = """
import json, sys
from electra_tf.util.tensorflow_import import import_tensorflow
import_tensorflow()
loaded = [name for name in ("tensorflow_text", "sklearn", "matplotlib") if name in sys.modules]
import sklearn.metrics, matplotlib
import keras
print(json.dumps([loaded, keras.config.floatx()]))
"""


def test_only_what_is_used_is_loaded_and_keras_json_does_not_set_the_type(tmp_path):
    (tmp_path / "keras.json").write_text('{"floatx": "float64"}')
    result = subprocess.run(
        [sys.executable, "-c", REPORT],
        env={**os.environ, "KERAS_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [["tensorflow_text"], "float32"]


def test_native_errors_of_flags_in_the_environment_are_printed():
    result = subprocess.run(
        [sys.executable, "-c", REPORT],
        env={**os.environ, "TF_XLA_FLAGS": "--tf_xla_auto_git=2"},
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    assert "Unknown flag in TF_XLA_FLAGS: --tf_xla_auto_git=2" in result.stderr


def test_python_without_docstrings_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "flags", types.SimpleNamespace(optimize=2))
    with pytest.raises(UserError, match="PYTHONOPTIMIZE=2, or python -OO, removes docstrings"):
        import_tensorflow()


def test_hidden_modules_look_missing_until_the_end():
    names = ("colorsys", "json")
    sys.modules.pop("colorsys", None)
    with hiding(names):
        assert importlib.util.find_spec("colorsys") is None
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("colorsys")
        assert importlib.import_module("json") is json  # loaded before
    assert importlib.import_module("colorsys").rgb_to_hsv


def test_garbage_collection_goes_on_afterwards():
    with no_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
