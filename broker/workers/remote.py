"""A worker's access to the controller and the transaction coordinator, which run in the main process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.workers.messages import (
    AutoCreate,
    PartitionDirectories,
    Verify,
)
from controller.auto_topic_creation import creatable_topic
from metadata.create_topics import USE_DEFAULT, NewTopicResult
from metadata.decision import Admit, Refused, unlimited
from metadata.image import NO_CONFIGS, MetadataImage
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.coordinators.transaction.verifier import FirstBatch
    from broker.workers.link import Link
    from config import BrokerConfig
    from coordinator.transaction.transaction import TopicPartition
    from protocol.error_codes import ErrorCode


class RemoteController:
    """Sends the controller what this process finds."""

    def __init__(self, config: BrokerConfig, image: MetadataImage, link: Link) -> None:
        self._config = config
        self._image = image
        self._link = link

    def record_placements(self, placed: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Report the log directory of each (topic id, partition, directory id)."""
        self._link.send(PartitionDirectories(tuple(placed)))

    def auto_create(
        self, names: Iterable[str], admit: Admit = unlimited, configs: Mapping[str, str] = NO_CONFIGS
    ) -> Deferred[list[NewTopicResult]]:
        """Create topics. `admit` is called here, where the client is known."""
        admitted = []
        for name in names:
            count = creatable_topic(self._config, name, len(self._image.brokers)).num_partitions
            with suppress(Refused):
                admit(self._config.get_int("num.partitions") if count == USE_DEFAULT else count)
                admitted.append(name)
        return self._link.ask(AutoCreate(tuple(admitted), dict(configs)))


class RemoteVerifier:
    """Asks the transaction coordinator of the main process."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def verify(
        self, transactional_id: str, batches: Sequence[FirstBatch], api_version: int
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        """Return the codes, as `TransactionVerifier.verify`."""
        return self._link.ask(Verify(transactional_id, tuple(batches), api_version))
