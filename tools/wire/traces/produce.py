"""A Produce request: from its frame to the files and the answer."""

from __future__ import annotations

import time
from collections.abc import Generator

from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.produce import PRODUCE
from protocol.records.batch import compute_crc, parse_header
from storage.append.header_validation import AppendOrigin, check_batch
from storage.errors import StorageError
from storage.log_config import LogConfig
from tools.wire.traces.client import Client, row
from tools.wire.traces.fields import batch_fields
from tools.wire.traces.files import (
    batch_positions,
    batch_step,
    dumped,
    segment,
)
from tools.wire.traces.stage import (
    TOPIC,
    Stage,
    batch,
    produce,
    topic_data,
)
from tools.wire.traces.steps import Row, Step, rows_of

_LATEST = -1


def trace() -> Generator[Step, None, None]:
    """Yield the steps. One batch is written before, so that offsets and positions are not all zero."""
    with Stage() as stage:
        client = stage.client("producer")
        produce(client, batch("first"))
        before = _high_watermark(client)
        records = batch("pen", "ink")
        exchange = client.ask(
            PRODUCE, acks=-1, timeout_ms=30_000, topic_data=topic_data(client.topic_id(TOPIC), records)
        )
        pending = exchange.pending
        yield exchange.frame_step(
            f"frame: {pending.name}, {len(pending.data)} bytes",
            "An int32 size, then the header: API, version, and the correlation id that the answer repeats.",
        )
        yield exchange.decode_step(
            "decode: the request's fields", "The records are not copied: they remain bytes of the frame."
        )
        sent = next(each for each in pending.body() if each.type == "records")
        start = sent.position + sent.size - len(records)
        yield Step(
            "decode",
            "decode: the batch in the request",
            "The broker reads only the header, not the records (Kafka's format v2).",
            rows_of(batch_fields(pending.data, start), pending.data),
        )
        yield Step(
            "checks",
            "checks: may the batch be appended?",
            "The rules are in storage/append/header_validation.py.",
            _checks(records),
        )
        log = segment(stage.partition())
        position = batch_positions(log)[-1]
        yield batch_step(
            log,
            position,
            f"append: the batch in {log.name}, from byte {position} on",
            "The broker sets base offset and leader epoch; the producer's checksum does not cover them.",
        )
        yield Step("append", "append: the output of pybroker dump-log", "", tuple(dumped(log)))
        after = _high_watermark(client)
        yield exchange.answer_step("answer", "The base offset is the first record's.")
        stage.broker.pause()
        for suffix, what in (("index", "relative offset, position"), ("timeindex", "timestamp, relative offset")):
            path = log.with_suffix(f".{suffix}")
            about = f"{what}; here for each batch but the first, with index.interval.bytes=0."
            yield Step("index", f"index entries: {path.name}", about, tuple(dumped(path)))
        yield Step(
            "high watermark",
            "high watermark: consumers may read below it",
            "With one replica it rises with each append. It is stored every few seconds, and at a stop.",
            (
                row("ListOffsets before", before),
                row("ListOffsets after", after),
                row("replication-offset-checkpoint", stage.checkpoint("replication-offset-checkpoint")),
            ),
        )


def _high_watermark(client: Client) -> int:
    topic = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(timestamp=_LATEST)])
    answer = client.ask(LIST_OFFSETS, replica_id=-1, topics=[topic]).answer
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def _checks(records: bytes) -> tuple[Row, ...]:
    header, config = parse_header(records), LogConfig()
    size = header.size_bytes
    try:
        check_batch(memoryview(records), config, AppendOrigin.CLIENT, int(time.time() * 1000))
        verdict = "accepted"
    except StorageError as error:
        verdict = str(error)
    return (
        row("magic", f"{header.magic}, where 2 is wanted"),
        row("base offset", f"{header.base_offset}, 0 as required from a producer"),
        row("length", f"{size} bytes announced, {len(records)} there"),
        row("size", f"{size} bytes; the limit max.message.bytes is {config.max_message_bytes}"),
        row("checksum", f"{compute_crc(records, 0, size):#010x} computed, {header.crc:#010x} stored"),
        row("codec", f"{header.codec}, where 0 to 4 are known"),
        row("records", f"{header.record_count}, with a last offset delta of {header.last_offset_delta}"),
        row("sequence", f"{header.base_sequence} of producer {header.producer_id}"),
        row("check_batch", verdict),
    )
