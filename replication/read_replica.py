"""Which replica a consumer should read from (KIP-392). Kafka's RackAwareReplicaSelector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class ReadableReplica(NamedTuple):
    """A replica in sync that has the consumer's offset: its broker, rack, log end, and ms since it was caught up."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    behind_ms: int


def nearest(rack: str, leader: ReadableReplica, followers: Iterable[ReadableReplica]) -> ReadableReplica:
    """Return the most caught-up follower in the consumer's rack; the leader if it is there, or if no replica is."""
    near = [each for each in followers if each.rack == rack]
    if not rack or not near or leader.rack == rack:
        return leader
    return max(near, key=lambda each: (each.log_end_offset, -each.behind_ms, each.broker_id))
