"""The entry point of the image, which is a script outside of the packages, as a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

DOCKER = Path(__file__).resolve().parents[2] / "docker"


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("entrypoint", DOCKER / "entrypoint.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


entrypoint = _module()
