"""The functions of `walk.py`, compiled if possible (protocol/records/compiled.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from protocol.records.compiled import find_compiled
from storage.cleaner import walk

_Function = TypeVar("_Function", bound=Callable[..., Any])


_MODULE = find_compiled(walk)
#: Whether the functions are compiled. Then a loop over records is faster than the functions for many records at a time.
IS_COMPILED = _MODULE is not None


def _compiled(function: _Function) -> _Function:
    return cast(_Function, getattr(_MODULE, function.__name__, function))


walk_batches = _compiled(walk.walk_batches)
walk_single = _compiled(walk.walk_single)
walk_records = _compiled(walk.walk_records)
walk_sizes = _compiled(walk.walk_sizes)
walk_kept = _compiled(walk.walk_kept)
put_keys = _compiled(walk.put_keys)
known_keys = _compiled(walk.known_keys)
move_keys = _compiled(walk.move_keys)
flip_marks = _compiled(walk.flip_marks)
