"""The changes of partitions when a broker of a cluster comes, goes, or has lost records.

Kafka's generateLeaderAndIsrUpdates. The caller chooses the partitions, such as those that have a broker in their
in-sync set. One event may concern thousands of partitions, most of them alike: each kind is decided once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from metadata.bulk_records import Changes, ChangesBuilder
from metadata.image import MetadataImage, TopicImage
from metadata.partition_change import Election, Rules, Wanted, change_of, without
from metadata.partition_registration import EPOCHS, PartitionRegistration
from metadata.partition_rules import MayBeUnclean, is_active, min_isr, rules_of


class LeaderMoves:
    """Decides the changes that one event causes. The image is that before the event.

    Args:
        may_be_unclean: whether a topic may elect a leader that lacks committed records.
        removed: a broker that leaves the in-sync sets and leads no more.
        added: a broker that may lead from now on, although it is still fenced in the image.
        lost: a broker that did not stop in order: it is no longer eligible either (KIP-966).
    """

    def __init__(
        self,
        image: MetadataImage,
        may_be_unclean: MayBeUnclean,
        *,
        removed: int | None = None,
        added: int | None = None,
        lost: int | None = None,
    ) -> None:
        self._image = image
        self._may_be_unclean = may_be_unclean
        self._gone = tuple(each for each in (removed, lost) if each is not None)
        self._added = added
        self._lost = () if lost is None else (lost,)
        self._decided: dict[tuple[object, ...], dict[str, Any]] = {}
        self._topics: dict[str, tuple[int, Election]] = {}

    def changes(self, partitions: Iterable[tuple[TopicImage, int, PartitionRegistration]]) -> list[Changes]:
        """Return the records of these partitions, of which many may need none."""
        builder = ChangesBuilder(self._image.metadata_version)
        for topic, number, partition in partitions:
            builder.add(topic.topic_id, number, self._fields_of(topic, partition))
        return builder.changes

    def _fields_of(self, topic: TopicImage, partition: PartitionRegistration) -> dict[str, Any]:
        settings = self._topics.get(topic.name)
        if settings is None:
            election = Election.UNCLEAN if self._may_be_unclean(topic.name) else Election.ONLINE
            settings = self._topics[topic.name] = min_isr(self._image, topic.name), election
        kind = (settings, partition[: EPOCHS.start], partition[EPOCHS.stop :])
        fields = self._decided.get(kind)
        if fields is None:
            wanted = Wanted(isr=without(partition.isr, self._gone), lost=self._lost, election=settings[1])
            fields = change_of(partition, settings[0], self._rules(partition), wanted)
            self._decided[kind] = fields
        return fields

    def _rules(self, partition: PartitionRegistration) -> Rules:
        image = self._image

        def may_lead(broker_id: int) -> bool:
            if broker_id in self._gone or not (broker_id == self._added or is_active(image, broker_id)):
                return False
            return image.brokers[broker_id].has_directory(partition.directory_of(broker_id))

        return rules_of(image, may_lead)
