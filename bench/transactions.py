"""Transactions a second, here and with Apache Kafka: `python -m bench transactions [--seconds 5] [--warm 15]`.

Ten producers, each with a connection and a transactional id of its own; each transaction has one record in each of ten
partitions, in one Produce request, and then EndTxn (both of KIP-890's protocol: four requests' work for a coordinator
of the older one). The broker runs on the first core, the load on the second. CPU is the broker's, from /proc.
"""

from __future__ import annotations

import argparse
import os
import selectors
import tempfile
import time
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.end_txn import END_TXN
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.schema import Struct
from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.data_client import batch
from tests.support.settled import wait_for_topic
from tests.support.txn_client import TxnClient

PRODUCERS = PARTITIONS = 10
TOPIC = "t"
_TICKS = os.sysconf("SC_CLK_TCK")


class Producer(TxnClient):
    """Sends one request after the other; `on_answer` is to be called when there is one."""

    def begin(self, name: str) -> None:
        self.transactional_id = name
        self.wait_for_coordinator(name)
        self.producer = self.init_patiently(name).split()
        self.committed_count = self.tried_again = 0
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
            self.tried_again += 1
            self.send_records()

    def receive(self) -> Struct:
        """Without the checks of a test."""
        api, version, _ = self._expected.pop(0)
        body = self.receive_frame()
        answer, _ = api.response.decode(version, body, 4 + api.response_header_version(version))
        return answer


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measure(broker: RunningBroker, warm_s: float, seconds: float) -> tuple[float, float, float]:
    """Transactions a second, CPU microseconds of the broker a transaction, and how often one was too early."""
    for task in os.listdir(f"/proc/{broker.pid}/task"):
        os.sched_setaffinity(int(task), {0})
    with TxnClient(HOST, broker.port) as client:
        client.create_topic(TOPIC, PARTITIONS)
    wait_for_topic(broker, TOPIC, PARTITIONS)
    producers = [Producer(HOST, broker.port) for _ in range(PRODUCERS)]
    selector = selectors.DefaultSelector()
    for number, producer in enumerate(producers):
        producer.begin(f"p{number}")
        selector.register(producer.socket, selectors.EVENT_READ, producer)
        producer.send_records()

    def run(duration: float) -> None:
        until = time.monotonic() + duration
        while time.monotonic() < until:
            for key, _ in selector.select(1):
                key.data.on_answer()

    run(warm_s)
    before = sum(each.committed_count for each in producers), cpu_s(broker.pid), time.monotonic()
    early = sum(each.tried_again for each in producers)
    run(seconds)
    count = sum(each.committed_count for each in producers) - before[0]
    used, took = cpu_s(broker.pid) - before[1], time.monotonic() - before[2]
    for producer in producers:
        producer.close()
    return count / took, used / count * 1e6, (sum(each.tried_again for each in producers) - early) / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warm", type=float, default=15)
    options = parser.parse_args()
    os.sched_setaffinity(0, {1} & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    print(f"{'':10} {'txn/s':>8} {'CPU us/txn':>11} {'early':>6}")
    for kind in (OurBroker, KafkaBroker):
        with tempfile.TemporaryDirectory() as folder:
            broker = kind(Path(folder))
            try:
                rate, cpu_us, early = measure(broker, options.warm, options.seconds)
            finally:
                broker.stop()
        print(f"{kind.kind:10} {rate:8.0f} {cpu_us:11.0f} {early:6.2f}", flush=True)


if __name__ == "__main__":
    main()
