"""What a worker has in the place of the controller and the transaction coordinator, which are the owner's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.metadata_publisher import Hosting
from broker.workers.messages import (
    AutoCreate,
    Placed,
    Records,
    Verify,
)
from controller.auto_topic_creation import creatable_topic
from controller.quorum import Features, features_of
from metadata.create_topics import USE_DEFAULT, NewTopicResult
from metadata.decision import Admit, Refused, unlimited
from metadata.framing import decode_record
from metadata.image import MetadataImage
from metadata.replay import replay_all
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.coordinators.transaction.verification import FirstBatch
    from broker.replicas.partitions import Partitions
    from broker.workers.link import Link
    from config import BrokerConfig
    from coordinator.transaction.transaction import TopicPartition
    from protocol.errors import ErrorCode


class FollowingController(Hosting):
    """Carries out what the owner has recorded. It decides nothing; what it finds out goes to the owner."""

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        image: MetadataImage,
        partitions: Partitions,
        directory_ids: Mapping[str, bytes],
        call_soon: Callable[[Callable[[], None]], object],
        worker: int,
        last_offset: int,
        link: Link,
    ) -> None:
        super().__init__(config, cluster_id, image, partitions, directory_ids, call_soon, worker)
        #: The offset of the last record that the image holds.
        self.last_offset = last_offset
        self._link = link

    def follow(self, batch: Records) -> Deferred[None]:
        """Carry a batch of the metadata log out. Resolves once its partitions are hosted."""
        self.last_offset = batch.last_offset
        self._carry_out(replay_all(self.image, map(decode_record, batch.records)))
        return self.when_hosted()

    def record_placements(self, placed: Sequence[tuple[bytes, int, bytes]]) -> None:
        self._link.tell(Placed(tuple(placed)))

    def auto_create(self, names: Iterable[str], admit: Admit = unlimited) -> Deferred[list[NewTopicResult]]:
        admitted = []
        for name in names:
            count = creatable_topic(self._config, name, len(self.image.brokers)).num_partitions
            with suppress(Refused):
                admit(self._config.get_int("num.partitions") if count == USE_DEFAULT else count)
                admitted.append(name)
        return self._link.ask(AutoCreate(tuple(admitted)))

    def directory_failed(self, path: str) -> None:
        """A log directory does not work any more: nothing is made anew that may lie there."""
        failed = self._directory_ids.get(path)
        if failed is not None:
            self._failed_directories.add(failed)


class RemoteQuorum:
    """The features in force."""

    def __init__(self, controller: FollowingController, kraft_version: int) -> None:
        self._controller = controller
        self._kraft_version = kraft_version

    def features(self) -> Features:
        """As of what the worker has heard."""
        return features_of(self._controller.image, self._kraft_version, self._controller.last_offset)


class RemoteTransactionCoordinator:
    """The transaction coordinator as a worker knows it."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def ask(
        self, transactional_id: str, batches: Sequence[FirstBatch], api_version: int
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        """What the coordinator says of partitions, joined now or before."""
        return self._link.ask(Verify(transactional_id, tuple(batches), api_version))
