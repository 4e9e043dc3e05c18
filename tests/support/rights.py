"""Users with different rights on each kind of resource: only one operation, all but one, all but one that is denied.

A user keeps its role for the whole run, so that ACLs are created once and no test waits for a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

OPERATIONS = {
    **SUPPORTED_OPERATIONS,
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that an ACL of a kind may name."""

PREFIX = "mine"
_NAMED = (PREFIX, f"{PREFIX}-missing", f"{PREFIX}-doomed", f"{PREFIX}-members", f"{PREFIX}-shares")
NAMES = {
    **dict.fromkeys((ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID), _NAMED),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.DELEGATION_TOKEN: (WILDCARD,),  # the broker chooses their ids at run time
    ResourceType.USER: ("User:owner",),
}
"""The names in ACLs. Users have rights to other resources only through wildcards."""


class Form(Enum):
    """The ways in which ACLs name resources."""

    LITERAL = "by name"
    PREFIXED = "by prefix"
    ANY = "by wildcard"


class Mode(Enum):
    """A user's right to one operation, and to all others."""

    ONLY = "only"
    ABSENT = "all but"
    DENIED = "denied"


class User(NamedTuple):
    """A user with all rights (no mode), or with `mode` for an operation (ALL: for each) on a kind of resource."""

    name: str
    kind: ResourceType | None = None
    operation: Operation = Operation.ALL
    mode: Mode | None = None

    def __str__(self) -> str:
        return self.name

    def entries(self) -> Iterator[Acl]:
        """Yield the user's ACLs."""
        if self is NOBODY:
            return
        if self.mode is Mode.ONLY:
            assert self.kind is not None
            yield from self._allowed(self.kind, (self.operation,), Form.LITERAL)
            return
        form = Form.PREFIXED if self.mode is Mode.ABSENT else Form.ANY
        for kind in OPERATIONS:
            if kind is not self.kind or self.mode is Mode.DENIED:
                yield from self._allowed(kind, (Operation.ALL,), form)
            elif self.operation is not Operation.ALL:
                yield from self._allowed(kind, [each for each in OPERATIONS[kind] if each != self.operation], form)
        if self.mode is Mode.DENIED:
            assert self.kind is not None
            for name in NAMES[self.kind]:
                yield self._entry(self.kind, name, PatternType.LITERAL, self.operation, Permission.DENY)

    def _allowed(self, kind: ResourceType, operations: Sequence[Operation], form: Form) -> list[Acl]:
        names, pattern = NAMES[kind], PatternType.LITERAL
        if form is Form.PREFIXED and kind not in (ResourceType.CLUSTER, ResourceType.DELEGATION_TOKEN):
            names, pattern = (names[0],), PatternType.PREFIXED
        elif form is Form.ANY and kind is not ResourceType.CLUSTER:
            names = (WILDCARD,)
        return [
            self._entry(kind, name, pattern, operation, Permission.ALLOW) for name in names for operation in operations
        ]

    def _entry(self, kind: int, name: str, pattern: int, operation: int, permission: int) -> Acl:
        return Acl(kind, name, pattern, f"User:{self.name}", WILDCARD, operation, permission)


NOBODY = User("nobody")
ANYBODY = User("anybody")


def _users() -> Iterator[User]:
    for kind, operations in OPERATIONS.items():
        for operation in (Operation.ALL, *operations):
            for mode in Mode:
                name = f"{mode.value} {operation.name} of {kind.name}".lower().replace(" ", "-")
                yield User(name, kind, operation, mode)


USERS = (NOBODY, ANYBODY, *_users())
