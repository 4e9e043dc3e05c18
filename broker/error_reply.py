"""The answer to a request that failed as a whole, in the shape of its API.

Where a response has an error code of its own, that is set. Where it has one per topic or partition, the topics and
partitions of the request are repeated, each with the error, as Kafka's `getErrorResponse` methods do. What a response
needs beyond that has its default.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.schema import Api, Array, Field, Struct, StructType


def error_reply(api: Api, request: Struct, code: ErrorCode) -> Struct | None:
    """A response with `code` wherever one fits, or None when the response has no place for an error."""
    reply = api.response()
    placed = _fill(reply, api.response, request, code)
    return reply if placed else None


def _fill(target: Struct, kind: StructType, source: Struct, code: ErrorCode) -> bool:
    """Put `code` into a struct; repeat arrays of the source in it that lead to errors. Whether a place was found."""
    if any(field.name == "error_code" for field in kind.fields):
        target.error_code = code
        return True
    placed = False
    for field in kind.fields:
        element = field.type.element if isinstance(field.type, Array) else None
        if not isinstance(element, StructType) or not _holds_error(element):
            continue
        like = _counterpart(field, source)
        if like is None:
            continue
        items = []
        for item in getattr(source, like) or ():
            mirrored = element()
            _copy_identity(mirrored, element, item)
            _fill(mirrored, element, item, code)
            items.append(mirrored)
        setattr(target, field.name, items)
        placed = True
    return placed


def _holds_error(kind: StructType) -> bool:
    return any(
        field.name == "error_code"
        or (
            isinstance(field.type, Array)
            and isinstance(field.type.element, StructType)
            and _holds_error(field.type.element)
        )
        for field in kind.fields
    )


def _counterpart(field: Field, source: object) -> str | None:
    """The array of the request that an array of the response answers: of the same name, else the only one there is."""
    if not isinstance(source, Struct):
        return None
    arrays = [each.name for each in source.struct_type.fields if isinstance(each.type, Array)]
    if field.name in arrays:
        return field.name
    return arrays[0] if len(arrays) == 1 else None


def _copy_identity(target: Struct, kind: StructType, source: object) -> None:
    """Copy what names an item: the fields that both have, or the item itself where the request lists plain values."""
    if isinstance(source, Struct):
        theirs = {each.name: each for each in source.struct_type.fields}
        for field in kind.fields:
            if field.name in theirs and not isinstance(field.type, Array):
                setattr(target, field.name, getattr(source, field.name))
            elif field.name in _PARTITION_NUMBER and (
                name := next((n for n in _PARTITION_NUMBER if n in theirs), None)
            ):
                setattr(target, field.name, getattr(source, name))
    else:
        setattr(target, kind.fields[0].name if kind.fields[0].name != "error_code" else kind.fields[1].name, source)


# Kafka calls the number of a partition by either name, also in the request and the response of one API.
_PARTITION_NUMBER = ("partition_index", "index", "partition", "partition_id")
