"""Check that an existing topic is the copy that an earlier run began, and not another topic of that name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place, Session, failed
from pybroker.mirror.partition import NotACopy

Content = tuple[object, object, object]


class Comparison(NamedTuple):
    """The errors of partitions, and those that are not compared, because only the source has records there."""

    errors: dict[Place, CommandError]
    not_compared: set[Place]


def check_same(source: Session, target: Session, ends: Mapping[Place, int]) -> Comparison:
    """Compare the last record of each partition of the copy with the source.

    When the source has the record, the copy must have the same, unless its own retention removed it. When the source
    has no record there, the copy may still have one, or a filler of a gap. Raises CommandError if no broker responds.
    """
    errors: dict[Place, CommandError] = {}
    last = {place: end - 1 for place, end in ends.items() if end > 0}
    copied = _records_at(target, last, errors)
    for place, content in _records_at(source, {place: last[place] for place in copied}, errors).items():
        if content is not None and not _are_same(content, copied[place]):
            text = f"{place[0]}-{place[1]}: offset {last[place]} differs from the source: it is not a copy"
            errors[place] = NotACopy(text)
    starts = source.found_starts(last.keys() - copied.keys() - errors.keys()).offsets
    return Comparison(errors, {place for place, start in starts.items() if start <= last[place]})


def _are_same(content: Content, copied: Content | None) -> bool:
    if copied is None:
        return False
    timestamp, *rest = content
    return rest == list(copied[1:]) and timestamp in (0, copied[0])  # 0: the copy has the time at which it was written


def _records_at(
    session: Session, offsets: Mapping[Place, int], errors: dict[Place, CommandError]
) -> dict[Place, Content | None]:
    """Return timestamp, key and value of the records at these offsets; None for an offset without a record that is
    not before the start of the log. Adds the errors of partitions, and leaves these out.
    """
    starts = session.found_starts(offsets)
    errors.update(starts.errors)
    wanted = {place: offsets[place] for place, start in starts.offsets.items() if offsets[place] >= start}
    found: dict[Place, Content | None] = dict.fromkeys(wanted)
    if not wanted:
        return found
    consumer = session.consumer(
        {"group.id": "pybroker-mirror", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    try:
        consumer.assign([TopicPartition(*place, offset) for place, offset in wanted.items()])
        deadline = time.monotonic() + session.timeout_s
        open_ = set(wanted)
        while open_:
            for message in consumer.consume(500, 0.1):
                place = _place(message)
                if place not in open_:
                    continue
                open_.discard(place)
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    errors[place] = failed(KafkaException(error), f"{place[0]}-{place[1]}")
                    del found[place]
                if error is None and message.offset() == wanted[place]:
                    found[place] = (message.timestamp()[1], message.key(), message.value())
                consumer.pause([TopicPartition(*place)])
            session.check()
            if time.monotonic() > deadline:
                for place in open_:
                    text = f"{place[0]}-{place[1]}: returned no record within {session.timeout_s:g} s"
                    errors[place] = CommandError(text, KafkaError._TIMED_OUT)
                    del found[place]
                break
    finally:
        consumer.close()
    return found


def _place(message: Message) -> Place:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition
