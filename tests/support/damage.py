"""Damage a file while its broker is down."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path], None]


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 + 1])


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def garble(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(path.stat().st_size + 5))


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Change bits of one byte."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


DAMAGES: tuple[Damage, ...] = (remove, empty, halve, zero, garble)
