"""Damages of files: flipped bits, cut and zeroed parts, and files that are gone."""

import pathlib
import random
from collections.abc import Callable

_BLOCK = 512


def _flip_bit(content: bytearray, generator: random.Random) -> bytearray:
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    return content


def _change_byte(content: bytearray, generator: random.Random) -> bytearray:
    content[generator.randrange(len(content))] = generator.randrange(256)
    return content


def _change_digit(content: bytearray, generator: random.Random) -> bytearray:
    """The damage that a parser cannot see; a bit is flipped where there is no digit."""
    places = [i for i, byte in enumerate(content) if chr(byte).isdigit()]
    if not places:
        return _flip_bit(content, generator)
    content[generator.choice(places)] = ord(generator.choice("0123456789"))
    return content


def _zero_part(content: bytearray, generator: random.Random) -> bytearray:
    start = generator.randrange(len(content))
    size = min(generator.randrange(1, _BLOCK), len(content) - start)
    content[start : start + size] = bytes(size)
    return content


def _garble_part(content: bytearray, generator: random.Random) -> bytearray:
    start = generator.randrange(len(content))
    size = min(generator.randrange(1, _BLOCK), len(content) - start)
    content[start : start + size] = generator.randbytes(size)
    return content


def _leave_out_part(content: bytearray, generator: random.Random) -> bytearray:
    start = generator.randrange(len(content))
    del content[start : start + generator.randrange(1, _BLOCK)]
    return content


Damage = Callable[[bytearray, random.Random], bytearray]
DAMAGES: dict[str, Damage | None] = {
    "a bit flipped": _flip_bit,
    "a byte changed": _change_byte,
    "a digit changed": _change_digit,
    "cut": lambda content, generator: content[: generator.randrange(len(content))],
    "emptied": lambda content, generator: bytearray(),
    "zeroed": lambda content, generator: bytearray(len(content)),
    "partly zeroed": _zero_part,
    "partly garbled": _garble_part,
    "a part left out": _leave_out_part,
    "longer": lambda content, generator: content + generator.randbytes(_BLOCK),
    "removed": None,
}


def damage(path: pathlib.Path, name: str, generator: random.Random) -> bool:
    """Damages a file; returns whether it changed."""
    before = path.read_bytes()
    change = DAMAGES[name]
    if change is None:
        path.unlink()
        return True
    if not before:
        return False
    after = bytes(change(bytearray(before), generator))
    path.write_bytes(after)
    return after != before
