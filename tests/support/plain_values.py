"""Requests as dictionaries and lists, and the compared fields of answers as dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from protocol.primitives import ZERO_UUID
from protocol.schema import Api, Array, Struct, StructType

_COMPARED = ("error_code", "authorized_operations")
_NAMES = {
    *("name", "topic", "topic_name", "topic_id", "group_id", "key", "user", "transactional_id"),
    *("resource_type", "resource_name"),
    *("partition_index", "partition", "index", "principal_name", "token_requester_principal_name"),
}
"""Fields of answers: those that name an object, and those that are compared."""


class IdOf(NamedTuple):
    """A placeholder for the id of a topic, which each broker chooses."""

    topic: str


def request_of(
    api: Api, fields: Mapping[str, Any], ids: Mapping[str, bytes] | None = None, *, version: int | None = None
) -> Struct:
    """Return a request from the names and values of its fields; dictionaries stand for nested structs.

    `ids` are those of the topics in `IdOf`. With a `version`, fields that it lacks are left out.
    """

    def given(kind: Any, value: Any) -> Any:
        if isinstance(value, IdOf):
            return (ids or {})[value.topic]
        if isinstance(kind, Array) and value is not None:
            return [given(kind.element, each) for each in value]
        if isinstance(kind, StructType) and isinstance(value, Mapping):
            known = {field.name: field for field in kind.fields}
            unknown = value.keys() - known
            assert not unknown, f"{kind} has no {unknown}"
            wanted = [name for name in value if version is None or version in known[name].versions]
            return kind(**{name: given(known[name].type, value[name]) for name in wanted})
        return value

    request: Struct = given(api.request, fields)
    return request


def _said_of(told: Mapping[str, Any]) -> str:
    return repr(sorted((name, value) for name, value in told.items() if name in _NAMES))


def told_of(answer: Struct, topic_of: Callable[[bytes], str]) -> dict[str, Any]:
    """Return error codes and authorized operations by named object; lists are sorted by name."""
    found: dict[str, Any] = {}
    for field in answer.struct_type.fields:
        value = getattr(answer, field.name)
        if field.name == "acquired_records":  # the first client to ask gets them, and the time until then varies
            continue
        if isinstance(value, Struct):
            found[field.name] = told_of(value, topic_of)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            found[field.name] = sorted((told_of(each, topic_of) for each in value), key=_said_of)
        elif field.name == "topic_id":
            found[field.name] = "" if value == ZERO_UUID else topic_of(value)
        elif field.name in _NAMES or field.name.endswith(_COMPARED):
            found[field.name] = value
    return found
