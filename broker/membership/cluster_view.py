"""The partitions of a cluster as clients see them: as the metadata has them, with leaders on other brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from metadata.partition_registration import NO_LEADER
from protocol.schema import Struct

if TYPE_CHECKING:
    from metadata.image import MetadataImage


class ClusterView:
    """The view of a member's clients (`broker.requests.client_view`)."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def show(self, topic: str, partitions: Iterable[Struct]) -> None:
        """Leave the partitions as they are."""

    def other_leader(self, topic: str | None, partition: int) -> tuple[int, int] | None:
        """Return the leader and its epoch, of which a client learns with the error that sends it there (KIP-951)."""
        found = None if topic is None else self._image.topic(topic)
        registration = None if found is None else found.partitions.get(partition)
        if registration is None or registration.leader == NO_LEADER:
            return None
        return registration.leader, registration.leader_epoch

    def ids_meant(self, topic: str, partition: int, seen: Sequence[int]) -> tuple[int, ...]:
        """Return the ids as they are."""
        return tuple(seen)
