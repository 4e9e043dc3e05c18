"""Compiled twins of modules: each is used only if it was made of the source that is there.

A twin's name ends with the checksum of its source (setup.py gives it), so one that was made before the source was
changed is not found: Python runs then, as where nothing was compiled.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import get_data
from types import ModuleType
from zlib import crc32


def find_twin(module: ModuleType) -> ModuleType | None:
    """The twin of a module; None where there is none."""
    package, _, name = module.__name__.rpartition(".")
    source = get_data(package, f"{name}.py") or b""
    try:
        return import_module(f"{module.__name__}_{crc32(source):08x}")
    except ImportError:
        return None
