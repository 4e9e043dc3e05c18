"""The functions of `fields.py`, compiled if possible (see compiled.py)."""

from __future__ import annotations

from protocol.records import fields
from protocol.records.twins import find_twin

_TWIN = find_twin(fields)
#: Whether it is compiled.
IS_COMPILED = _TWIN is not None

walk_fields = fields.walk_fields if _TWIN is None else _TWIN.walk_fields
