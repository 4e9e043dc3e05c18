"""Copy records from one cluster to another, each at its own offset.

The ends of the copy's partitions are its only state, so a copy that was stopped or killed resumes there. Two things
keep offsets equal: the producer is idempotent, and the copier checks the offset of each acknowledgement. Like any
read_committed consumer, the copier skips aborted records and waits for open transactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.headers import UNREADABLE, headers_of
from pybroker.cli.client.session import Place, Session, failed

if TYPE_CHECKING:
    from pybroker.mirror.gaps import Markers

_BATCH = 2_000
_TURN_S = 0.1
#: The key of records that fill gaps: a compacted topic keeps one of them at most, and later none.
_FILLER = b"pybroker.mirror"


class Progress:
    """Counters of a run: what it has copied since it began."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.filled = 0
        self.undated = 0


class Copier:
    """Copies partitions, each from the end of its copy. `close` stops without loss."""

    def __init__(
        self, source: Session, target: Session, markers: Callable[[], Markers], *, filler_records: bool
    ) -> None:
        self._target = target
        self._markers = markers
        self._filler_records = filler_records
        self._next: dict[Place, int] = {}
        self._acknowledged: dict[Place, int] = {}
        self._starts: dict[Place, int] = {}
        self._at_end: set[Place] = set()
        self._problem: CommandError | None = None
        #: By topic, the source's error for it. The caller decides whether the run ends.
        self.troubles: dict[str, CommandError] = {}
        self.progress = Progress()
        self._consumer: Consumer = source.consumer(
            {
                "group.id": "pybroker-mirror",  # required by the client; no group is joined
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
            }
        )
        settings: dict[str, Any] = {
            "compression.type": "lz4",
            "linger.ms": 20,
            "message.max.bytes": 1_000_000_000,
            "queue.buffering.max.kbytes": 262_144,
            **target.properties,
            "enable.idempotence": True,
            "message.timeout.ms": 0,  # no timeout: a record that is dropped would leave a gap
        }
        try:
            self._producer = Producer(settings)
        except KafkaException as error:
            raise UsageError(error.args[0].str()) from None

    @property
    def reached(self) -> Mapping[Place, int]:
        """Return the acknowledged end of each partition of the copy."""
        return self._acknowledged

    def add(self, begin: Mapping[Place, int], starts: Mapping[Place, int]) -> None:
        """Add partitions: `begin` is where the copy ends, `starts` are the first offsets of the source.

        Raises CommandError.
        """
        for place, offset in begin.items():
            self._starts[place] = starts[place]
            self._next[place] = self._acknowledged[place] = offset
        for place, start in starts.items():
            if place in begin and begin[place] < start:
                self._fill(place, start)
        wanted = [TopicPartition(*place, self._next[place]) for place in begin]
        self._consumer.incremental_assign(wanted)

    def drop(self, places: Sequence[Place]) -> None:
        """Stop copying these partitions, after their pending records are delivered. Raises CommandError."""
        self.flush()
        known = [place for place in places if place in self._next]
        self._consumer.incremental_unassign([TopicPartition(*place) for place in known])
        for place in known:
            del self._next[place], self._acknowledged[place], self._starts[place]

    def turn(self) -> int:
        """Copy the records that have arrived; return their number. Raises CommandError."""
        messages = self._consumer.consume(_BATCH, _TURN_S)
        records = 0
        for message in messages:
            records += self._take(message)
        self._poll(0)
        self._target.check()
        return records

    def is_at(self, ends: Mapping[Place, int]) -> bool:
        """Whether the copy has acknowledged all partitions up to `ends`, except dropped ones."""
        return all(self._acknowledged.get(place, end) >= end for place, end in ends.items())

    def flush(self) -> None:
        """Wait until all records are acknowledged. Raises CommandError."""
        while len(self._producer):
            self._poll(_TURN_S)
            self._target.check()
        self._poll(0)

    def close(self) -> None:
        """Close the clients. Pending records are delivered first, if possible."""
        self._consumer.close()
        self._producer.flush(5)

    def _take(self, message: Message) -> int:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        place = (topic, partition)
        if place not in self._next:
            return 0  # dropped
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                if offset > self._next[place]:
                    self._fill(place, offset)
                return 0
            self.troubles.setdefault(topic, failed(KafkaException(error), f"{topic}-{partition}"))
            return 0
        if offset < self._next[place]:
            return 0  # delivered twice
        if offset > self._next[place]:
            self._fill(place, offset)
        headers = headers_of(message)
        if headers is UNREADABLE:
            raise CommandError(f"{topic}-{partition}: offset {offset} has a header whose name is not text")
        kind, timestamp = message.timestamp()
        if kind and not timestamp:
            self.progress.undated += 1  # librdkafka takes 0 for "now"
        key, value = message.key(), message.value()
        self._produce(topic, partition, key, value, timestamp if kind else -1, headers)
        self._next[place] = offset + 1
        self.progress.records += 1
        self.progress.bytes += len(key or b"") + len(value or b"")
        return 1

    def _produce(self, topic: str, partition: int, key: Any, value: Any, timestamp: int, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, on_delivery=self._delivered, timestamp=timestamp, headers=headers
                )
                return
            except BufferError:
                self._poll(_TURN_S)
                self._target.check()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        place = (message.topic() or "", message.partition() or 0)
        if error is not None:
            self._problem = self._problem or failed(KafkaException(error), f"{place[0]}-{place[1]}")
            return
        offset, due = message.offset(), self._acknowledged[place]
        if offset != due:
            self._problem = self._problem or CommandError(
                f"{place[0]}-{place[1]}: the copy has offset {offset}, not {due}: another producer writes to it"
            )
            return
        self._acknowledged[place] = due + 1

    def _poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        if self._problem is not None:
            raise self._problem

    # -- gaps ---------------------------------------------------------------------------------------------------------

    def _fill(self, place: Place, until: int) -> None:
        """Fill the copy up to the offset `until`."""
        first = self._starts[place]
        self.progress.filled += until - self._next[place]
        if self._next[place] < first:
            self._fill_with_records(place, min(until, first))
        if self._filler_records:
            self._fill_with_records(place, until)
        self.flush()
        while self._next[place] < until:
            self._markers().write(place)
            end = self._wait_for_end(place, self._next[place] + 1)
            if end > self._next[place] + 1:
                raise CommandError(f"{place[0]}-{place[1]}: the copy grows by itself: another producer writes to it")
            self._next[place] = self._acknowledged[place] = end

    def _fill_with_records(self, place: Place, until: int) -> None:
        for _ in range(until - self._next[place]):
            self._produce(*place, _FILLER, None, int(time.time() * 1000), [])
        self._next[place] = max(self._next[place], until)

    def _wait_for_end(self, place: Place, due: int) -> int:
        deadline = time.monotonic() + self._target.timeout_s
        while (end := self._target.ends([place])[place]) < due:
            if time.monotonic() > deadline:
                raise CommandError(f"{place[0]}-{place[1]}: the copy does not reach offset {due}")
            time.sleep(0.001)
        return end
