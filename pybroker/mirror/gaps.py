"""Offsets that no record has: those of markers, of records that compaction or retention took, of aborted ones.

A producer cannot leave an offset out. What takes one and is no record for any consumer is a transaction's marker: so a
gap is filled with the markers of transactions that have nothing in them (KIP-98), one for each offset.
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
#: Newer ones are for transactions that have something in them, or are for brokers.
_ADD_PARTITIONS, _END = 3, 4


class _Producer(NamedTuple):
    """Its id and epoch, and the broker that coordinates its transactions."""

    node: int
    id: int
    epoch: int


class Markers:
    """Empty transactions, of a producer for each topic. Raises CommandError.

    Args:
        prefix: of transactional ids, to which the topic is added: two mirrors of one topic are not to write both, and
            those of other topics do not disturb each other.
    """

    def __init__(self, client: Administration, prefix: str, timeout_s: float) -> None:
        self._client = client
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._producers: dict[str, _Producer] = {}

    def fence(self, topics: Collection[str]) -> None:
        """End what a run that was killed has left open in these topics, or has on its way: a marker of it would come
        among the records of this one. Those of this run are left alone.
        """
        wanted = {f"{self._prefix}{topic}": topic for topic in topics if topic not in self._producers}
        try:
            listed = self._client.ask("list_transactions").values()
            known = {each.transactional_id for transactions in listed for each in transactions}
        except CommandError:  # a broker before Kafka 3.0 does not tell
            known = set(wanted)
        for transactional_id in known.intersection(wanted):
            self._begin(wanted[transactional_id])

    def write(self, place: Place) -> None:
        """One marker into a partition; it is there soon, but not yet when this returns."""
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

        self._until_done(transactional_id, add)
        self._until_done(transactional_id, end)

    def _begin(self, topic: str) -> None:
        """A producer of a newer epoch than any before: what those have open is aborted when this returns."""
        transactional_id = f"{self._prefix}{topic}"
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                node = self._client.transaction_coordinator(transactional_id)
                break
            except CommandError:  # its topic is being made
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

        self._until_done(transactional_id, begin)

    def _until_done(self, transactional_id: str, ask: Callable[[], int]) -> None:
        deadline = time.monotonic() + self._timeout_s
        while code := ask():
            if code not in _PASSING or time.monotonic() > deadline:
                raise CommandError(f"{transactional_id}: {for_code(code).description}", code)
            time.sleep(_AGAIN_AFTER_S)
