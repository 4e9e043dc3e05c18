"""The brokers of new partitions, and the record of a new partition."""

from __future__ import annotations

from collections.abc import Sequence

from metadata.decision import Refused
from metadata.features import DIRECTORIES_LEVEL
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from metadata.partition_registration import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from metadata.striped_placer import RandomBelow, StripedPlacer, UsableBroker
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import PartitionRecord


def place_replicas(
    image: MetadataImage, partition_count: int, replication_factor: int, random_below: RandomBelow
) -> list[tuple[int, ...]]:
    """Return the replicas of `partition_count` new partitions, striped over racks and brokers.

    Brokers whose log directories are all cordoned get none (KIP-1066), and those in controlled shutdown neither. Raises
    Refused INVALID_REPLICATION_FACTOR if there are fewer brokers than replicas, or none that may lead.
    """
    brokers = [
        UsableBroker(number, broker.rack, broker.fenced)
        for number, broker in image.brokers.items()
        if not broker.is_cordoned and (broker.fenced or not broker.in_controlled_shutdown)
    ]
    if all(broker.fenced for broker in brokers):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(brokers):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only"
            f" {len(brokers)} broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    placer = StripedPlacer(brokers, random_below)
    return [placer.place(replication_factor) for _ in range(partition_count)]


def check_manual(image: MetadataImage, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Check a client's assignment. Raises Refused: INVALID_REPLICA_ASSIGNMENT."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise Refused(code, "The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise Refused(
                code,
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.",
            )
        if image.brokers[broker_id].is_cordoned:
            why = f"broker {broker_id}, but all its log directories are cordoned."
            raise Refused(code, f"The manual partition assignment includes {why}")
        if broker_id == previous:
            raise Refused(code, f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise Refused(
            code,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not"
            f" consistent with previous partitions, which have {replication_factor} replica(s).",
        )


def new_partition(
    image: MetadataImage, topic_id: bytes, index: int, replicas: Sequence[int], *, manual: bool
) -> MetadataRecord:
    """Return the record of a new partition. Replicas on active brokers are in sync, and the first of them leads.

    A broker with one log directory has its replica there. A broker with several reports the directory later. Raises
    Refused.
    """
    isr = [broker for broker in replicas if image.brokers[broker].is_active]
    if not isr and manual:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in"
            " controlled shutdown.",
        )
    if not isr:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {len(replicas)} time(s): All brokers are currently fenced or in"
            " controlled shutdown.",
        )
    return new_record(
        image.metadata_version,
        PartitionRecord,
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=_default_directories(image, replicas),
    )


def _default_directories(image: MetadataImage, replicas: Sequence[int]) -> list[bytes]:
    if image.metadata_version < DIRECTORIES_LEVEL:
        return []
    return [default_directory(image.brokers[broker].log_directories) for broker in replicas]


def default_directory(available: Sequence[bytes]) -> bytes:
    """Return the directory of a new replica: the broker's only one, or the id for an unknown one."""
    if not available:
        return MIGRATING_DIRECTORY
    return available[0] if len(available) == 1 else UNASSIGNED_DIRECTORY
