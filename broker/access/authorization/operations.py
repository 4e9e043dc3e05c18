"""What clients are told that they may do: a bit per operation of Kafka's AclOperation. Without an authorizer that is
everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from broker.requests.dispatcher import RequestContext

NOT_ASKED = -(2**31)
_NOTHING = 0
_EVERYTHING = {kind: sum(1 << each for each in operations) for kind, operations in SUPPORTED_OPERATIONS.items()}


def topic_operations(ctx: RequestContext, name: str) -> int:
    """On a topic."""
    return _operations(ctx, ResourceType.TOPIC, name)


def group_operations(ctx: RequestContext, group_id: str) -> int:
    """On a group."""
    return _operations(ctx, ResourceType.GROUP, group_id)


def cluster_operations(ctx: RequestContext) -> int:
    """On the cluster; nothing for who may not describe it."""
    operations = _operations(ctx, ResourceType.CLUSTER, CLUSTER_NAME)
    return operations if operations & 1 << Operation.DESCRIBE else _NOTHING


def describer(ctx: RequestContext) -> Callable[[str], bool] | None:
    """Whether the client may know of a topic, asked later and for many; None without an authorizer: of all."""
    guard = ctx.broker.guard
    return None if guard is None else guard.describer(ctx, tell=False)


def _operations(ctx: RequestContext, kind: ResourceType, name: str) -> int:
    guard = ctx.broker.guard
    return _EVERYTHING[kind] if guard is None else guard.operations(ctx, kind, name)
