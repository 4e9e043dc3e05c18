"""Records through a share group, here and with Apache Kafka: `python -m bench share_records [--seconds 5]`.

Four members, each with its own connection and partition, fetch up to 500 records of 100 bytes with a ShareFetch and
accept them with a ShareAcknowledge, one request after the other. Each round has a new group that begins at the start
of the same records; a member that reaches the end is finished. `python -m bench groups` runs it, too.

Both brokers run on the first core; the members run on the second and drive them in turn. CPU is the broker's, from
/proc.
"""

from __future__ import annotations

import argparse
import selectors
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from bench.compare import cpu_seconds, show, started
from protocol.error_codes import ErrorCode
from protocol.messages import share_acknowledge, share_fetch
from protocol.schema import Struct
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import batch
from tests.support.settled import wait_for_changes, wait_for_topic
from tests.support.share_client import ShareClient

#: Settings of a single node.
PROPERTIES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
TOPIC, PARTITIONS = "shared", 4
#: Records of each partition, in batches of a hundred.
SOURCE_RECORDS = 500_000
BATCH_RECORDS, RECORD_BYTES = 100, 100
MOST_RECORDS = 500
_FETCH_BYTES = 1 << 20
_FIND_PATIENCE_S = 60
_ACCEPT = 1

_groups = count()


class ShareMember(ShareClient):
    """A member of the partition of its number; `on_answer` is to be called for each response."""

    def begin(self, broker: RunningBroker, group: str, number: int, topic_id: bytes) -> None:
        """Join the group, and wait until the first records are in `acquired`."""
        self.group, self.member, self.topic_id = group, f"member-{number}", topic_id
        self.number = number
        self.record_count = 0
        self.acquired: list[Struct] = []
        self.is_over = False
        self.wait_for_group()
        if not number:
            self.configure(share_auto_offset_reset="earliest")
            wait_for_changes(broker)
        self.join(TOPIC)
        until = time.monotonic() + _FIND_PATIENCE_S
        while not self.acquired:
            assert time.monotonic() < until, f"partition {number} has no records for the share group"
            self.epoch, self.is_over = 0, False
            self.acquire_more()
            self._take()

    def acquire_more(self) -> None:
        partitions = [] if self.epoch else [share_fetch.FetchPartition(partition_index=self.number)]
        self.send(
            share_fetch.SHARE_FETCH,
            2,
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            max_records=MOST_RECORDS,
            batch_size=MOST_RECORDS,
            topics=[share_fetch.FetchTopic(topic_id=self.topic_id, partitions=partitions)] if partitions else [],
        )

    def accept(self) -> None:
        """Acknowledge the acquired records."""
        batches = [
            share_acknowledge.AcknowledgementBatch(
                first_offset=each.first_offset, last_offset=each.last_offset, acknowledge_types=[_ACCEPT]
            )
            for each in self.acquired
        ]
        partition = share_acknowledge.AcknowledgePartition(partition_index=self.number, acknowledgement_batches=batches)
        self.send(
            share_acknowledge.SHARE_ACKNOWLEDGE,
            2,
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
        )

    def on_answer(self) -> None:
        self._take()
        if self.acquired:
            self.accept()
        elif not self.is_over:
            self.acquire_more()

    def _take(self) -> None:
        """Process a response, without the checks of a test."""
        response = self.receive_unchecked()
        answer, api = response.fields, response.request.api
        assert not answer.error_code, answer
        self.epoch += 1
        partitions = [each for topic in answer.responses for each in topic.partitions]
        if api is share_acknowledge.SHARE_ACKNOWLEDGE:
            assert [each.error_code for each in partitions] == [ErrorCode.NONE], answer
            self.record_count += sum(each.last_offset - each.first_offset + 1 for each in self.acquired)
            self.acquired = []
        else:
            self.acquired = [each for partition in partitions for each in partition.acquired_records]
            self.is_over = not self.acquired


def share_records(broker: RunningBroker, topic_id: bytes, seconds: float) -> tuple[float, float]:
    """Return (CPU microseconds a record, records a second)."""
    sharers = [ShareMember(HOST, broker.port) for _ in range(PARTITIONS)]
    selector = selectors.DefaultSelector()
    group = f"share-records-{next(_groups)}"
    for number, sharer in enumerate(sharers):
        sharer.begin(broker, group, number, topic_id)
        selector.register(sharer.socket, selectors.EVENT_READ, sharer)
    before, began = cpu_seconds(broker.pid), time.perf_counter()
    for sharer in sharers:
        sharer.accept()
    while time.perf_counter() - began < seconds and not any(sharer.is_over for sharer in sharers):
        for key, _ in selector.select(1):
            key.data.on_answer()
    used, took = cpu_seconds(broker.pid) - before, time.perf_counter() - began
    records = sum(sharer.record_count for sharer in sharers)
    for sharer in sharers:
        sharer.close()
    selector.close()
    return used / records * 1e6, records / took


def measure_share_records(brokers: list[RunningBroker], times: argparse.Namespace) -> None:
    """Measure with new records in a topic of their own."""
    topic_ids = []
    for broker in brokers:
        with ShareClient(HOST, broker.port) as client:
            topic_ids.append(client.create_topic(TOPIC, PARTITIONS))
            wait_for_topic(broker, TOPIC, PARTITIONS)
            records = batch(*[bytes(RECORD_BYTES)] * BATCH_RECORDS)
            for number in range(SOURCE_RECORDS * PARTITIONS // BATCH_RECORDS):
                client.produce(TOPIC, records, number % PARTITIONS)
    found: list[list[tuple[float, float]]] = [[], []]
    for round_ in range(times.rounds + 1):
        for broker, topic_id, figures in zip(brokers, topic_ids, found, strict=True):
            figures.append(share_records(broker, topic_id, times.seconds if round_ else times.warm))
    show("share records", "CPU us/record", [statistics.median(each[0] for each in figures[1:]) for figures in found])
    rates = [statistics.median(each[1] for each in figures[1:]) for figures in found]
    show("share records", "records/s", rates, more_is_better=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="records through share groups, here and with Apache Kafka")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warm", type=float, default=10)
    times = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="share-") as scratch, started(Path(scratch), PROPERTIES) as brokers:
        measure_share_records(brokers, times)


if __name__ == "__main__":
    main(sys.argv[1:])
