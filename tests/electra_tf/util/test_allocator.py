"""Settings of the memory allocator."""

import ctypes

import pytest

from electra_tf.util.allocator import keep_freed_memory

HAS_GLIBC = hasattr(ctypes.CDLL(None), "mallopt")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("GLIBC_TUNABLES", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)


def test_glibc_takes_the_settings():
    assert keep_freed_memory() == HAS_GLIBC


@pytest.mark.parametrize("name", ["GLIBC_TUNABLES", "MALLOC_TOP_PAD_"])
def test_the_users_settings_win(name, monkeypatch):
    monkeypatch.setenv(name, "")
    assert not keep_freed_memory()


def test_other_allocators_are_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory()
