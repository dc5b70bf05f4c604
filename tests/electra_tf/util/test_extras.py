"""What an extra would install, and is not there."""

import sys
import types

import pytest

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.run import export
from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra


def test_the_message_names_the_extra(monkeypatch):
    assert import_extra("json", "scoring", "A test").loads("[1]") == [1]
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(UserError) as error:
        import_extra("jiwer", "scoring", "A test")
    assert str(error.value) == (
        "A test needs jiwer, which is not installed: pip install 'electra-tf[scoring]'"
    )


def test_a_package_that_is_broken_is_not_said_to_be_missing(monkeypatch, tmp_path):
    (tmp_path / "broken_package.py").write_text("import a_package_that_nobody_has")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has"):
        import_extra("broken_package", "scoring", "A test")


@pytest.mark.parametrize(
    ("format", "module", "extra"),
    [
        ("saved_model", "tensorflow_serving", "serving"),
        ("onnx", "tf2onnx", "onnx"),
        ("onnx", "onnxruntime", "onnx"),
    ],
)
def test_an_export_fails_before_anything_is_read_or_written(
    monkeypatch, tmp_path, format, module, extra
):
    for other in ("tf2onnx", "onnxruntime"):  # neither is there without the extra
        monkeypatch.setitem(sys.modules, other, types.ModuleType(other))
    monkeypatch.setitem(sys.modules, module, None)
    config = ExportConfig(
        model_dir=str(tmp_path / "none"), export_dir=tmp_path / "exported", format=format
    )
    message = rf"--format={format} needs {module}.*electra-tf\[{extra}\]"
    with pytest.raises(UserError, match=message):
        export(config, loaders=())
    assert list(tmp_path.iterdir()) == []
