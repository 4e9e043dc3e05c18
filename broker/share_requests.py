"""What ShareFetch and ShareAcknowledge have in common: who asks, and the acknowledgements (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broker.dispatch import RequestContext
from broker.shares.acknowledgement import Acknowledged, check_acknowledgements
from broker.shares.partitions import SharePartitionSettings
from broker.shares.sessions import Place, SessionKey
from coordinator.group.refused import Refused
from coordinator.group.share.checks import LONGEST_MEMBER_ID
from metadata.features import SHARE_VERSION
from protocol.errors import ErrorCode
from protocol.schema import Struct


def is_served(ctx: RequestContext) -> bool:
    """Whether this broker has share groups: by the cluster's features, or by its configuration.

    With several workers it has none: who holds a record is memory of its partition's leader, and its state the owner's.
    """
    broker = ctx.broker
    if broker.config.num_workers > 1:
        return False
    return "share" in broker.groups.settings.protocols or broker.controller.image.features.get(SHARE_VERSION, 0) > 0


def check_caller(request: Struct) -> None:
    """Raises Refused: INVALID_REQUEST for a group or a member that is none."""
    if request.group_id is None or not request.member_id or len(request.member_id) > LONGEST_MEMBER_ID:
        raise Refused(ErrorCode.INVALID_REQUEST)


def reader(ctx: RequestContext) -> Callable[[str], bool] | None:
    """Whether the client may read a topic; None without an authorizer."""
    guard = ctx.broker.guard
    return None if guard is None else guard.reader(ctx)


def settings_of(ctx: RequestContext, group_id: str) -> SharePartitionSettings:
    """The group's settings."""
    return ctx.broker.share_partitions.settings(group_id)


def acknowledge(
    ctx: RequestContext, key: SessionKey, batches: Mapping[Place, Sequence[Acknowledged]], *, may_renew: bool
) -> dict[Place, Refused | None]:
    """Take acknowledgements; why those of a partition are not taken, None where they are."""
    settings = settings_of(ctx, key.group_id)
    may_read = reader(ctx)
    results: dict[Place, Refused | None] = {}
    for place, acknowledged in batches.items():
        try:
            check_acknowledgements(acknowledged, may_renew=may_renew and settings.may_renew)
            _acknowledge_one(ctx, key, place, acknowledged, settings, may_read)
        except Refused as refusal:
            results[place] = refusal
        else:
            results[place] = None
    return results


def _acknowledge_one(
    ctx: RequestContext,
    key: SessionKey,
    place: Place,
    acknowledged: Sequence[Acknowledged],
    settings: SharePartitionSettings,
    may_read: Callable[[str], bool] | None,
) -> None:
    """Raises Refused: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, and what
    `SharePartitions.acknowledge` raises.
    """
    broker = ctx.broker
    name = broker.partitions.topic_name(place.topic_id)
    if name is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    if may_read is not None and not may_read(name):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = broker.partitions.get(name, place.partition)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    share = broker.share_partitions.known(key.group_id, place)
    if share is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise Refused(code, code.text)
    broker.share_partitions.acknowledge(share, key.member_id, acknowledged, settings)
