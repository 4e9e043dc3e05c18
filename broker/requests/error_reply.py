"""The answer to a request that failed as a whole, in the shape of its API.

Where a response has an error code of its own, that is set. Where it has one per topic or partition, the topics and
partitions of the request are repeated, each with the error, as Kafka's `getErrorResponse` methods do; a few responses
have both. All other fields have their defaults.
"""

from __future__ import annotations

from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import ALTER_PARTITION_REASSIGNMENTS
from protocol.messages.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsResult,
)
from protocol.messages.describe_user_scram_credentials import DESCRIBE_USER_SCRAM_CREDENTIALS
from protocol.messages.elect_leaders import ELECT_LEADERS
from protocol.messages.list_partition_reassignments import LIST_PARTITION_REASSIGNMENTS
from protocol.schema import UNSET, Api, Array, Field, Struct, StructType

# Responses of these have the error of the whole and that of each item, as in Kafka.
_BOTH = (ELECT_LEADERS.key, ALTER_PARTITION_REASSIGNMENTS.key, DESCRIBE_USER_SCRAM_CREDENTIALS.key)
# Responses of these repeat the items, as in Kafka, though the items have no error code.
_REPEATED = (LIST_PARTITION_REASSIGNMENTS.key,)
# The second is that of AddPartitionsToTxn.
_ERROR_CODES = ("error_code", "partition_error_code")
# The names of a partition's number, which may differ between the request and the response of one API.
_PARTITION_NUMBER = ("partition_index", "index", "partition", "partition_id")


def error_reply(api: Api, version: int, request: Struct, code: ErrorCode, message: str | None = None) -> Struct | None:
    """Return a response with `code` in each error field, or None if the response has no such field.

    `message` goes into the fields for messages, which otherwise are null.
    """
    reply = api.response()
    if api.key == ALTER_USER_SCRAM_CREDENTIALS.key:  # one result for a user, who may be in both arrays of the request
        users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
        reply.results = [
            AlterUserScramCredentialsResult(user=each, error_code=code, error_message=message) for each in users
        ]
        return reply
    placed = _fill(reply, version, request, code, message)
    if api.key in _BOTH:
        placed = _fill_items(reply, version, request, code, message) or placed
    elif api.key in _REPEATED:
        _fill_items(reply, version, request, code, message, bare=True)
    return reply if placed else None


def _fill(
    target: Struct, version: int, source: object, code: ErrorCode, message: str | None, *, bare: bool = False
) -> bool:
    """Set `code` in a struct, or else in the structs of its arrays. Returns whether there was a field for it."""
    fields = [field for field in target.struct_type.fields if version in field.versions]
    named = next((field.name for field in fields if field.name in _ERROR_CODES), None)
    if named is not None:
        setattr(target, named, code)
        if any(field.name == "error_message" and version in field.nullable for field in fields):
            target.error_message = message
        return True
    return _fill_items(target, version, source, code, message, bare=bare)


def _fill_items(
    target: Struct, version: int, source: object, code: ErrorCode, message: str | None, *, bare: bool = False
) -> bool:
    """Set `code` in the arrays of a struct, with an item for each of the source. Returns whether it had a field.

    `bare`: repeat also items without an error field.
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
            _fill(mirrored, version, item, code, message, bare=bare)
            items.append(mirrored)
        setattr(target, field.name, items)
        placed = True
    return placed


def _element(field: Field) -> StructType | None:
    """Return the struct type of an array field, or None."""
    element = field.type.element if isinstance(field.type, Array) else None
    return element if isinstance(element, StructType) else None


def _holds_error(kind: StructType, version: int) -> bool:
    for field in kind.fields:
        if version in field.versions:
            element = _element(field)
            if field.name in _ERROR_CODES or (element is not None and _holds_error(element, version)):
                return True
    return False


def _counterpart(field: Field, version: int, source: object) -> str | None:
    """Return the array of the request that an array of the response answers: of the same name, else the only one."""
    if not isinstance(source, Struct):
        return None
    arrays = [
        each.name for each in source.struct_type.fields if isinstance(each.type, Array) and version in each.versions
    ]
    if field.name in arrays:
        return field.name
    return arrays[0] if len(arrays) == 1 else None


def _copy_identity(target: Struct, source: object) -> None:
    """Copy the fields that identify an item and that both have, or the item itself if the request lists plain values.

    Fields with a declared default, such as a timestamp, do not identify: the default stands for no answer. An array
    identifies if both have the same struct type in it, such as the entity of a quota.
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
