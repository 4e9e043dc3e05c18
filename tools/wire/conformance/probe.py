"""A probe: the request of an API to send, and the answers that are correct."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.schema import Api, Array, Struct, StructType

if TYPE_CHECKING:
    from tools.wire.conformance.stage import Stage

Fields = Callable[["Stage", int], Mapping[str, Any]]
Check = Callable[["Stage", int, Struct], str | None]

GOOD = frozenset((ErrorCode.NONE,))


class Destination(Enum):
    """The broker of a cluster that gets the request."""

    ANY = "any"
    LEADER = "leader"
    GROUP = "group"
    TRANSACTION = "transaction"


class Probe(NamedTuple):
    """A request of an API: its fields by version, the allowed error codes, and a check of the answer."""

    key: ApiKey
    fields: Fields
    expected: frozenset[int] = GOOD
    destination: Destination = Destination.ANY
    check: Check | None = None
    newest: int | None = None
    """The newest version for clients; later versions are for brokers."""


def given(api: Api, version: int, fields: Mapping[str, Any]) -> Struct:
    """Build a request from nested dictionaries of fields; omit fields that the version does not have."""
    made = _value(api.request, version, fields)
    assert isinstance(made, Struct)
    return made


def _value(kind: object, version: int, value: Any) -> Any:
    if isinstance(kind, Array) and value is not None:
        return [_value(kind.element, version, each) for each in value]
    if isinstance(kind, StructType) and value is not None:
        known = {field.name: field for field in kind.fields}
        kept = {name: each for name, each in value.items() if version in known[name].versions}
        return kind(**{name: _value(known[name].type, version, each) for name, each in kept.items()})
    return value


def one_of(*codes: ErrorCode) -> frozenset[int]:
    """Return a set of error codes, each of which is correct."""
    return frozenset(codes)
