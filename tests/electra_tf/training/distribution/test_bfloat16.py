"""bfloat16 on a processor that emulates it is warned of."""

import pytest

from electra_tf.training.distribution import bfloat16
from electra_tf.util.console import warn_once


@pytest.mark.parametrize(
    ("cpu_info", "precision", "is_slow"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_vnni\n", "mixed_bfloat16", True),
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_vnni\n", "float32", False),
        ("flags\t\t: fpu avx512_bf16 amx_bf16\n", "mixed_bfloat16", False),
        ("BogoMIPS\t: 50.00\nFeatures\t: fp asimd bf16\n", "mixed_bfloat16", False),
        ("BogoMIPS\t: 50.00\nFeatures\t: fp asimd\n", "mixed_bfloat16", True),
        ("processor\t: 0\nbf16 is not among the flags here\n", "mixed_bfloat16", False),
        (None, "mixed_bfloat16", False),
    ],
)
def test_emulated_bfloat16_is_warned_of(
    cpu_info, precision, is_slow, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "cpuinfo"
    if cpu_info is not None:
        path.write_text(cpu_info)
    monkeypatch.setattr(bfloat16, "_CPU_INFO", path)
    warn_once.cache_clear()
    bfloat16.warn_of_emulated_bfloat16(precision)
    assert ("--precision=float32" in capsys.readouterr().err) == is_slow


def test_a_gpu_has_bfloat16_of_its_own(tmp_path, monkeypatch, capsys):
    path = tmp_path / "cpuinfo"
    path.write_text("flags\t\t: fpu\n")
    monkeypatch.setattr(bfloat16, "_CPU_INFO", path)

    class Gpu:
        device_type = "GPU"

    monkeypatch.setattr(bfloat16.tf.config, "list_logical_devices", lambda: [Gpu()])
    warn_once.cache_clear()
    bfloat16.warn_of_emulated_bfloat16("mixed_bfloat16")
    assert capsys.readouterr().err == ""
