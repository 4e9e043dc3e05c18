"""Find the compiled form of a module.

The name of a compiled module ends with the checksum of its source (setup.py sets it). If the source has changed since,
the compiled module is not found, and the Python code runs.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from zlib import crc32


def find_compiled(module: ModuleType) -> ModuleType | None:
    """Return the compiled form of a module, or None."""
    try:
        return import_module(_compiled_name(module.__name__))
    except ImportError:
        return None


def has_compiled(module: str) -> bool:
    """Return whether the module of this name has a compiled form; imports neither."""
    return find_spec(_compiled_name(module)) is not None


def _compiled_name(module: str) -> str:
    """Return the name that the compiled form of the present source has. Raises ImportError without that source."""
    found = find_spec(module)
    if found is None or found.origin is None:
        raise ImportError(f"{module} has no source", name=module)
    with open(found.origin, "rb") as source:
        return f"{module}_{crc32(source.read()):08x}"
