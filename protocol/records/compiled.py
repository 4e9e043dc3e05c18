"""Find the compiled form of a module.

The name of a compiled module ends with the checksum of its source (setup.py sets it). If the source has changed since,
the compiled module is not found, and the Python code runs.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import get_data
from types import ModuleType
from zlib import crc32


def find_compiled(module: ModuleType) -> ModuleType | None:
    """Return the compiled form of a module, or None."""
    package, _, name = module.__name__.rpartition(".")
    source = get_data(package, f"{name}.py") or b""
    try:
        return import_module(f"{module.__name__}_{crc32(source):08x}")
    except ImportError:
        return None
