"""The guard: checks access before a handler is called, and logs refusals.

Only a broker with an authorizer has one.

    rules.py     the rule of each API, in one table
    rule.py      the parts that rules are made of
    access.py    what the client of one request may do
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from broker.access.authorization.access import Access, java_host
from broker.access.authorization.rules import RULES
from broker.requests.context import ClientConnection, RequestContext
from broker.requests.served_api import Handler, Reply
from config.authorizer import allows_without_entry, super_users
from metadata.acls import entries
from metadata.delta import Delta
from protocol.api_keys import ApiKey
from protocol.schema import Api, Struct
from runtime.log_limit import LimitedLog
from security.acl import Operation, ResourceType
from security.authorizer import Authorizer

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig

May: TypeAlias = "Callable[[ClientConnection, str], bool]"
"""(connection, resource name) -> whether its client may do something to the resource."""

#: A logger of its own, so that it can be written elsewhere. A client may be refused a thousand times a second.
audit_log = logging.getLogger("broker.audit")
#: The number of principals whose refusals are limited separately, so that one does not hide those of another.
_PRINCIPALS = 1_000


class Guard:
    """Checks access before all handlers."""

    def __init__(
        self,
        authorizer: Authorizer,
        metadata: MetadataCache,
        *,
        creates_topics: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        #: Whether the broker creates topics on first use: auto.create.topics.enable.
        self.creates_topics = creates_topics
        self.authorizer = authorizer
        self.image = metadata.image
        self._monotonic = monotonic
        self._denials: dict[str, LimitedLog] = {}  # by principal
        self._load()
        metadata.on_change(self._on_change)

    def _on_change(self, delta: Delta) -> None:
        if delta.changed_acls:
            self._load()

    def _load(self) -> None:
        self.authorizer.load(acl for _, acl in entries(self.image))

    def protect(self, api: Api, handler: Handler) -> Handler:
        """Return a handler that serves what the rule of the API allows."""
        rule = RULES[ApiKey(api.key)]

        def serve(ctx: RequestContext, request: Struct) -> Reply:
            return rule(Access(self, ctx), request, lambda allowed: handler(ctx, allowed))

        return serve

    def asking(self, operation: Operation, kind: ResourceType) -> May:
        """Return a question for a fast path, which leaves refused requests to the handler. The handler logs them."""
        decide = self.authorizer.decide

        def may(connection: ClientConnection, name: str) -> bool:
            host = java_host(connection.client_host)
            return decide(connection.principal, host, operation, kind, name).allowed

        return may

    def may(self, ctx: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Answer a question of a handler."""
        return Access(self, ctx).may(operation, kind, name)

    def reader(self, ctx: RequestContext) -> Callable[[str], bool]:
        """Return a function that says whether the client may read a topic, for fetches: asked at each attempt."""
        return partial(Access(self, ctx).may, Operation.READ, ResourceType.TOPIC)

    def replica_reader(self, ctx: RequestContext) -> Callable[[str], bool]:
        """Return the same for fetches of replicas: brokers may read all topics, other clients none."""
        allowed = Access(self, ctx).may_cluster(Operation.CLUSTER_ACTION)
        return lambda _: allowed

    def denials(self, principal: str) -> LimitedLog:
        """Return the log for refusals of a principal."""
        denials = self._denials.get(principal)
        if denials is None:
            if len(self._denials) >= _PRINCIPALS:
                del self._denials[next(iter(self._denials))]
            denials = self._denials[principal] = LimitedLog(audit_log, monotonic=self._monotonic)
        return denials

    def describer(self, ctx: RequestContext, *, log_if_denied: bool) -> Callable[[str], bool]:
        """Return a function that returns whether the client may describe a topic."""
        return partial(Access(self, ctx).may, Operation.DESCRIBE, ResourceType.TOPIC, log_if_denied=log_if_denied)

    def uncreatable(self, ctx: RequestContext, names: Iterable[str]) -> list[str]:
        """Return the topics that the client may not create, of those that its request would create."""
        access = Access(self, ctx)
        if access.may_cluster(Operation.CREATE, log_if_denied=False):
            return []
        return [name for name in names if not access.may(Operation.CREATE, ResourceType.TOPIC, name)]

    def operations(self, ctx: RequestContext, kind: ResourceType, name: str) -> int:
        """Return all operations that the client may do to a resource, a bit for each."""
        return Access(self, ctx).operations(kind, name)


def make_guard(config: BrokerConfig, metadata: MetadataCache) -> Guard:
    """Return the guard that the configuration asks for."""
    authorizer = Authorizer(super_users(config), allow_without_entry=allows_without_entry(config))
    return Guard(authorizer, metadata, creates_topics=config.get_bool("auto.create.topics.enable"))
