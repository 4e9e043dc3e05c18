"""Measure transactions a second, here and with Apache Kafka: `bench transactions [--rounds] [--seconds] [--warm]`.

Ten producers each have a connection and a transactional id. A transaction writes one record to each of ten partitions
in one Produce request, then sends EndTxn, both of KIP-890's protocol (the older protocol needs four coordinator
requests). Both brokers run on the first core; the load runs on the second and drives them in turn. CPU is the
broker's, from /proc.
"""

from __future__ import annotations

import argparse
import selectors
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.compare import cpu_seconds, create, show, started
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import END_TXN
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.schema import Struct
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import batch
from tests.support.txn_client import TxnClient

PRODUCERS = PARTITIONS = 10
TOPIC = "t"


class Producer(TxnClient):
    """Sends one request after the other; `on_answer` is to be called for each response."""

    def begin(self, name: str) -> None:
        self.transactional_id = name
        self.wait_for_coordinator(name)
        self.producer = self.init_with_retries(name).split()
        self.committed_count = 0
        self.epoch, self.id = int(self.producer[2]), self.producer_id(self.producer[1])
        self.is_ending = False

    def send_records(self) -> None:
        records = batch(b"x" * 100, producer_id=self.id, producer_epoch=self.epoch, base_sequence=0, transactional=True)
        data = [PartitionProduceData(index=index, records=records) for index in range(PARTITIONS)]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        self.is_ending = False
        self.send(PRODUCE, 12, transactional_id=self.transactional_id, acks=-1, timeout_ms=30_000, topic_data=topics)

    def on_answer(self) -> None:
        answer = self.receive()
        if self.is_ending:
            assert not answer.error_code
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.committed_count += 1
            self.send_records()
            return
        codes = {each.error_code for each in answer.responses[0].partition_responses}
        if codes == {ErrorCode.NONE}:
            self.is_ending = True
            self.send(
                END_TXN,
                5,
                transactional_id=self.transactional_id,
                producer_id=self.id,
                producer_epoch=self.epoch,
                committed=True,
            )
        else:
            assert codes == {ErrorCode.CONCURRENT_TRANSACTIONS}, codes
            self.send_records()

    def receive(self) -> Struct:
        """Receive a response without the checks of a test."""
        return self.receive_unchecked().fields


class Load:
    """Producers that are initialized at a broker; each run continues where the last one stopped."""

    def __init__(self, broker: RunningBroker) -> None:
        create(broker, TOPIC, PARTITIONS)
        self._pid = broker.pid
        self._producers = [Producer(HOST, broker.port) for _ in range(PRODUCERS)]
        self._selector = selectors.DefaultSelector()
        for number, producer in enumerate(self._producers):
            producer.begin(f"p{number}")
            self._selector.register(producer.socket, selectors.EVENT_READ, producer)
            producer.send_records()

    def run(self, seconds: float) -> tuple[float, float]:
        """Return (the broker's CPU microseconds a transaction, transactions a second)."""
        used, began, before = cpu_seconds(self._pid), time.monotonic(), self._committed()
        while time.monotonic() < began + seconds:
            for key, _ in self._selector.select(1):
                key.data.on_answer()
        count, took = self._committed() - before, time.monotonic() - began
        return (cpu_seconds(self._pid) - used) / count * 1e6, count / took

    def _committed(self) -> int:
        return sum(each.committed_count for each in self._producers)

    def close(self) -> None:
        for producer in self._producers:
            producer.close()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="transactions, here and with Apache Kafka")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warm", type=float, default=15)
    times = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="transactions-") as scratch, started(Path(scratch)) as brokers:
        loads = [Load(broker) for broker in brokers]
        for load in loads:
            load.run(times.warm)
        rounds = [[load.run(times.seconds) for load in loads] for _ in range(times.rounds)]
        for load in loads:
            load.close()
    show(
        "transactions",
        "CPU us/transaction",
        [statistics.median(cpu for cpu, _ in side) for side in zip(*rounds, strict=True)],
    )
    rates = [statistics.median(rate for _, rate in side) for side in zip(*rounds, strict=True)]
    show("transactions", "transactions/s", rates, more_is_better=True)


if __name__ == "__main__":
    main(sys.argv[1:])
