"""The operations that a client may do, as answers list them: a bit for each of Kafka's AclOperation.

Without an authorizer, a client may do everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.requests.context import RequestContext

NOT_ASKED = -(2**31)
_NOTHING = 0
_EVERYTHING = {kind: sum(1 << each for each in operations) for kind, operations in SUPPORTED_OPERATIONS.items()}


def topic_operations(guard: Guard | None, ctx: RequestContext, name: str) -> int:
    """Return the operations on a topic."""
    return _operations(guard, ctx, ResourceType.TOPIC, name)


def group_operations(guard: Guard | None, ctx: RequestContext, group_id: str) -> int:
    """Return the operations on a group."""
    return _operations(guard, ctx, ResourceType.GROUP, group_id)


def cluster_operations(guard: Guard | None, ctx: RequestContext) -> int:
    """Return the operations on the cluster; none for a client that may not describe it."""
    operations = _operations(guard, ctx, ResourceType.CLUSTER, CLUSTER_NAME)
    return operations if operations & 1 << Operation.DESCRIBE else _NOTHING


def describer(guard: Guard | None, ctx: RequestContext) -> Callable[[str], bool] | None:
    """Return a function that says whether the client may describe a topic; None if it may describe all."""
    return None if guard is None else guard.describer(ctx, log_if_denied=False)


def _operations(guard: Guard | None, ctx: RequestContext, kind: ResourceType, name: str) -> int:
    return _EVERYTHING[kind] if guard is None else guard.operations(ctx, kind, name)
