"""The functions of `fields.py`, compiled if possible (see compiled.py)."""

from __future__ import annotations

from protocol.records import fields
from protocol.records.compiled import find_compiled

_MODULE = find_compiled(fields)
#: Whether the functions are compiled.
IS_COMPILED = _MODULE is not None

walk_fields = fields.walk_fields if _MODULE is None else _MODULE.walk_fields
