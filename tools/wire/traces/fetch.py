"""A Fetch request, and the bytes of the file that answer it."""

from __future__ import annotations

from collections.abc import Generator

from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.records.batch import iter_batches
from tools.wire.traces.client import row
from tools.wire.traces.fields import batch_fields
from tools.wire.traces.files import dumped, index_entries, segment
from tools.wire.traces.stage import (
    TOPIC,
    Stage,
    batch,
    produce,
)
from tools.wire.traces.steps import Step, rows_of

_WANTED_OFFSET = 3


def trace() -> Generator[Step, None, None]:
    """Yield the steps: three batches of two records, and a Fetch from the middle of the second batch."""
    with Stage() as stage:
        writer = stage.client("producer")
        for values in (("a", "b"), ("c", "d"), ("e", "f")):
            produce(writer, batch(*values))
        stage.broker.restart()  # writes the indexes to the disk
        log = segment(stage.partition())
        client = stage.client("consumer")
        partition = FetchPartition(fetch_offset=_WANTED_OFFSET, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=TOPIC, topic_id=client.topic_id(TOPIC), partitions=[partition])
        exchange = client.ask(FETCH, max_wait_ms=500, min_bytes=1, isolation_level=0, topics=[topic])
        pending = exchange.pending
        yield exchange.frame_step(f"frame: {pending.name}, {len(pending.data)} bytes")
        yield exchange.decode_step(f"decode: the request's fields: offset {_WANTED_OFFSET} is wanted")
        index = log.with_suffix(".index")
        about = "Relative offset and position, 4 bytes each."
        yield Step("index", f"index entries: {index.name}", about, tuple(dumped(index)))
        data = log.read_bytes()
        reached = [each for each in index_entries(index) if each.offset <= _WANTED_OFFSET]
        start = reached[-1].position if reached else 0
        passed = list(iter_batches(data, start))
        first = next(position for position, header in passed if header.last_offset >= _WANTED_OFFSET)
        yield Step(
            "lookup",
            "lookup: the batch with that offset",
            "From the last entry at or below it, the broker reads headers up to the batch that contains it.",
            (
                row("from position", start),
                *(
                    row(f"batch at {position}", f"offsets {header.base_offset} to {header.last_offset}")
                    for position, header in passed
                    if position <= first
                ),
            ),
        )
        answered = exchange.answer.responses[0].partitions[0]
        sent = bytes(answered.records)
        yield Step(
            "slice",
            "slice: the bytes that are sent, unchanged from the file (sendfile)",
            "Whole batches: the first one begins before the wanted offset, and the client skips the earlier records.",
            (
                row("file", log.name),
                row("position", first),
                row("bytes", len(sent)),
                row("the answer's records equal the bytes of the file", data[first : first + len(sent)] == sent),
                row("high watermark", answered.high_watermark),
            ),
        )
        yield exchange.answer_step(f"answer: {len(exchange.data)} bytes")
        for position, header in iter_batches(sent):
            title = f"records: the batch of offsets {header.base_offset} to {header.last_offset}"
            yield Step("records", title, "", rows_of(batch_fields(sent, position), sent))
