"""Handlers of a test behind a real guard, called by alice from 192.0.2.1."""

from __future__ import annotations

from typing import Any

from broker.access.authorization.guard import Guard
from metadata.create_topics import NewTopic
from protocol.schema import Api, Struct
from security.acl import Acl, Operation, PatternType, Permission, ResourceType
from security.authorizer import Authorizer
from tests.support.controllers import ControllerHarness


def allow(kind: ResourceType, name: str, operation: Operation) -> Acl:
    """Return an ACL for alice."""
    return Acl(kind, name, PatternType.LITERAL, "User:alice", "192.0.2.1", operation, Permission.ALLOW)


class Guarded:
    """Topics "open" and "secret", and a guard with these ACLs. `asked` are the requests that reached the handler."""

    def __init__(self, *acls: Acl, **overrides: str) -> None:
        self.harness = ControllerHarness(overrides={key.replace("_", "."): value for key, value in overrides.items()})
        self.harness.with_topics(NewTopic("open", 1, 1), NewTopic("secret", 1, 1))
        authorizer = Authorizer()
        self.guard = Guard(
            authorizer,
            self.harness.metadata,
            creates_topics=self.harness.config.get_bool("auto.create.topics.enable"),
            monotonic=lambda: 0.0,
        )
        authorizer.load(acls)
        self.asked: Struct | None = None

    def ask(self, api: Api, version: int, reply: Any, **fields: Any) -> Any:
        """Return the answer if the handler returns `reply`, or calls it with the request."""

        def handler(_: object, request: Struct) -> Any:
            self.asked = request
            return reply(request) if callable(reply) else reply

        def guarded(ctx: Any, request: Struct) -> Any:
            ctx.connection.principal = "User:alice"
            return self.guard.protect(api, handler)(ctx, request)

        return self.harness.start(guarded, api, version, **fields)
