"""The steps of a script that runs against two brokers: the request, and the answer as a plain value to compare.

A step has all its parameters, in numbers that fit on a line, and is valid after any other step. So a script without
some of its steps is still a script, and a few steps can show a difference.
"""

from __future__ import annotations

import operator
import random
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from protocol.messages.create_partitions import CREATE_PARTITIONS
from protocol.messages.delete_records import DELETE_RECORDS
from protocol.messages.describe_producers import DESCRIBE_PRODUCERS
from protocol.messages.fetch import FETCH
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
)
from protocol.messages.produce import PRODUCE
from protocol.records.builder import BatchBuilder
from protocol.schema import Struct
from tests.support.batch_values import comparable_batches
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient, Refused
from tests.support.eventually import eventually
from tests.support.settled import settled, wait_for_topic
from tests.support.spoiled import SPOILED

Answer: TypeAlias = object

NEVER = {"retention.ms": "-1", "retention.bytes": "-1"}
FIRST_PRODUCER_ID = 1_000_000  # not from the broker: the next id depends on more than the script
CANARY = "canary"  # its records expire at once: when they are gone, a round of retention is over
DAY_MS = 86_400_000
OLD_MS = (int(time.time() * 1000) // DAY_MS - 10) * DAY_MS  # old, but producers of this time do not expire (below)
WAIT_S = 60
#: The brokers' properties: retention runs all the time, and producers do not expire.
PROPERTIES = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "50",
    "log.flush.start.offset.checkpoint.interval.ms": "50",
    "producer.id.expiration.ms": str(2**31 - 1),
    # Kafka counts the time to the next check from the creation of each log, our broker from its start
    "producer.id.expiration.check.interval.ms": str(2**31 - 1),
}


def wait_for_change(path: Path) -> None:
    """Wait until a file that is rewritten periodically has changed."""
    before = _version(path)
    eventually(lambda: _version(path) != before, lambda: f"{path} stays as it is", timeout_s=WAIT_S)


def _version(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


class Side:
    """One broker under comparison. `topic` is the script's, `client` its connection.

    `reencoded`: the topic has a compression.type of its own; `stamped`: LogAppendTime. Apache Kafka answers before its
    broker applies a controller's change; a side waits for that.
    """

    def __init__(self, broker: RunningBroker, topic: str, *, reencoded: bool = False, stamped: bool = False) -> None:
        self.broker = broker
        self.topic = topic
        self.reencoded = reencoded
        self.stamped = stamped
        self.partitions = 0
        self.client = DataClient(HOST, broker.port)
        self._changes = 0

    def reconnect(self) -> None:
        """Continue with a new connection."""
        self.client.close()
        self.client = DataClient(HOST, self.broker.port)

    def create(self, partitions: int, configs: dict[str, str]) -> None:
        """Create the script's topic, in which nothing expires before a step changes that."""
        self.client.create_topic(self.topic, partitions, {**NEVER, **configs})
        self.partitions = partitions
        wait_for_topic(self.broker, self.topic, partitions)

    def configure(self, key: str, value: str) -> None:
        """Set a value of the topic and wait until it is in force."""
        self._set(key, value)
        if self.broker.kind == "kafka":
            # Describe returns a value before the logs use it. Once it returns a second change, the first is in use.
            self._changes += 1
            self._set("file.delete.delay.ms", str(60_000 + self._changes))

    def _set(self, key: str, value: str) -> None:
        self.client.set_topic_config(self.topic, key, value)

        def told() -> None:
            assert self.client.topic_config(self.topic, key) == value

        settled(self.broker, told)

    def await_retention(self) -> None:
        """Wait for a whole round of retention: the second of two rounds begins after this call."""
        if CANARY not in self.client.topics():
            self.client.create_topic(CANARY, 1, {"retention.ms": "1"})
        wait_for_topic(self.broker, CANARY, 1)
        for _ in range(2):
            builder = BatchBuilder()
            builder.append(OLD_MS, b"", b"")
            offset = self.client.produce(CANARY, builder.build())
            eventually(
                lambda: self.client.bounds(CANARY)[0],
                "nothing expires",
                until=partial(operator.lt, offset),
                timeout_s=WAIT_S,
            )


class Step:
    """An action on both brokers. `run` returns the values that must be equal."""

    def run(self, side: Side) -> Answer:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sequenced:
    """An idempotent producer's fields of a batch; the producer is a number within the script."""

    producer: int
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Append:
    """A batch for a partition. `dice` and the number of bytes of a value determine keys and values."""

    partition: int
    count: int
    value_bytes: int
    codec: int
    timestamps: tuple[int, ...]  # of the first records; the others have the last of them
    dice: int
    keyed: bool = True
    sequenced: Sequenced | None = None
    spoiled: str = ""  # a name in `spoiled.SPOILED`

    def batch(self) -> bytes:
        dice = random.Random(self.dice)
        builder = BatchBuilder(codec=self.codec)
        if self.sequenced is not None:
            builder.producer_id = FIRST_PRODUCER_ID + self.sequenced.producer
            builder.producer_epoch = self.sequenced.epoch
            builder.base_sequence = self.sequenced.sequence
        for number in range(self.count):
            key = b"key-%d" % dice.randrange(9) if self.keyed or dice.random() < 0.5 else None
            value = None if dice.random() < 0.1 else dice.randbytes(dice.randint(0, self.value_bytes))
            headers = (("h", b"1"), ("h", None)) if dice.random() < 0.1 else ()
            timestamp = self.timestamps[min(number, len(self.timestamps) - 1)]
            builder.append(timestamp, key, value, headers)
        batch = builder.build()
        return SPOILED[self.spoiled](batch) if self.spoiled else batch


@dataclass(frozen=True, slots=True)
class Produce(Step):
    """One request with a batch each for one or several partitions."""

    appends: tuple[Append, ...]
    acks: int = -1

    def run(self, side: Side) -> Answer:
        data = [{"index": each.partition, "records": each.batch()} for each in self.appends]
        topic = {"name": side.topic, "partition_data": data}
        answer = side.client.call(PRODUCE, 9, acks=self.acks, timeout_ms=30_000, topic_data=[topic])
        return sorted(_produced(each) for each in answer.responses[0].partition_responses)


def _produced(answer: Struct) -> tuple[object, ...]:
    """Return the answer without error messages and append times."""
    stamped = answer.log_append_time_ms >= 0
    errors = tuple(error.batch_index for error in answer.record_errors)
    return (answer.index, answer.error_code, answer.base_offset, stamped, answer.log_start_offset, errors)


@dataclass(frozen=True, slots=True)
class Fetch(Step):
    """One Fetch of (partition, offset) pairs, that does not wait."""

    wanted: tuple[tuple[int, int], ...]
    partition_max_bytes: int
    max_bytes: int = 0x7FFFFFFF
    committed: bool = False

    def run(self, side: Side) -> Answer:
        wanted = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": self.partition_max_bytes}
            for index, offset in self.wanted
        ]
        answer = side.client.call(
            FETCH,
            12,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=self.max_bytes,
            isolation_level=int(self.committed),
            topics=[{"topic": side.topic, "partitions": wanted}],
        )
        return [_fetched(each, side.reencoded) for topic in answer.responses for each in topic.partitions]


def _fetched(answer: Struct, reencoded: bool) -> tuple[object, ...]:
    aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
    offsets = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
    data = bytes(answer.records or b"")
    size = None if reencoded else len(data)
    batches = comparable_batches(data, reencoded=reencoded)
    return (answer.partition_index, answer.error_code, *offsets, aborted, size, batches)


@dataclass(frozen=True, slots=True)
class ListOffsets(Step):
    """The offset for a timestamp, or for a number with a special meaning."""

    partition: int
    timestamp: int

    def run(self, side: Side) -> Answer:
        wanted = {"partition_index": self.partition, "timestamp": self.timestamp}
        topics = [{"name": side.topic, "partitions": [wanted]}]
        answer = side.client.call(LIST_OFFSETS, 11, replica_id=-1, topics=topics, timeout_ms=30_000)
        found = answer.topics[0].partitions[0]
        return (found.error_code, found.timestamp, found.offset, found.leader_epoch)


@dataclass(frozen=True, slots=True)
class Producers(Step):
    """The state of a partition's producers."""

    partition: int

    def run(self, side: Side) -> Answer:
        asked = {"name": side.topic, "partition_indexes": [self.partition]}
        [found] = side.client.call(DESCRIBE_PRODUCERS, 0, topics=[asked]).topics[0].partitions
        producers = sorted(
            (
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                None if side.stamped else each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in found.active_producers
        )
        return (found.error_code, producers)


@dataclass(frozen=True, slots=True)
class EpochEnd(Step):
    """The end offset of a leader epoch."""

    partition: int
    epoch: int

    def run(self, side: Side) -> Answer:
        wanted = {"partition": self.partition, "leader_epoch": self.epoch}
        topics = [{"topic": side.topic, "partitions": [wanted]}]
        found = side.client.call(OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics).topics[0].partitions[0]
        return (found.error_code, found.leader_epoch, found.end_offset)


@dataclass(frozen=True, slots=True)
class DeleteRecords(Step):
    """Delete records below an offset; -1 for all."""

    partition: int
    offset: int

    def run(self, side: Side) -> Answer:
        wanted = {"partition_index": self.partition, "offset": self.offset}
        topics = [{"name": side.topic, "partitions": [wanted]}]
        answer = side.client.call(DELETE_RECORDS, 2, topics=topics, timeout_ms=30_000).topics[0].partitions[0]
        return (answer.error_code, answer.low_watermark)


@dataclass(frozen=True, slots=True)
class AddPartitions(Step):
    """Increase the number of partitions to this one."""

    count: int

    def run(self, side: Side) -> Answer:
        topic = {"name": side.topic, "count": self.count, "assignments": None}
        answer = side.client.call(CREATE_PARTITIONS, 3, topics=[topic], timeout_ms=30_000, validate_only=False)
        code = answer.results[0].error_code
        if not code:
            side.partitions = self.count
            wait_for_topic(side.broker, side.topic, self.count)
        return code


@dataclass(frozen=True, slots=True)
class Configure(Step):
    """Change a value of the topic while it is in use."""

    key: str
    value: str

    def run(self, side: Side) -> Answer:
        try:
            side.configure(self.key, self.value)
        except Refused as refused:
            return refused.code
        return None


@dataclass(frozen=True, slots=True)
class Retain(Step):
    """Run retention once, with this value."""

    key: str
    value: str

    def run(self, side: Side) -> Answer:
        side.configure(self.key, self.value)
        side.await_retention()
        bounds = [side.client.bounds(side.topic, index) for index in range(side.partitions)]
        side.configure(self.key, NEVER[self.key])
        return bounds


@dataclass(frozen=True, slots=True)
class RecreateTopic(Step):
    """Delete the topic and create another with its name."""

    partitions: int
    configs: dict[str, str] = field(default_factory=dict)

    def run(self, side: Side) -> Answer:
        side.client.delete_topic(side.topic)

        def gone() -> None:
            assert side.topic not in side.client.topics()

        settled(side.broker, gone)
        side.create(self.partitions, self.configs)
        return None


@dataclass(frozen=True, slots=True)
class ReadAll(Step):
    """Read a partition from its first offset to its last."""

    partition: int

    def run(self, side: Side) -> Answer:
        offset, end = side.client.bounds(side.topic, self.partition)
        found: list[object] = [offset, end]
        while offset < end:
            data = bytes(side.client.fetch(side.topic, offset, self.partition).records)
            batches = comparable_batches(data, reencoded=side.reencoded)
            assert batches, f"nothing at {offset} of {side.topic}-{self.partition}, which ends at {end}"
            found += batches
            offset = batches[-1].next_offset
        return found
