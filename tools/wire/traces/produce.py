"""A Produce request: from its frame to the files and back."""

from __future__ import annotations

import time
from collections.abc import Generator

from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.produce import PRODUCE
from protocol.records.batch import compute_crc, parse_header
from storage.append.rules import AppendOrigin, check_batch
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
    """The steps. A batch is there already, so that offsets and positions are more than zeros."""
    with Stage() as stage:
        client = stage.client("producer")
        produce(client, batch("first"))
        before = _high_watermark(client)
        records = batch("pen", "ink")
        exchange = client.ask(
            PRODUCE, acks=-1, timeout_ms=30_000, topic_data=topic_data(client.topic_id(TOPIC), records)
        )
        asked = exchange.asked
        yield exchange.frame_step(
            f"frame: {asked.name}, {len(asked.data)} bytes",
            "An int32 size, then the header: which API in which version, and the number that the answer will carry.",
        )
        yield exchange.decode_step("decode: the request's fields", "Records stay as they are: bytes in the frame.")
        sent = next(each for each in asked.body() if each.type == "records")
        start = sent.position + sent.size - len(records)
        yield Step(
            "decode",
            "decode: the batch in it",
            "Only the header is read; the records stay closed (Kafka's format v2).",
            rows_of(batch_fields(asked.data, start), asked.data),
        )
        yield Step("checks", "checks: may it be appended?", "What storage/append/rules.py looks at.", _checks(records))
        log = segment(stage.partition())
        position = batch_positions(log)[-1]
        yield batch_step(
            log,
            position,
            f"append: the batch in {log.name}, from byte {position} on",
            "Base offset and leader epoch are the broker's; the checksum does not cover them, and is the producer's.",
        )
        yield Step("append", "append: as pybroker dump-log shows it", "", tuple(dumped(log)))
        after = _high_watermark(client)
        yield exchange.answer_step("answer", "The base offset is that of the first record.")
        stage.broker.pause()
        for suffix, what in (("index", "relative offset, position"), ("timeindex", "timestamp, relative offset")):
            path = log.with_suffix(f".{suffix}")
            about = f"{what}; here for each batch but the first, with index.interval.bytes=0."
            yield Step("index", f"index entries: {path.name}", about, tuple(dumped(path)))
        yield Step(
            "high watermark",
            "high watermark: up to where consumers may read",
            "With one replica it follows each append; a stop, and each few seconds, write it down.",
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
        row("base offset", f"{header.base_offset}, where 0 is wanted of a producer"),
        row("length", f"{size} bytes announced, {len(records)} there"),
        row("size", f"{size} bytes, where max.message.bytes is {config.max_message_bytes}"),
        row("checksum", f"{compute_crc(records, 0, size):#010x} computed, {header.crc:#010x} stored"),
        row("codec", f"{header.codec}, where 0 to 4 are known"),
        row("records", f"{header.record_count}, with a last offset delta of {header.last_offset_delta}"),
        row("sequence", f"{header.base_sequence} of producer {header.producer_id}"),
        row("check_batch", verdict),
    )
