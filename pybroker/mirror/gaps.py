"""Offsets that no record has: those of markers, of records that compaction or retention took, of aborted ones.

A producer cannot leave an offset out. What takes one and is no record for any consumer is a transaction's marker: so a
gap is filled with the markers of transactions that have nothing in them (KIP-98), one for each offset.
"""

from __future__ import annotations

import time
from typing import Any

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


class Markers:
    """Empty transactions of one producer. Raises CommandError."""

    def __init__(self, client: Administration, transactional_id: str, timeout_s: float) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self._timeout_s = timeout_s
        self._node: int | None = None
        self._producer: tuple[int, int] = (-1, -1)

    def write(self, places: list[Place]) -> None:
        """One marker into each of the partitions; it is there soon, but not yet when this returns."""
        if self._node is None:
            self._begin()
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
            topics.setdefault(topic, []).append(partition)
        producer_id, epoch = self._producer
        part = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

        def add() -> int:
            answer = self._client.send(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self._transactional_id,
                    v3_and_below_producer_id=producer_id,
                    v3_and_below_producer_epoch=epoch,
                    v3_and_below_topics=[part(name=name, partitions=those) for name, those in topics.items()],
                    max_version=_ADD_PARTITIONS,
                ),
                self._node,
            )
            codes = [
                int(each.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ]
            return max(codes, key=lambda code: (code not in _PASSING and code != 0, code))

        def end() -> int:
            answer = self._client.send(
                EndTxnRequest(
                    transactional_id=self._transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    committed=True,
                    max_version=_END,
                ),
                self._node,
            )
            return int(answer.error_code)

        self._until_done(add)
        self._until_done(end)

    def _begin(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                self._node = self._client.transaction_coordinator(self._transactional_id)
                break
            except CommandError:  # its topic is being made
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

        def begin() -> int:
            answer = self._client.send(
                InitProducerIdRequest(
                    transactional_id=self._transactional_id,
                    transaction_timeout_ms=60_000,
                    producer_id=-1,
                    producer_epoch=-1,
                    max_version=4,
                ),
                self._node,
            )
            self._producer = (answer.producer_id, answer.producer_epoch)
            return int(answer.error_code)

        self._until_done(begin)

    def _until_done(self, ask: Any) -> None:
        deadline = time.monotonic() + self._timeout_s
        while code := ask():
            if code not in _PASSING or time.monotonic() > deadline:
                raise CommandError(f"{self._transactional_id}: {for_code(code).description}", code)
            time.sleep(_AGAIN_AFTER_S)
