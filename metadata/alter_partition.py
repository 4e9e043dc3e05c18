"""Changes of the in-sync replicas that leaders request (KIP-497, KIP-704, KIP-841, KIP-903).

The order of the checks is that of Apache Kafka's controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from metadata.decision import Decision
from metadata.framing import new_record
from metadata.image import MetadataImage, TopicImage
from metadata.partition_change import Election, Wanted, change_of
from metadata.partition_registration import LeaderRecoveryState, PartitionRegistration
from metadata.partition_rules import MayBeUnclean, min_isr, possible_leaders, rules_of
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import PartitionChangeRecord

_RECOVERY_STATES = frozenset(LeaderRecoveryState)

ANY_EPOCH = -1
"""The broker epoch of a replica that is not checked."""


class NewIsr(msgspec.Struct, frozen=True):
    """The in-sync set that a leader proposes: pairs of broker and broker epoch."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovery_state: int = LeaderRecoveryState.RECOVERED


class AlteredPartition(msgspec.Struct, frozen=True):
    """The result for a partition: its state after the change, or why it was not changed."""

    topic_id: bytes
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    state: PartitionRegistration | None = None


def alter_partitions(
    image: MetadataImage, broker_id: int, proposals: Sequence[NewIsr], may_be_unclean: MayBeUnclean
) -> Decision[AlteredPartition]:
    """Decide about each proposal of the leader `broker_id`, whose broker epoch the caller has checked.

    A proposal may complete a reassignment and so move the leader. It has an effect then, but its result is
    NEW_LEADER_ELECTED, so that the old leader waits for the metadata.
    """
    decision: Decision[AlteredPartition] = Decision()
    for proposal in proposals:
        topic = image.topic_by_id(proposal.topic_id)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            decision.results.append(AlteredPartition(proposal.topic_id, proposal.partition, error))
        else:
            decision.results.append(_alter(image, broker_id, topic, proposal, may_be_unclean, decision))
    return decision


def _alter(
    image: MetadataImage,
    broker_id: int,
    topic: TopicImage,
    proposal: NewIsr,
    may_be_unclean: MayBeUnclean,
    decision: Decision[AlteredPartition],
) -> AlteredPartition:
    old = topic.partitions.get(proposal.partition)
    if old is None:
        return AlteredPartition(topic.topic_id, proposal.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error = _problem(image, broker_id, old, proposal)
    if error is not ErrorCode.NONE:
        return AlteredPartition(topic.topic_id, proposal.partition, error)
    wanted = Wanted(
        isr=tuple(each for each, _ in proposal.isr),
        recovery_state=LeaderRecoveryState(proposal.recovery_state),
        election=Election.UNCLEAN if may_be_unclean(topic.name) else Election.ONLINE,
    )
    fields = change_of(old, min_isr(image, topic.name), rules_of(image, possible_leaders(image, old)), wanted)
    if not fields:
        return AlteredPartition(topic.topic_id, proposal.partition, state=old)
    record = new_record(
        image.metadata_version,
        PartitionChangeRecord,
        topic_id=topic.topic_id,
        partition_id=proposal.partition,
        **fields,
    )
    decision.records.append(record)
    if fields.get("leader", broker_id) != broker_id:
        return AlteredPartition(topic.topic_id, proposal.partition, ErrorCode.NEW_LEADER_ELECTED)
    return AlteredPartition(topic.topic_id, proposal.partition, state=_after(old, fields))


def _after(old: PartitionRegistration, fields: dict[str, Any]) -> PartitionRegistration:
    return old._replace(
        isr=tuple(fields.get("isr", old.isr)),
        leader=fields.get("leader", old.leader),
        leader_epoch=old.leader_epoch + ("leader" in fields),
        partition_epoch=old.partition_epoch + 1,
        leader_recovery_state=fields.get("leader_recovery_state", old.leader_recovery_state),
    )


def _problem(image: MetadataImage, broker_id: int, old: PartitionRegistration, proposal: NewIsr) -> ErrorCode:
    if proposal.leader_epoch > old.leader_epoch or proposal.partition_epoch > old.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # a newer controller must have written these epochs
    if proposal.leader_epoch < old.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != old.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < old.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [each for each, _ in proposal.isr]
    if not isr or len(set(isr)) < len(isr) or not set(isr) <= set(old.replicas) or old.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    recovering = LeaderRecoveryState.RECOVERING
    if proposal.recovery_state not in _RECOVERY_STATES:
        return ErrorCode.INVALID_REQUEST
    if proposal.recovery_state == recovering and (len(isr) > 1 or old.leader_recovery_state != recovering):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, *each) for each in proposal.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(image: MetadataImage, broker_id: int, broker_epoch: int) -> bool:
    """Return whether a broker may be in sync: it is active, and still the process that caught up (KIP-903)."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active and broker_epoch in (ANY_EPOCH, broker.broker_epoch)
