"""Python's isolated mode (`python -I`) without a second start of the interpreter, where both are equal.

The process of `pybroker` has only run our own code. Usually only the folder of the script, or the current folder, is on
its path, and can be removed. PYTHONPATH, the user's site-packages, interpreter options and variables may have loaded
foreign code already: then only a second start isolates the process.
"""

from __future__ import annotations

import os
import sys

from pybroker.engine_process import PACKAGES

#: Flags of sys.flags that isolated mode would not keep.
_OPTIONS = (
    "debug", "inspect", "interactive", "optimize", "no_site", "verbose", "bytes_warning", "quiet", "dev_mode",
    "warn_default_encoding",
)  # fmt: skip

#: Variables that container images and programs set, and that do not matter here.
_ALLOWED_VARIABLES = frozenset(
    {
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONNOUSERSITE",
        "PYTHONSAFEPATH",
        "PYTHONUNBUFFERED",
        "PYTHON_GET_PIP_SHA256",
        "PYTHON_GET_PIP_URL",
        "PYTHON_PIP_VERSION",
        "PYTHON_SETUPTOOLS_VERSION",
        "PYTHON_SHA256",
        "PYTHON_VERSION",
    }
)


def isolate() -> bool:
    """Make this process like one of `python -I`, for modules that are not loaded yet. Return False if it cannot."""
    if not _can_be_isolated():
        return False
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder of the script; with -m, the current folder
    sys.dont_write_bytecode = False
    return True


def _can_be_isolated() -> bool:
    site = sys.modules.get("site")
    return not (
        any(getattr(sys.flags, name, 0) for name in _OPTIONS)
        or sys._xoptions
        or sys.warnoptions
        or any(name.startswith("PYTHON") and name not in _ALLOWED_VARIABLES for name in os.environ)
        or getattr(site, "ENABLE_USER_SITE", True)
        or not PACKAGES.isdisjoint(sys.modules)
        or not sys.path
    )
