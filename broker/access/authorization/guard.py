"""The guard: asks the authorizer before a handler is called, and writes down who was refused.

Only a broker with an authorizer has one. Without it nothing here is on the way of a request.

    rules.py     what has to be allowed for each API, in one table
    rule.py      of which kinds of questions a rule is made
    Access       one request's view: who asks, from where
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

from broker.access.authorization.rules import RULES
from broker.network.java_address import java_address
from broker.requests.dispatcher import CloseConnection, RequestContext
from broker.requests.error_reply import error_reply
from broker.requests.served_api import Handler, Reply
from config.authorizer import allows_without_entry, super_users
from metadata.acls import entries
from metadata.replay import Delta
from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID
from protocol.schema import Api, Struct
from runtime.log_limit import LimitedLog
from runtime.log_text import log_text
from security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType
from security.authorizer import Authorizer

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache
    from broker.network.connection import Connection
    from config import BrokerConfig

May: TypeAlias = "Callable[[Connection, str], bool]"
"""Whether the client of a connection may do something to what has a name."""

#: Of its own, so that it can be sent somewhere else. Anyone can be refused a thousand times a second.
audit_log = logging.getLogger("broker.audit")
#: For how many principals refusals are counted at a time, so that one hides nothing of another.
_PRINCIPALS = 1_000
#: What messages call a topic's name.
_NAMES = ("name", "topic", "topic_name")


@lru_cache(maxsize=1024)
def _java_host(host: str) -> str:
    """An address as entries have it: in Java's words."""
    return java_address(host)[1:]


class Guard:
    """Stands before all handlers."""

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
        self._authorizer = authorizer
        self._metadata = metadata
        self._monotonic = monotonic
        self._denials: dict[str, LimitedLog] = {}  # by principal
        self._load()
        metadata.on_change(self._on_change)

    def _on_change(self, delta: Delta) -> None:
        if delta.changed_acls:
            self._load()

    def _load(self) -> None:
        self._authorizer.load(acl for _, acl in entries(self._metadata.image))

    def protect(self, api: Api, handler: Handler) -> Handler:
        """The handler of an API, called for what its rule lets through."""
        rule = RULES[api.key]

        def serve(ctx: RequestContext, request: Struct) -> Reply:
            return rule(Access(self, ctx), request, lambda allowed: handler(ctx, allowed))

        return serve

    def asking(self, operation: Operation, kind: ResourceType) -> May:
        """For shortcuts: a question that is the same each time. What is refused is left to the handler, which tells."""
        decide = self._authorizer.decide

        def may(connection: Connection, name: str) -> bool:
            host = _java_host(connection.client_host)
            return decide(connection.principal, host, operation, kind, name).allowed

        return may

    def may(self, ctx: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        """For handlers that find out themselves what is asked of whom."""
        return Access(self, ctx).may(operation, kind, name)

    def reader(self, ctx: RequestContext) -> Callable[[str], bool]:
        """For sessions of fetches: whether the client may read a topic; asked again whenever the fetch is tried."""
        return partial(Access(self, ctx).may, Operation.READ, ResourceType.TOPIC)

    def replica_reader(self, ctx: RequestContext) -> Callable[[str], bool]:
        """For fetches of replicas: to brokers all topics are open, to others none."""
        allowed = Access(self, ctx).may_cluster(Operation.CLUSTER_ACTION)
        return lambda _: allowed

    def denials(self, principal: str) -> LimitedLog:
        """Where refusals of somebody are written down."""
        denials = self._denials.get(principal)
        if denials is None:
            if len(self._denials) >= _PRINCIPALS:
                del self._denials[next(iter(self._denials))]
            denials = self._denials[principal] = LimitedLog(audit_log, monotonic=self._monotonic)
        return denials

    def describer(self, ctx: RequestContext, *, tell: bool) -> Callable[[str], bool]:
        """For pages of topics: whether the client may know of one. Refusals go to the log with `tell`."""
        return partial(Access(self, ctx).may, Operation.DESCRIBE, ResourceType.TOPIC, tell=tell)

    def uncreatable(self, ctx: RequestContext, names: Iterable[str]) -> list[str]:
        """For topics that a request makes by the way: those that the client may not make."""
        access = Access(self, ctx)
        if access.may_cluster(Operation.CREATE, tell=False):
            return []
        return [name for name in names if not access.may(Operation.CREATE, ResourceType.TOPIC, name)]

    def operations(self, ctx: RequestContext, kind: ResourceType, name: str) -> int:
        """All that a client may do to something, a bit for each."""
        return Access(self, ctx).operations(kind, name)


class Access:
    """What one client may do, as far as one request asks."""

    __slots__ = ("_authorizer", "_ctx", "_guard", "_host", "_principal")

    def __init__(self, guard: Guard, ctx: RequestContext) -> None:
        self._guard = guard
        self._authorizer = guard._authorizer
        self._ctx = ctx
        self._principal = ctx.connection.principal
        self._host = _java_host(ctx.connection.client_host)

    @property
    def version(self) -> int:
        """Of the request."""
        return self._ctx.api_version

    def may(self, operation: Operation, kind: ResourceType, name: str, *, tell: bool = True) -> bool:
        """Whether it may. A refusal goes to the log unless it is not `tell`: where a list is only made shorter."""
        verdict = self._authorizer.decide(self._principal, self._host, operation, kind, name)
        if not verdict.allowed and tell:
            self._guard.denials(self._principal).warning(
                "Principal = %s is Denied operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s"
                " with resourceRefCount = 1 based on rule %s",
                log_text(self._principal),
                operation.name,
                self._host,
                kind.label,
                log_text(name),
                self._ctx.api.name,
                verdict.rule,
            )
        return verdict.allowed

    def may_cluster(self, operation: Operation, *, tell: bool = True) -> bool:
        """Whether it may do that to the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, tell=tell)

    def may_to_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether there could be a resource of that kind to which it may."""
        return self._authorizer.decide_for_any(self._principal, self._host, operation, kind)

    def operations(self, kind: ResourceType, name: str) -> int:
        """All that it may do, a bit for each."""
        return sum(1 << each for each in SUPPORTED_OPERATIONS[kind] if self.may(each, kind, name, tell=False))

    def has_topic(self, name: str) -> bool:
        """Whether a topic of that name is there."""
        return self._guard._metadata.image.topic(name) is not None

    def topic_id(self, name: str) -> bytes:
        """Of the topic of that name; zeros where there is none."""
        topic = self._guard._metadata.image.topic(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def has_partition(self, name: str, index: int) -> bool:
        """Whether a topic of that name is there, with so many partitions."""
        topic = self._guard._metadata.image.topic(name)
        return topic is not None and index in topic.partitions

    @property
    def topics_come_about(self) -> bool:
        """Whether topics that are asked for are made."""
        return self._guard.creates_topics

    def topic_name(self, topic: Struct) -> str | None:
        """The name of a topic that is given by name or by id; None for an id that is not known.

        Where both are given, the id counts, as it does to handlers. A name without a letter is one, too, where the
        version has names: nobody is told that it is no topic's who may not know.
        """
        versions = {field.name: field.versions for field in topic.struct_type.fields}
        by_id = "topic_id" in versions and topic.topic_id != ZERO_UUID
        if by_id:
            found = self._guard._metadata.image.topic_by_id(topic.topic_id)
            if found is not None:
                return found.name
        for field in _NAMES:
            if field in versions and (name := getattr(topic, field)) is not None:
                return name if name or (not by_id and self.version in versions[field]) else None
        return None

    def refused(self, request: Struct, code: ErrorCode) -> Struct:
        """The answer to a request that is refused as a whole."""
        reply = error_reply(self._ctx.api, self._ctx.api_version, request, code)
        if reply is None:
            raise CloseConnection(f"{self._ctx.api.name} is refused: {code.name}")
        return reply


def make_guard(config: BrokerConfig, metadata: MetadataCache) -> Guard:
    """The guard that the configuration asks for."""
    authorizer = Authorizer(super_users(config), allow_without_entry=allows_without_entry(config))
    return Guard(authorizer, metadata, creates_topics=config.get_bool("auto.create.topics.enable"))
