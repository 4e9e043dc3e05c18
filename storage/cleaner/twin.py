"""The functions of `walk.py`: of its compiled twin, if there is one that was made of the source that is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from protocol.records.twins import find_twin
from storage.cleaner import walk

_Function = TypeVar("_Function", bound=Callable[..., Any])


_TWIN = find_twin(walk)
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
