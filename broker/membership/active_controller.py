"""The active controller of a member's cluster: what the broker itself asks of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from broker.membership.committed_metadata import CommittedMetadata
from broker.membership.controllers import ControllerChannel, Leader
from broker.membership.topic_creation import (
    automatic_topic,
    create_topics_request,
    default_of_broker,
    log_automatic,
    results_of,
)
from broker.network.outbound_errors import OutboundError
from config import BrokerConfig
from metadata.create_topics import USE_DEFAULT, NewTopic, NewTopicResult
from metadata.decision import Admit, Refused, unlimited
from metadata.image import NO_CONFIGS
from protocol.client_session import Response, error_text
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.messages.allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from protocol.messages.assign_replicas_to_dirs import ASSIGN_REPLICAS_TO_DIRS
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.schema import Struct
from replication.directory_assignments import DirectoryAssignments
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog
from runtime.timers import Timers

log = logging.getLogger(__name__)
_allocation_log = LimitedLog(log, lines=1, seconds=30)  # clients ask again

_RETRY_MS = 500


class ActiveController:
    """Requests of this broker to the active controller, with the broker's own rights.

    Args:
        epoch: returns the broker epoch of this run.
    """

    def __init__(
        self,
        config: BrokerConfig,
        metadata: CommittedMetadata,
        channel: ControllerChannel,
        leader: Leader,
        epoch: Callable[[], int],
        timers: Timers,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._channel = channel
        self._leader = leader
        self._epoch = epoch
        self._timers = timers
        self._assignments = DirectoryAssignments(config.node_id)

    @property
    def last_offset(self) -> int:
        """The offset of the last record in the image."""
        return self._metadata.last_offset

    def close(self) -> None:
        """Close the connection to the controller."""
        self._channel.close()

    # -- topics ------------------------------------------------------------------------------------------------------

    def create_topics(self, topics: Sequence[NewTopic]) -> Deferred[list[NewTopicResult]]:
        """Create topics, each on its own. Fails with Refused if no controller answers."""
        asked = self._channel.request(self._leader(), CREATE_TOPICS, create_topics_request(topics))
        return _without_network_errors(asked).then(results_of)

    def auto_create(
        self, names: Iterable[str], admit: Admit = unlimited, configs: Mapping[str, str] = NO_CONFIGS
    ) -> Deferred[list[NewTopicResult]]:
        """Create topics, as `TopicCreator.auto_create`. Their records follow the answer."""
        wanted = []
        for name in names:
            topic = automatic_topic(self._config, name, configs)
            with suppress(Refused):
                count = topic.num_partitions
                admit(self._config.get_int("num.partitions") if count == USE_DEFAULT else count)
                wanted.append(topic)
        if not wanted:
            return Deferred.resolved([])
        created = self.create_topics(wanted)
        created.add_done_callback(log_automatic)
        return created

    def create_declared_topics(self) -> Deferred[list[NewTopicResult]]:
        """Create the topics of `pybroker.topics` that do not exist. Existing ones are not changed."""
        factor = default_of_broker(self._config, "default.replication.factor")
        missing = [
            NewTopic(each.name, each.partitions, factor, configs=each.configs)
            for each in self._config.declared_topics
            if self._metadata.image.topic(each.name) is None
        ]
        created = self.create_topics(missing) if missing else Deferred.resolved([])
        created.add_done_callback(log_automatic)
        return created

    # -- producer ids ------------------------------------------------------------------------------------------------

    def allocate_producer_ids(self, count: int) -> Deferred[int]:
        """Reserve a block of producer ids. Resolves to the first; fails with COORDINATOR_LOAD_IN_PROGRESS."""
        request = ALLOCATE_PRODUCER_IDS.request(broker_id=self._config.node_id, broker_epoch=self._epoch())

        def first(answer: Struct) -> int:
            if answer.error_code != ErrorCode.NONE or answer.producer_id_len < count:
                reason = error_text(answer.error_code)
                _allocation_log.warning("The controller allocated no block of %d producer ids: %s", count, reason)
                raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, reason)
            start: int = answer.producer_id_start
            return start

        asked = self._channel.request(self._leader(), ALLOCATE_PRODUCER_IDS, request)
        return _without_network_errors(asked, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).then(first)

    # -- log directories ---------------------------------------------------------------------------------------------

    def record_placements(self, placed: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Assign replicas to log directories (topic id, partition, directory id), and retry until that is done."""
        for topic_id, index, directory_id in placed:
            self._assignments.assign((topic_id, index), directory_id)
        self._assign()

    def assign_first(self, topic_id: bytes, index: int, directory_id: bytes) -> Deferred[None]:
        """Assign a replica to a log directory. Resolves once the controller knows it, or the replica is gone."""
        assigned: Deferred[None] = Deferred()
        self._assignments.assign((topic_id, index), directory_id, lambda: assigned.resolve(None))
        self._assign()
        return assigned

    def _assign(self) -> None:
        request = self._assignments.next_request(self._epoch())
        if request is None:
            return

        def take(done: Deferred[Response]) -> None:
            try:
                self._assignments.answered(done.result().fields)
            except (OutboundError, ProtocolError) as error:
                log.debug("The assignment of replicas to log directories failed: %s", error)
                self._assignments.failed()
            if len(self._assignments):
                self._timers.call_later(_RETRY_MS, self._assign)

        self._channel.request(self._leader(), ASSIGN_REPLICAS_TO_DIRS, request).add_done_callback(take)


def _without_network_errors(
    asked: Deferred[Response], code: ErrorCode = ErrorCode.REQUEST_TIMED_OUT
) -> Deferred[Struct]:
    """Return the fields of the response. Fails with Refused where there is none."""
    fields: Deferred[Struct] = Deferred()

    def take(done: Deferred[Response]) -> None:
        try:
            fields.resolve(done.result().fields)
        except (OutboundError, ProtocolError) as error:
            fields.fail(Refused(code, str(error)))

    asked.add_done_callback(take)
    return fields
