"""The answer to a request that failed as a whole, in the shape of its API.

Where a response has an error code of its own, that is set. Where it has one per topic or partition, the topics and
partitions of the request are repeated, each with the error, as Kafka's `getErrorResponse` methods do; a few responses
have both. What a response needs beyond that has its default.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import ALTER_PARTITION_REASSIGNMENTS
from protocol.messages.describe_user_scram_credentials import DESCRIBE_USER_SCRAM_CREDENTIALS
from protocol.messages.elect_leaders import ELECT_LEADERS
from protocol.messages.list_partition_reassignments import LIST_PARTITION_REASSIGNMENTS
from protocol.schema import UNSET, Api, Array, Field, Struct, StructType

# Of these Kafka tells the error of the whole, and of each item besides.
_TOLD_TWICE = (ELECT_LEADERS.key, ALTER_PARTITION_REASSIGNMENTS.key, DESCRIBE_USER_SCRAM_CREDENTIALS.key)
# Of these Kafka repeats the items, too, though none of them can tell an error.
_REPEATED = (LIST_PARTITION_REASSIGNMENTS.key,)
# Kafka calls the number of a partition by any of these names, also in the request and the response of one API.
_PARTITION_NUMBER = ("partition_index", "index", "partition", "partition_id")


def error_reply(api: Api, version: int, request: Struct, code: ErrorCode) -> Struct | None:
    """A response with `code` wherever one fits, or None when the response has no place for an error."""
    reply = api.response()
    placed = _fill(reply, version, request, code)
    if api.key in _TOLD_TWICE:
        placed = _fill_items(reply, version, request, code) or placed
    elif api.key in _REPEATED:
        _fill_items(reply, version, request, code, bare=True)
    return reply if placed else None


def _fill(target: Struct, version: int, source: object, code: ErrorCode, *, bare: bool = False) -> bool:
    """Put `code` into a struct, or else into what its arrays hold; whether it fits."""
    fields = [field for field in target.struct_type.fields if version in field.versions]
    if any(field.name == "error_code" for field in fields):
        target.error_code = code
        if any(field.name == "error_message" and version in field.nullable for field in fields):
            target.error_message = None
        return True
    return _fill_items(target, version, source, code, bare=bare)


def _fill_items(target: Struct, version: int, source: object, code: ErrorCode, *, bare: bool = False) -> bool:
    """Put `code` into what the arrays of a struct hold, one for each element of the source's; whether it fits.

    `bare`: repeat also elements that have no place for it.
    """
    fields = [field for field in target.struct_type.fields if version in field.versions]
    placed = False
    for field in fields:
        element = _element(field)
        like = _counterpart(field, version, source)
        if element is None or like is None or not (bare or _holds_error(element, version)):
            continue
        items = []
        for item in getattr(source, like) or ():
            mirrored = element()
            _copy_identity(mirrored, item)
            _fill(mirrored, version, item, code, bare=bare)
            items.append(mirrored)
        setattr(target, field.name, items)
        placed = True
    return placed


def _element(field: Field) -> StructType | None:
    """What an array of structs holds."""
    element = field.type.element if isinstance(field.type, Array) else None
    return element if isinstance(element, StructType) else None


def _holds_error(kind: StructType, version: int) -> bool:
    for field in kind.fields:
        if version in field.versions:
            element = _element(field)
            if field.name == "error_code" or (element is not None and _holds_error(element, version)):
                return True
    return False


def _counterpart(field: Field, version: int, source: object) -> str | None:
    """The array of the request that an array of the response answers: of the same name, else the only one there is."""
    if not isinstance(source, Struct):
        return None
    arrays = [
        each.name for each in source.struct_type.fields if isinstance(each.type, Array) and version in each.versions
    ]
    if field.name in arrays:
        return field.name
    return arrays[0] if len(arrays) == 1 else None


def _copy_identity(target: Struct, source: object) -> None:
    """Copy what names an item: the fields that both have, or the item itself where the request lists plain values.

    Fields with a default of their own, such as a timestamp, are not names: the default says that there is no answer. Of
    arrays those are names that hold the very same structs in both, such as the entity of a quota.
    """
    fields = [
        field
        for field in target.struct_type.fields
        if not isinstance(field.type, Array) and field.given_default is UNSET
    ]
    if not isinstance(source, Struct):
        named = next(field for field in fields if not field.name.startswith("error_"))
        setattr(target, named.name, source)
        return
    theirs = {each.name: each for each in source.struct_type.fields}
    for field in target.struct_type.fields:
        kind = _element(field)
        if kind is not None and field.name in theirs and _element(theirs[field.name]) is kind:
            setattr(target, field.name, list(getattr(source, field.name) or ()))
    for field in fields:
        name: str | None = field.name
        if name not in theirs and name in _PARTITION_NUMBER:
            name = next((each for each in _PARTITION_NUMBER if each in theirs), None)
        if name in theirs:
            setattr(target, field.name, getattr(source, name))
