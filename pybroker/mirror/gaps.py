"""Fill gaps: offsets of transaction markers, of aborted records, and of records that compaction or retention removed.

A producer cannot skip an offset. Only a transaction marker occupies an offset without being a record for consumers. So
a gap is filled with the markers of empty transactions (KIP-98), one for each offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from kafka.errors import for_code
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from pybroker.cli.client.administration import Administration
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place

#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS
_PASSING = {14, 15, 16, 51}
_AGAIN_AFTER_S = 0.002
#: Newer versions serve transactions with records, or brokers.
_ADD_PARTITIONS, _END = 3, 4


class _Producer(NamedTuple):
    """The id and epoch of a producer, and the broker that coordinates its transactions."""

    node: int
    id: int
    epoch: int


class Markers:
    """Writes empty transactions, with one producer for each topic. Raises CommandError.

    Args:
        prefix: of the transactional ids, followed by the topic. So of two mirrors of one topic only one can write, and
            mirrors of different topics do not disturb each other.
    """

    def __init__(self, client: Administration, prefix: str, timeout_s: float) -> None:
        self._client = client
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._producers: dict[str, _Producer] = {}

    def fence(self, topics: Collection[str]) -> dict[str, CommandError]:
        """Fence the producers that a killed run has left in these topics, except those of this run; return errors.

        Otherwise a late marker of the killed run could land among the records of this run.
        """
        errors: dict[str, CommandError] = {}
        wanted = {f"{self._prefix}{topic}": topic for topic in topics if topic not in self._producers}
        try:
            listed = self._client.ask("list_transactions").values()
            known = {each.transactional_id for transactions in listed for each in transactions}
        except CommandError:  # a broker before Kafka 3.0 cannot list transactions
            known = set(wanted)
        for transactional_id in sorted(known.intersection(wanted)):
            topic = wanted[transactional_id]
            try:
                self._begin(topic)
            except CommandError as error:
                errors[topic] = error
        return errors

    def write(self, place: Place) -> None:
        """Write one marker to a partition. It appears shortly after this returns."""
        topic, partition = place
        if topic not in self._producers:
            self._begin(topic)
        producer = self._producers[topic]
        transactional_id = f"{self._prefix}{topic}"
        part = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

        def add() -> int:
            answer = self._client.send(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=transactional_id,
                    v3_and_below_producer_id=producer.id,
                    v3_and_below_producer_epoch=producer.epoch,
                    v3_and_below_topics=[part(name=topic, partitions=[partition])],
                    max_version=_ADD_PARTITIONS,
                ),
                producer.node,
            )
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            return int(result.partition_error_code)

        def end() -> int:
            answer = self._client.send(
                EndTxnRequest(
                    transactional_id=transactional_id,
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    committed=True,
                    max_version=_END,
                ),
                producer.node,
            )
            return int(answer.error_code)

        try:
            self._until_done(transactional_id, add)
            self._until_done(transactional_id, end)
        except CommandError:
            del self._producers[topic]  # its transaction may be open: the next one fences it
            raise

    def _begin(self, topic: str) -> None:
        """Register a producer with a newer epoch. When this returns, older producers' open transactions are aborted."""
        transactional_id = f"{self._prefix}{topic}"
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                node = self._client.transaction_coordinator(transactional_id)
                break
            except CommandError:  # its topic is still being created
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

        def begin() -> int:
            answer = self._client.send(
                InitProducerIdRequest(
                    transactional_id=transactional_id,
                    transaction_timeout_ms=60_000,
                    producer_id=-1,
                    producer_epoch=-1,
                    max_version=4,
                ),
                node,
            )
            self._producers[topic] = _Producer(node, answer.producer_id, answer.producer_epoch)
            return int(answer.error_code)

        try:
            self._until_done(transactional_id, begin)
        except CommandError:
            del self._producers[topic]
            raise

    def _until_done(self, transactional_id: str, ask: Callable[[], int]) -> None:
        deadline = time.monotonic() + self._timeout_s
        while code := ask():
            if code not in _PASSING or time.monotonic() > deadline:
                raise CommandError(f"{transactional_id}: {for_code(code).description}", code)
            time.sleep(_AGAIN_AFTER_S)
