"""The metadata of a simulated broker in the form that coordinators read, and the names of the partitions."""

from __future__ import annotations

from typing import NamedTuple

from metadata.features import TRANSACTION_VERSION
from metadata.partition_registration import PartitionRegistration
from metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.simulation.metadata import TOPIC, Image

DATA = "t"
_IDS = {DATA: TOPIC, TRANSACTION_STATE: bytes(15) + b"\xf1", CONSUMER_OFFSETS: bytes(15) + b"\xf2"}


class Places:
    """The topic and partition of each index: data first, then the coordinators' two partitions."""

    def __init__(self, partitions: int) -> None:
        self.data = partitions - 2
        self.transactions, self.offsets = partitions - 2, partitions - 1

    def place(self, index: int) -> tuple[str, int]:
        if index < self.data:
            return DATA, index
        return (TRANSACTION_STATE if index == self.transactions else CONSUMER_OFFSETS), 0

    def indexes(self, topic: str) -> range:
        """Return the indexes of a topic's partitions, in order."""
        if topic == DATA:
            return range(self.data)
        first = self.transactions if topic == TRANSACTION_STATE else self.offsets
        return range(first, first + 1)


class TopicView(NamedTuple):
    """A topic as coordinators see it."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionRegistration]


class ClusterImage:
    """The image of one broker, as far as it has followed the metadata log."""

    def __init__(self, image: Image, places: Places, transaction_version: int) -> None:
        self._image = image
        self._places = places
        self.features = {TRANSACTION_VERSION: transaction_version}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}

    def topic(self, name: str) -> TopicView | None:
        partitions = self._image.partitions
        found = {
            number: partitions[TOPIC, index]
            for number, index in enumerate(self._places.indexes(name))
            if (TOPIC, index) in partitions
        }
        return TopicView(name, _IDS[name], found) if found else None

    def topic_by_id(self, topic_id: bytes) -> TopicView | None:
        return next((self.topic(name) for name, each in _IDS.items() if each == topic_id), None)

    def on_change(self, callback: object) -> None:
        """Ignore the listener: it empties caches of settings, which are fixed here."""

    def on_topic_deleted(self, callback: object) -> None:
        """Ignore the listener: no topic is deleted."""

    @property
    def image(self) -> ClusterImage:
        return self
