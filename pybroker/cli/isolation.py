"""Python's isolated mode (`python -I`) without a second start of the interpreter, where that makes no difference.

The process of the command `pybroker` runs nobody else's code: only how it was started could make it find a foreign
`storage` or `protocol`. If there is just the folder of the script, or the current one, that is taken off the path. With
anything more (PYTHONPATH, a user's site packages, options, variables that change the interpreter) nobody knows what has
been loaded already, and only another start helps.
"""

from __future__ import annotations

import os
import sys

from pybroker.engine_process import PACKAGES

#: Flags of sys.flags with which a process is no other than without.
_OPTIONS = (
    "debug", "inspect", "interactive", "optimize", "no_site", "verbose", "bytes_warning", "quiet", "dev_mode",
    "warn_default_encoding",
)  # fmt: skip

#: Variables that Python's images and programs around it set, and that change nothing here.
_HARMLESS = frozenset(
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
    """Make this process what `python -I` would have made it, for modules that are not loaded yet; whether it is."""
    if not _can_be_isolated():
        return False
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder of the script, or with -m the current one
    sys.dont_write_bytecode = False
    return True


def _can_be_isolated() -> bool:
    site = sys.modules.get("site")
    return not (
        any(getattr(sys.flags, name, 0) for name in _OPTIONS)
        or sys._xoptions
        or sys.warnoptions
        or any(name.startswith("PYTHON") and name not in _HARMLESS for name in os.environ)
        or getattr(site, "ENABLE_USER_SITE", True)
        or not PACKAGES.isdisjoint(sys.modules)
        or not sys.path
    )
