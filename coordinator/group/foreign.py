"""Groups of the newer protocols (consumer, share, streams) found in a log that another broker wrote.

They are not coordinated here. Their records are kept as they are, so that such a group is listed, can be deleted,
keeps its offsets, and is whole again under a broker that knows it.
"""

from __future__ import annotations

from coordinator.group.records import (
    CONSUMER_GROUP_TYPES,
    SHARE_GROUP_TYPES,
    ForeignRecord,
)

#: Record types of members: those whose presence says that the group is not empty.
MEMBER_TYPES = frozenset({5, 10, 19})


class ForeignGroup:
    """The live records of a group with another protocol, by key."""

    __slots__ = ("group_id", "group_type", "records")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_type = ""
        self.records: dict[bytes, ForeignRecord] = {}

    def replay(self, record: ForeignRecord) -> None:
        """Keep or drop one record."""
        if record.value is None:
            self.records.pop(record.key, None)
            return
        self.records[record.key] = record
        if record.record_type in CONSUMER_GROUP_TYPES:
            self.group_type = "consumer"
        else:
            self.group_type = "share" if record.record_type in SHARE_GROUP_TYPES else "streams"

    @property
    def is_empty(self) -> bool:
        return not any(record.record_type in MEMBER_TYPES for record in self.records.values())

    @property
    def may_become_classic(self) -> bool:
        """Whether a classic member may take the id over: no share group, and none that has members."""
        return self.is_empty and self.group_type != "share"

    @property
    def state(self) -> str:
        """What clients are told: members of a loaded group have assignments, since their broker stopped."""
        return "Empty" if self.is_empty else "Stable"

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the topic's offsets are in use: taken to be so while the group has members, whatever they read."""
        return not self.is_empty

    def tombstones(self) -> list[ForeignRecord]:
        """Records that remove the group: members first, as Kafka orders them."""
        return [
            ForeignRecord(self.group_id, record.record_type, record.key, None)
            for record in sorted(self.records.values(), key=lambda record: -record.record_type)
        ]
