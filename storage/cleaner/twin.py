"""The functions of `walk.py`: of its compiled twin, if there is one that was made of the source that is there.

The twin's name ends with the checksum of its source (setup.py gives it), so one that was made before the source was
changed is not found: Python walks then, as where nothing was compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data
from types import ModuleType
from typing import Any, TypeVar, cast
from zlib import crc32

from storage.cleaner import walk

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _find_twin() -> ModuleType | None:
    source = get_data(__package__, "walk.py") or b""
    try:
        return import_module(f"{walk.__name__}_{crc32(source):08x}")
    except ImportError:
        return None


_TWIN = _find_twin()
#: Whether it is compiled: then a walk is faster than what is otherwise done for many records at a time.
IS_COMPILED = _TWIN is not None


def _of_twin(function: _Function) -> _Function:
    return cast(_Function, getattr(_TWIN, function.__name__, function))


walk_batches = _of_twin(walk.walk_batches)
walk_single = _of_twin(walk.walk_single)
walk_records = _of_twin(walk.walk_records)
walk_sizes = _of_twin(walk.walk_sizes)
walk_kept = _of_twin(walk.walk_kept)
put_keys = _of_twin(walk.put_keys)
known_keys = _of_twin(walk.known_keys)
move_keys = _of_twin(walk.move_keys)
flip_marks = _of_twin(walk.flip_marks)
