"""Access checks for the client of one request."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from broker.network.java_address import java_address
from broker.requests.context import CloseConnection, RequestContext
from broker.requests.error_reply import error_reply
from protocol.primitives import ZERO_UUID
from runtime.log_text import log_text
from security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from metadata.image import MetadataImage
    from protocol.error_codes import ErrorCode
    from protocol.schema import Struct
    from runtime.log_limit import LimitedLog
    from security.authorizer import Authorizer

#: The fields of messages that name a topic.
_NAMES = ("name", "topic", "topic_name")


class AccessPolicy(Protocol):
    """The authorizer, and the settings that its checks need."""

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def image(self) -> MetadataImage: ...

    @property
    def creates_topics(self) -> bool:
        """Whether the broker creates topics on first use: auto.create.topics.enable."""

    def denials(self, principal: str) -> LimitedLog:
        """Return the log for refusals of a principal."""


@lru_cache(maxsize=1024)
def java_host(host: str) -> str:
    """Return an address as access control entries have it: in Java's notation."""
    return java_address(host)[1:]


class Access:
    """Checks access for the client of one request."""

    __slots__ = ("_authorizer", "_ctx", "_host", "_policy", "_principal")

    def __init__(self, policy: AccessPolicy, ctx: RequestContext) -> None:
        self._policy = policy
        self._authorizer = policy.authorizer
        self._ctx = ctx
        self._principal = ctx.connection.principal
        self._host = java_host(ctx.connection.client_host)

    @property
    def version(self) -> int:
        """The version of the request."""
        return self._ctx.api_version

    def may(self, operation: Operation, kind: ResourceType, name: str, *, log_if_denied: bool = True) -> bool:
        """Return whether the client may do that. Callers that only shorten a list do not log denials."""
        verdict = self._authorizer.decide(self._principal, self._host, operation, kind, name)
        if not verdict.allowed and log_if_denied:
            self._policy.denials(self._principal).warning(
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

    def may_cluster(self, operation: Operation, *, log_if_denied: bool = True) -> bool:
        """Whether the client may do that to the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=log_if_denied)

    def may_to_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether the client may do that to any resource of that kind that could exist."""
        return self._authorizer.decide_for_any(self._principal, self._host, operation, kind)

    def operations(self, kind: ResourceType, name: str) -> int:
        """Return all operations that the client may do to a resource, a bit for each."""
        return sum(1 << each for each in SUPPORTED_OPERATIONS[kind] if self.may(each, kind, name, log_if_denied=False))

    def has_topic(self, name: str) -> bool:
        """Whether a topic of that name exists."""
        return self._policy.image.topic(name) is not None

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic; zeros if there is none of that name."""
        topic = self._policy.image.topic(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def has_partition(self, name: str, index: int) -> bool:
        """Whether the partition exists."""
        topic = self._policy.image.topic(name)
        return topic is not None and index in topic.partitions

    @property
    def creates_topics(self) -> bool:
        """Whether the broker creates topics on first use."""
        return self._policy.creates_topics

    def topic_name(self, topic: Struct) -> str | None:
        """Return the name of a topic that is given by name or by id; None for an unknown id.

        If both are given, the id counts, as it does for handlers. The empty name counts as a name in versions with
        names: only a client that may describe it learns that no topic has it.
        """
        versions = {field.name: field.versions for field in topic.struct_type.fields}
        by_id = "topic_id" in versions and topic.topic_id != ZERO_UUID
        if by_id:
            found = self._policy.image.topic_by_id(topic.topic_id)
            if found is not None:
                return found.name
        for field in _NAMES:
            if field in versions and (name := getattr(topic, field)) is not None:
                return name if name or (not by_id and self.version in versions[field]) else None
        return None

    def refused(self, request: Struct, code: ErrorCode) -> Struct:
        """Return the answer to a request that is refused as a whole. Raises CloseConnection if there is none."""
        reply = error_reply(self._ctx.api, self._ctx.api_version, request, code)
        if reply is None:
            raise CloseConnection(f"{self._ctx.api.name} is refused: {code.name}")
        return reply
