"""Copy records from one cluster to another, each at its own offset.

The ends of the copy's partitions are its only state, so a copy that was stopped or killed resumes there. Two things
keep offsets equal: the producer is idempotent, and the copier checks the offset of each acknowledgement. Like any
read_committed consumer, the copier skips aborted records and waits for open transactions.

A partition that fails is dropped, with its error in `troubles`, and the others continue. The caller may add it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.headers import UNREADABLE, headers_of
from pybroker.cli.client.session import Place, Session, failed
from pybroker.mirror.delivery import DROPPED, Delivery
from pybroker.mirror.filling import Filling
from pybroker.mirror.partition import BeginAgain, CopiedPartition, NotACopy, Progress

if TYPE_CHECKING:
    from pybroker.mirror.gaps import Markers

_BATCH = 2_000
_TURN_S = 0.1
#: After this time without an acknowledgement a partition is no longer read, so that it does not fill the queue.
_PAUSE_S = 2.0
#: After this time without any acknowledgement, partitions that wait for one are dropped.
_STALLED_S = 30.0
_STALLED_FULL_S = 10.0
_DRAIN_S = 5.0
#: A broker forgets an idle producer after producer.id.expiration.ms, a day by default.
_KNOWN_S = 600.0
#: The source lost the offset, and the caller must find where to begin.
_LOST = {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}


class _Interrupted(Exception):
    """The messages at hand cannot be copied now: their partitions begin again."""


class Copier:
    """Copies partitions, each from the end of its copy. `close` stops without loss."""

    def __init__(
        self, source: Session, target: Session, markers: Callable[[], Markers], *, filler_records: bool
    ) -> None:
        self._source = source
        self._target = target
        self._places: dict[Place, CopiedPartition] = {}
        #: Partitions whose batches failed: True if they were too large, so that they stay single.
        self._singly: dict[Place, bool] = {}
        self._watched_s = 0.0
        #: The errors of partitions that were dropped. The caller removes them.
        self.troubles: dict[Place, CommandError] = {}
        self.progress = Progress()
        self._filling = Filling(target, markers, self._produce, self._flush_one, only_records=filler_records)
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
        self._deliveries = [Delivery(target, self._delivered)]

    @property
    def reached(self) -> dict[Place, int]:
        """Return the acknowledged end of each partition of the copy."""
        return {place: copied.acknowledged for place, copied in self._places.items()}

    @property
    def waiting(self) -> list[Place]:
        """Return the partitions for which the target has acknowledged nothing for a while."""
        now = time.monotonic()
        return [
            place for place, copied in self._places.items() if copied.outstanding and now - copied.moved_s > _STALLED_S
        ]

    def add(self, begin: Mapping[Place, int], starts: Mapping[Place, int]) -> None:
        """Add partitions: `begin` is where the copy ends, `starts` are the first offsets of the source."""
        wanted = []
        for place, offset in begin.items():
            single = place in self._singly
            self._places[place] = copied = CopiedPartition(starts[place], offset, offset, is_single=single)
            if offset < starts[place]:
                copied.gap_until = starts[place]
                self.progress.filled += starts[place] - offset
            else:
                wanted.append(TopicPartition(*place, offset))
        if wanted:
            self._consumer.incremental_assign(wanted)

    def drop(self, places: Sequence[Place]) -> None:
        """Stop copying these partitions, after their pending records are delivered, or after a few seconds."""
        known = [place for place in places if place in self._places]
        self._unassign(known)
        deadline = time.monotonic() + _DRAIN_S
        while any(self._outstanding(place) for place in known) and time.monotonic() < deadline:
            self._poll(_TURN_S)
        for place in known:
            self._forget(place)
        self._renew_broken()

    def turn(self) -> None:
        """Copy the records that have arrived. Raises CommandError if a cluster cannot be reached: then `resume`."""
        gaps = [place for place, copied in self._places.items() if copied.gap_until is not None]
        messages = self._consumer.consume(_BATCH, 0 if gaps else _TURN_S)
        try:
            self._introduce(messages)
            for message in messages:
                self._take(message)
            for place in gaps:
                self._fill_a_while(place)
        except _Interrupted:
            self._renew_broken()
            self._begin_all_again()
        except CommandError:  # the other messages are not copied
            self._begin_all_again()
            raise
        self._poll(0)
        self._watch()
        self._renew_broken()
        self._source.check()
        self._target.check()

    def resume(self) -> None:
        """Do not count the time until now as one without acknowledgements: no broker responded."""
        now = time.monotonic()
        for copied in self._places.values():
            copied.moved_s = now
        for delivery in self._deliveries:
            delivery.moved_s = now

    def is_at(self, ends: Mapping[Place, int]) -> bool:
        """Whether the copy has acknowledged all partitions up to `ends`, except dropped ones."""
        copied = self._places
        return all(place not in copied or copied[place].acknowledged >= end for place, end in ends.items())

    def flush(self, timeout_s: float) -> None:
        """Wait until all records are acknowledged that the target accepts now, at most `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and any(
            copied.outstanding and not copied.is_paused and not self._deliveries[copied.is_single].is_broken
            for copied in self._places.values()
        ):
            self._poll(_TURN_S)
        self._poll(0)
        self._renew_broken()

    def close(self) -> None:
        """Close the clients. Pending records are delivered first, if possible."""
        for delivery in self._deliveries:
            delivery.close(5)
        self._consumer.close()

    # -- records ------------------------------------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        place = (topic, partition)
        copied = self._places.get(place)
        if copied is None or copied.gap_until is not None:
            return  # dropped, or read again after the gap
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            kind = BeginAgain if error.code() in _LOST else CommandError
            self.drop([place])
            self.troubles[place] = kind(str(failed(KafkaException(error), f"{topic}-{partition}")), error.code())
            return
        if offset > copied.next and not self._fill_at_once(place, copied, offset):
            return
        if error is not None or offset < copied.next:  # the end, or delivered twice
            return
        headers = headers_of(message)
        if headers is UNREADABLE:
            text = f"{topic}-{partition}: offset {offset} has a header whose name is not text"
            self._fail(place, NotACopy(f"{text}: it cannot be copied"))
            return
        kind_, timestamp = message.timestamp()
        if kind_ and not timestamp:
            self.progress.undated += 1  # librdkafka takes 0 for "now"
        key, value = message.key(), message.value()
        if self._produce(place, key, value, timestamp if kind_ else -1, headers):
            self.progress.records += 1
            self.progress.bytes += len(key or b"") + len(value or b"")

    def _introduce(self, messages: Sequence[Message]) -> None:
        """Send one record for each partition whose broker does not know the producer yet, and wait for them.

        Without knowing it, the broker would accept a second batch though it has rejected the first one.
        """
        first: dict[Place, Message] = {}
        for message in messages:
            place = (message.topic() or "", message.partition() or 0)
            copied = self._places.get(place)
            if copied is not None and not self._is_known(copied) and message.error() is None:
                first.setdefault(place, message)
        for message in first.values():
            self._take(message)
        for place in first:
            self._flush_one(place)

    @staticmethod
    def _is_known(copied: CopiedPartition) -> bool:
        if not copied.outstanding and time.monotonic() - copied.moved_s > _KNOWN_S:
            copied.is_known = False
        return copied.is_known

    def _produce(self, place: Place, key: Any, value: Any, timestamp: int, headers: Any) -> bool:
        """Send a record at the next offset. Return False if the partition was dropped. Raises _Interrupted."""
        while (copied := self._places.get(place)) is not None:
            if not self._is_known(copied) and copied.outstanding and not self._flush_one(place):
                return False
            delivery = self._delivery_of(place, copied)
            try:
                if delivery.offer(place, key, value, timestamp, headers):
                    copied.send()
                    return True
            except CommandError as error:
                self._fail(place, error)
                return False
            if delivery.is_broken:
                raise _Interrupted
            self._poll(_TURN_S)
            self._target.check()
            if time.monotonic() - delivery.moved_s > _STALLED_FULL_S:
                self._drop_stalled(delivery, _STALLED_FULL_S)
        return False

    def _delivery_of(self, place: Place, copied: CopiedPartition) -> Delivery:
        if copied.is_single and not copied.outstanding and place not in self._singly:
            copied.is_single = copied.is_known = False  # what was wrong with it has passed
        if copied.is_single and len(self._deliveries) == 1:
            self._deliveries.append(Delivery(self._target, self._delivered, singly=True))
        return self._deliveries[copied.is_single]

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        place = (message.topic() or "", message.partition() or 0)
        copied = self._places.get(place)
        if copied is None:
            return
        name = f"{place[0]}-{place[1]}"
        if error is None:
            if message.offset() == copied.acknowledged:
                copied.move_to(copied.acknowledged + 1)
                copied.is_known = True
                if self._singly.get(place) is False:
                    del self._singly[place]
                return
            self._fail(
                place,
                NotACopy(
                    f"{name}: the copy has offset {message.offset()}, not {copied.acknowledged}: "
                    "another producer writes to it"
                ),
            )
        elif error.code() not in DROPPED:
            too_large = error.code() == KafkaError.MSG_SIZE_TOO_LARGE
            problem = failed(KafkaException(error), name)
            if too_large and copied.is_single:
                size = len(message.key() or b"") + len(message.value() or b"")
                problem = CommandError(
                    f"{name}: the target rejects offset {copied.acknowledged}, which has {size} bytes: "
                    "raise max.message.bytes of the topic there",
                    error.code(),
                )
            elif too_large:
                problem = BeginAgain(str(problem), error.code())
            self._singly[place] = too_large or self._singly.get(place, False)
            self._fail(place, problem)

    def _flush_one(self, place: Place) -> bool:
        """Wait until all records of a partition are acknowledged; return False if it was dropped."""
        while self._outstanding(place):
            self._poll(_TURN_S)
            self._target.check()
            self._watch()
            if any(delivery.is_broken for delivery in self._deliveries):
                raise _Interrupted
        return place in self._places

    def _outstanding(self, place: Place) -> int:
        copied = self._places.get(place)
        return 0 if copied is None else copied.outstanding

    def _poll(self, timeout_s: float) -> None:
        for number, delivery in enumerate(self._deliveries):
            delivery.poll(0 if number else timeout_s)

    # -- gaps ---------------------------------------------------------------------------------------------------------

    def _fill_at_once(self, place: Place, copied: CopiedPartition, until: int) -> bool:
        """Fill a short gap; return True when it is full. A long one is filled in the next turns."""
        self.progress.filled += until - copied.next
        copied.gap_until = until
        self._fill_a_while(place, is_assigned=True)
        return place in self._places and copied.gap_until is None

    def _fill_a_while(self, place: Place, *, is_assigned: bool = False) -> None:
        copied = self._places.get(place)
        if copied is None or copied.gap_until is None:
            return
        until = copied.gap_until
        try:
            self._filling.work(place, copied, until)
        except CommandError as error:
            self._target.check()
            self._fail(place, error)
        if self._places.get(place) is not copied:
            return
        if copied.next < until:
            if is_assigned:
                self._unassign([place])
            return
        copied.gap_until = None
        if not is_assigned:
            self._consumer.incremental_assign([TopicPartition(*place, copied.next)])

    # -- partitions that fail -----------------------------------------------------------------------------------------

    def _fail(self, place: Place, error: CommandError) -> None:
        copied = self._places.get(place)
        if copied is None:
            return
        self._unassign([place])
        self._forget(place)
        self.troubles[place] = error

    def _forget(self, place: Place) -> None:
        """Forget a partition. If it has records on their way, its producer must be replaced: nobody waits for them."""
        copied = self._places.pop(place, None)
        if copied is not None and copied.outstanding:
            self._deliveries[copied.is_single].is_broken = True

    def _unassign(self, places: Sequence[Place]) -> None:
        assigned = {(each.topic, each.partition) for each in self._consumer.assignment()}
        wanted = [TopicPartition(*place) for place in places if place in assigned]
        if wanted:
            self._consumer.resume(wanted)  # or they would still be paused when they are assigned again
            self._consumer.incremental_unassign(wanted)

    def _watch(self) -> None:
        """Pause partitions whose records are not acknowledged, and drop them when nothing else is either."""
        now = time.monotonic()
        if now - self._watched_s < 1:
            return
        self._watched_s = now
        for place, copied in self._places.items():
            is_slow = copied.outstanding > 0 and now - copied.moved_s > _PAUSE_S
            if is_slow != copied.is_paused and copied.gap_until is None:
                copied.is_paused = is_slow
                (self._consumer.pause if is_slow else self._consumer.resume)([TopicPartition(*place)])
        for delivery in self._deliveries:
            if now - delivery.moved_s > _STALLED_S:
                self._drop_stalled(delivery, _STALLED_S)

    def _drop_stalled(self, delivery: Delivery, after_s: float) -> None:
        now = time.monotonic()
        for place, copied in [*self._places.items()]:
            is_stalled = copied.outstanding and now - copied.moved_s > after_s
            if is_stalled and self._deliveries[copied.is_single] is delivery:
                text = f"{place[0]}-{place[1]}: the target acknowledges no record"
                self._fail(place, CommandError(text, KafkaError._TIMED_OUT))

    def _begin_all_again(self) -> None:
        for place in [*self._places]:
            self._fail(place, BeginAgain(f"{place[0]}-{place[1]}: begins again"))

    def _renew_broken(self) -> None:
        """Replace producers that failed. Partitions that used them begin again."""
        for number, delivery in enumerate(self._deliveries):
            if delivery.is_broken:
                delivery.drain()  # the partition whose record failed gets its own error first
                for place, copied in [*self._places.items()]:
                    if copied.is_single == bool(number):
                        self._fail(place, BeginAgain(f"{place[0]}-{place[1]}: begins again"))
                delivery.renew()
