"""The parts that rules are made of.

A rule is a function of a request and its handler. It removes from the request what is not allowed, calls the handler
with the rest, and adds the refusals to the answer. So handlers need not check access. A few ask the guard for things
that are not in the request: the topics of a fetch session, the topics of a page, topics that a request creates, and the
operations that a client may do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from broker.requests.served_api import Reply
from protocol.error_codes import ErrorCode
from protocol.schema import Array, Struct
from runtime.deferred import Deferred
from security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from broker.access.authorization.access import Access

Handle: TypeAlias = Callable[[Struct], Reply]
Rule: TypeAlias = "Callable[[Access, Struct, Handle], Reply]"

CODES = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Question(NamedTuple):
    """The operation that must be allowed for an item."""

    operation: Operation
    kind: ResourceType
    name: str


Ask: TypeAlias = "Callable[[Access, Any], Question | None]"


def allow_all(_: Access, request: Struct, handle: Handle) -> Reply:
    """Allow every client."""
    return handle(request)


def cluster(*operations: Operation) -> Rule:
    """Allow clients that may do one of the operations on the cluster."""

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        *first, last = operations
        if any(access.may_cluster(each, log_if_denied=False) for each in first) or access.may_cluster(last):
            return handle(request)
        return access.refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return rule


def one(operation: Operation, kind: ResourceType, field: str) -> Rule:
    """Allow clients that may do the operation on the resource in a field; all clients if the field is null."""

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        name = getattr(request, field)
        if name is None or access.may(operation, kind, name):
            return handle(request)
        return access.refused(request, CODES[kind])

    return rule


def together(*rules: Rule) -> Rule:
    """Apply several rules, one after the other."""

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        def ask(number: int, request: Struct) -> Reply:
            if number == len(rules):
                return handle(request)
            return rules[number](access, request, lambda allowed: ask(number + 1, allowed))

        return ask(0, request)

    return rule


def each(array: str, ask: Ask, text: Callable[[ErrorCode], str | None] = lambda _: None) -> Rule:
    """Check each item of an array by itself. Refused items come last in the answer, each with its error.

    `text(code)` is the error message, in answers that have a field for it.
    """

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        allowed, refusals = split(access, getattr(request, array) or (), ask)
        if not refusals:
            return handle(request)
        refused = [
            refuse_with_text(access.refused(changed(request, **{array: items}), code), text(code))
            for code, items in refusals.items()
        ]
        if allowed:
            return then(handle(changed(request, **{array: allowed})), lambda reply: joined([reply, *refused]))
        return joined(refused)

    return rule


def kafka_text(code: ErrorCode) -> str:
    """Return the text of an error, in answers in which Kafka has it."""
    return code.text


def refuse_with_text(reply: Struct, text: str | None) -> Struct:
    """Refuse each item, with a text."""
    for field in reply.struct_type.fields:
        if text is not None and isinstance(field.type, Array):
            for item in getattr(reply, field.name) or ():
                item.error_message = text
    return reply


def visible_items(array: str, ask: Ask) -> Rule:
    """Allow every client; leave out the items of an array of the answer that it may not see."""

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        def shorten(reply: Struct) -> Struct:
            kept, _ = split(access, getattr(reply, array), ask, log_if_denied=False)
            return changed(reply, **{array: kept})

        return then(handle(request), shorten)

    return rule


def to_topic(operation: Operation) -> Ask:
    """Ask for an operation on the topic that an item names, by name or id. The handler refuses unknown topics."""

    def ask(access: Access, item: Struct) -> Question | None:
        name = access.topic_name(item)
        return None if name is None else Question(operation, ResourceType.TOPIC, name)

    return ask


def to_named(operation: Operation, kind: ResourceType, field: str | None = None) -> Ask:
    """Ask for an operation on the resource in a field of the item; without a field, the item itself is the name."""

    def ask(_: Access, item: Any) -> Question:
        return Question(operation, kind, item if field is None else getattr(item, field))

    return ask


def split(
    access: Access, items: Iterable[Any], ask: Ask, *, log_if_denied: bool = True
) -> tuple[list[Any], dict[ErrorCode, list[Any]]]:
    """Return (the allowed items, the refused items by error)."""
    allowed: list[Any] = []
    refused: dict[ErrorCode, list[Any]] = {}
    for item in items:
        question = ask(access, item)
        if question is None or access.may(
            question.operation, question.kind, question.name, log_if_denied=log_if_denied
        ):
            allowed.append(item)
        else:
            refused.setdefault(CODES[question.kind], []).append(item)
    return allowed, refused


def changed(value: Struct, **fields: object) -> Struct:
    """Return a copy with other values in some fields."""
    copied = copy.copy(value)
    for name, field in fields.items():
        setattr(copied, name, field)
    return copied


def joined(replies: Sequence[Struct]) -> Struct:
    """Return the first answer with the items of the others in its arrays."""
    first, *others = replies
    arrays = [field.name for field in first.struct_type.fields if isinstance(field.type, Array)]
    return (
        changed(
            first,
            **{name: [item for reply in (first, *others) for item in getattr(reply, name) or ()] for name in arrays},
        )
        if others
        else first
    )


def then(reply: Reply, function: Callable[[Struct], Struct]) -> Reply:
    """Apply `function` to an answer, now or when it is there."""
    if isinstance(reply, Deferred):
        return reply.then(function)
    return None if reply is None else function(reply)


def add_refused(reply: Reply, refused: Struct) -> Reply:
    """Add refused items to an answer, unless the answer is an error of the whole."""
    return then(reply, lambda answer: answer if answer.error_code else joined([answer, refused]))
