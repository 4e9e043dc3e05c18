"""Of which kinds of questions a rule is made.

A rule is a function: it is given a request and the handler, and gives back an answer. It takes out of the request what
is not allowed, calls the handler with the rest, and puts the refusals into its answer. So handlers know nothing of
access, but for those that ask the guard for what no request says: what sessions of fetches remember, which topics there
are to be told page by page, which are made by the way, and what clients may do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from broker.requests.served_api import Reply
from protocol.errors import ErrorCode
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
    """What has to be allowed for an item."""

    operation: Operation
    kind: ResourceType
    name: str


Ask: TypeAlias = "Callable[[Access, Any], Question | None]"


def free(_: Access, request: Struct, handle: Handle) -> Reply:
    """Everybody may."""
    return handle(request)


def cluster(*operations: Operation) -> Rule:
    """Who may do one of these to the cluster."""

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        *first, last = operations
        if any(access.may_cluster(each, tell=False) for each in first) or access.may_cluster(last):
            return handle(request)
        return access.refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return rule


def one(operation: Operation, kind: ResourceType, field: str) -> Rule:
    """Who may do that to what a field names; a field without a value asks for nothing."""

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        name = getattr(request, field)
        if name is None or access.may(operation, kind, name):
            return handle(request)
        return access.refused(request, CODES[kind])

    return rule


def together(*rules: Rule) -> Rule:
    """All of these, one after the other."""

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        def ask(number: int, request: Struct) -> Reply:
            if number == len(rules):
                return handle(request)
            return rules[number](access, request, lambda allowed: ask(number + 1, allowed))

        return ask(0, request)

    return rule


def each(array: str, ask: Ask, text: Callable[[ErrorCode], str | None] = lambda _: None) -> Rule:
    """Each item of an array by itself; those that are refused are answered with their error, behind the others.

    `text` is what is told besides, in answers that have a place for it.
    """

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        allowed, refusals = split(access, getattr(request, array) or (), ask)
        if not refusals:
            return handle(request)
        refused = [
            worded(access.refused(changed(request, **{array: items}), code), text(code))
            for code, items in refusals.items()
        ]
        if allowed:
            return then(handle(changed(request, **{array: allowed})), lambda reply: joined([reply, *refused]))
        return joined(refused)

    return rule


def kafka_text(code: ErrorCode) -> str:
    """The sentence for an error, where Kafka tells it."""
    return code.text


def worded(reply: Struct, text: str | None) -> Struct:
    """A refusal with words for each of its items."""
    for field in reply.struct_type.fields:
        if text is not None and isinstance(field.type, Array):
            for item in getattr(reply, field.name) or ():
                item.error_message = text
    return reply


def told(array: str, ask: Ask) -> Rule:
    """Everybody may ask; what the answer has in an array is left out where that may not be known."""

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        def shorten(reply: Struct) -> Struct:
            kept, _ = split(access, getattr(reply, array), ask, tell=False)
            return changed(reply, **{array: kept})

        return then(handle(request), shorten)

    return rule


def to_topic(operation: Operation) -> Ask:
    """That operation on the topic that an item names, by name or id. One that is not known is left to the handler."""

    def ask(access: Access, item: Struct) -> Question | None:
        name = access.topic_name(item)
        return None if name is None else Question(operation, ResourceType.TOPIC, name)

    return ask


def to_named(operation: Operation, kind: ResourceType, field: str | None = None) -> Ask:
    """That operation on what a field of the item names; the item itself is the name unless told."""

    def ask(_: Access, item: Any) -> Question:
        return Question(operation, kind, item if field is None else getattr(item, field))

    return ask


def split(
    access: Access, items: Iterable[Any], ask: Ask, *, tell: bool = True
) -> tuple[list[Any], dict[ErrorCode, list[Any]]]:
    """What is allowed of the items, and what is refused, by error."""
    allowed: list[Any] = []
    refused: dict[ErrorCode, list[Any]] = {}
    for item in items:
        question = ask(access, item)
        if question is None or access.may(question.operation, question.kind, question.name, tell=tell):
            allowed.append(item)
        else:
            refused.setdefault(CODES[question.kind], []).append(item)
    return allowed, refused


def changed(value: Struct, **fields: object) -> Struct:
    """A copy with other values in some fields."""
    copied = copy.copy(value)
    for name, field in fields.items():
        setattr(copied, name, field)
    return copied


def joined(replies: Sequence[Struct]) -> Struct:
    """The first answer with what the others have in their arrays."""
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
    """`function` of an answer, now or when it comes."""
    if isinstance(reply, Deferred):
        return reply.then(function)
    return None if reply is None else function(reply)


def beside(reply: Reply, refused: Struct) -> Reply:
    """An answer with what was refused besides; an error of the whole is told alone."""
    return then(reply, lambda answer: answer if answer.error_code else joined([answer, refused]))
