"""What ShareFetch and ShareAcknowledge have in common: who asks, and the acknowledgements (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import field

from broker.coordinators.share.acknowledgement import Acknowledged, check_acknowledgements
from broker.coordinators.share.partitions import SharePartitionSettings
from broker.coordinators.share.sessions import Place, SessionKey
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply
from broker.workers.view import leader_elsewhere
from coordinator.group.refused import Refused
from coordinator.group.share.checks import LONGEST_MEMBER_ID
from coordinator.share.state import ShareKey
from metadata.features import SHARE_VERSION
from protocol.errors import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred, settled


def is_served(ctx: RequestContext) -> bool:
    """Whether this broker has share groups: by the cluster's features, or by its configuration."""
    broker = ctx.broker
    return broker.controller.image.features.get(SHARE_VERSION, 0) > 0 or "share" in broker.config.get_list(
        "group.coordinator.rebalance.protocols"
    )


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


class Acknowledging(msgspec.Struct):
    """What becomes of acknowledgements: why those of a partition are not taken, None where they are.

    `pending`: those that another process writes down; with them `results` may still change.
    """

    results: dict[Place, Refused | None] = field(default_factory=dict)
    pending: list[Deferred[None]] = field(default_factory=list)


def acknowledge(
    ctx: RequestContext, key: SessionKey, batches: Mapping[Place, Sequence[Acknowledged]], *, may_renew: bool
) -> Acknowledging:
    """Take acknowledgements. A partition without such is answered for what is wrong with it, or beside one that has."""
    settings = settings_of(ctx, key.group_id)
    may_read = reader(ctx)
    found = Acknowledging()
    sound: dict[Place, Sequence[Acknowledged]] = {}
    for place, acknowledged in batches.items():
        try:
            _check(ctx, place, acknowledged, may_renew=may_renew, may_read=may_read)
            sound[place] = acknowledged
        except Refused as refusal:
            found.results[place] = refusal
    if not any(sound.values()):
        return found
    for place, acknowledged in sound.items():
        found.results[place] = None
        if not acknowledged:
            continue
        try:
            written = _acknowledge_one(ctx, key, place, acknowledged, settings)
        except Refused as refusal:
            found.results[place] = refusal
            continue
        if written is not None:
            found.pending.append(written)
            written.add_done_callback(partial(_note, found.results, place))
    return found


def _note(results: dict[Place, Refused | None], place: Place, written: Deferred[None]) -> None:
    try:
        written.result()
    except Refused as refusal:
        results[place] = refusal
    except Exception:  # the owner is gone, or its link
        results[place] = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE.text)


def when_written(
    ctx: RequestContext,
    group_id: str,
    found: Acknowledging,
    respond: Callable[[], Struct],
    failed: Callable[[ErrorCode], Struct],
) -> Reply:
    """The answer, once what was acknowledged is in the share coordinator's log, and as safe as flush.messages says."""
    if found.pending:
        return settled(found.pending).then(lambda _: respond())
    keys = (ShareKey(group_id, *place).text for place in found.results)
    return ctx.broker.share_states.after_commit(keys, respond(), failed)


def tell_leader(ctx: RequestContext, place: Place, data: Struct, leaders: set[int]) -> None:
    """Who leads a partition that another worker has, in an answer's `current_leader`; its id goes to `leaders`."""
    leader = leader_elsewhere(ctx.broker, ctx.broker.partitions.topic_name(place.topic_id), place.partition)
    if leader is not None:
        data.current_leader = data.current_leader.struct_type(leader_id=leader[0], leader_epoch=leader[1])
        leaders.add(leader[0])


def _check(
    ctx: RequestContext,
    place: Place,
    acknowledged: Sequence[Acknowledged],
    *,
    may_renew: bool,
    may_read: Callable[[str], bool] | None,
) -> None:
    """Raises Refused: UNKNOWN_TOPIC_ID, INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION."""
    partitions = ctx.broker.partitions
    name = partitions.topic_name(place.topic_id)
    if name is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    check_acknowledgements(acknowledged, may_renew=may_renew)
    if may_read is not None and not may_read(name):
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if partitions.get(name, place.partition) is None:
        raise Refused(partitions.absence(name, place.partition))


def _acknowledge_one(
    ctx: RequestContext,
    key: SessionKey,
    place: Place,
    acknowledged: Sequence[Acknowledged],
    settings: SharePartitionSettings,
) -> Deferred[None] | None:
    """Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, and what `SharePartitions.acknowledge` raises."""
    shares = ctx.broker.share_partitions
    share = shares.known(key.group_id, place)
    if share is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise Refused(code, code.text)
    return shares.acknowledge(share, key.member_id, acknowledged, settings)
