"""Poisonous records: whatever a record holds, a pipeline's streams continue, and bad records are reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pybroker.pipeline.plan import plan
from tests.support.brokers import RunningBroker
from tests.support.pipelines import produce, read, run
from tests.support.scale import COSTLY_BROKERS
from tests.support.settled import wait_for_topic
from tests.support.specifications import document, loaded

pytestmark = pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)

#: size of a line: twice what a topic accepts, and a producer sends, by default
HUGE = 2 << 20
LARGEST = 2 * HUGE

LINE, TIME = b'127.0.0.1 - - [%b +0000] "GET / HTTP/1.1" 200 1 "-" "%b"', b"21/Nov/2026:14:36:40"

#: no parser below can make a row of these
POISON = [
    *(None, b"", b"\0", b"\1", b"\1nothing", b"\1\1\1", b"\xff\xfe\x80\xc3", b'"', b"\\", b"\r\n"),
    *(b"[" * 100_000, b'{"id": ' + b"[" * 100_000, b'{"id": ' * 100_000, b'{"id": 1e999999999}'),
    *(b";" * 100_000, b"x" * HUGE, b'"' + b"x " * 100_000),
    *(b'{"id": 1, "time": "2026-11-21"}' * 2, b"1;2026-11-21\n2;2026-11-21", b"\n".join([LINE % (TIME, b"x")] * 2)),
]

#: by parser: its part of a source, valid values, those without a valid time, and the error of all others
PARSERS: dict[str, tuple[dict[str, Any], Sequence[bytes], Sequence[bytes], bytes]] = {
    "regex": (
        {
            "parse": {"format": "regex", "preset": "nginx_combined"},
            "event_time": {"column": "time", "format": "dd/MMM/yyyy:HH:mm:ss Z"},
        },
        [
            *(LINE % (b"01/Jan/0001:00:00:00", b"first"), LINE % (b"31/Dec/9999:23:59:59", b"last")),
            *(LINE % (TIME, agent) for agent in (b"\0", b"\1", b"\xff\xfe", b"x" * HUGE, b"curl")),
        ],
        [LINE % (time, b"x") for time in (b"31/Feb/2026:00:00:00", b"01/Jan/+999999:00:00:00", b"\1", b"\xff")],
        b"no match of the pattern",
    ),
    "json": (
        {"parse": {"format": "json", "schema": "id INT, time STRING"}, "event_time": {"column": "time"}},
        [
            b'{"id": 1, "time": "%b"}' % time
            for time in (b"0001-01-01T00:00:00Z", b"9999-12-31T23:59:59Z", b"+294247-01-01T00:00:00Z", b"2026-11-21")
        ],
        [
            b'{"id": 1, "time": "%b"}' % time
            for time in (b"+294248-01-01T00:00:00Z", b"999999999999-01-01", b"0000-00-00", b"\\u0000", b"x" * HUGE)
        ],
        b"no JSON of this schema",
    ),
    "csv": (
        {
            "parse": {"format": "csv", "schema": "id INT, time STRING", "options": {"sep": ";"}},
            "event_time": {"column": "time"},
        },
        [b"1;0001-01-01T00:00:00Z", b"2;+294247-01-01T00:00:00Z", b"3;2026-11-21T14:36:40Z"],
        [b"1;0000-00-00", b"1;\0", b"1;\1", b"1;\xff", b"1;" + b"x" * HUGE],
        b"no CSV of this schema",
    ),
}


def create(broker: RunningBroker, topic: str, largest: int) -> None:
    """Create a topic of one partition, whose records may have so many bytes."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"max.message.bytes": str(largest)}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result()
    wait_for_topic(broker, topic, 1)


def test_only_bad_records_go_to_the_dead_letter_topic(
    spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path
) -> None:
    """All parsers read all of it, in several batches."""
    create(reference, name, LARGEST)
    values = [*POISON, *(value for _, good, untimed, _ in PARSERS.values() for value in (*untimed, *good))]
    producer = Producer({"bootstrap.servers": reference.bootstrap, "message.max.bytes": LARGEST})
    for value in values:
        producer.produce(name, value)
    assert producer.flush(60) == 0
    common = {"topics": [name], "max_per_trigger": 20}
    pipeline = loaded(
        tmp_path,
        document(
            kafka={"bootstrap": reference.bootstrap},
            checkpoint_root=f"{tmp_path}/state",
            sources={
                parser: {**source, **common, "dead_letter": {"topic": f"{name}-{parser}"}}
                for parser, (source, *_) in PARSERS.items()
            },
            streams={
                f"of_{parser}": {
                    "from": parser,
                    "sql": f"SELECT _offset, time FROM {parser}",
                    "sink": {"format": "parquet", "path": f"{tmp_path}/{parser}"},
                }
                for parser in PARSERS
            },
        ),
    )
    run(spark, pipeline)

    for parser, (_, good, untimed, reason) in PARSERS.items():
        rows = spark.read.parquet(f"{tmp_path}/{parser}").where("time IS NOT NULL").select("_offset").collect()
        assert sorted(row[0] for row in rows) == [values.index(value) for value in good], parser
        bad = {offset: value for offset, value in enumerate(values) if value not in good}
        letters = read(reference, f"{name}-{parser}", len(bad))
        assert len(letters) == len(bad), parser
        for letter in letters:
            headers = dict(letter.headers() or ())
            value = bad.pop(int(headers["offset"]))
            why = b"no event time in column time" if value in untimed else reason
            assert headers["error"] == why, (parser, value)
            if value is None or len(value) < HUGE:
                assert (letter.value(), headers.get("cut")) == (value, None)
            else:
                assert headers["cut"] == b"value of %d bytes" % len(value)
                assert value.startswith(letter.value())
        assert not bad, parser


def test_a_line_too_long_for_its_pattern_is_a_dead_letter(
    spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path
) -> None:
    """Repeated groups take stack for each character; the stream continues."""
    create(reference, name, LARGEST)
    lines = [b"a b", b"a b " * 8_000, b"a b " * (HUGE // 4), b"c"]
    producer = Producer({"bootstrap.servers": reference.bootstrap, "message.max.bytes": LARGEST})
    for line in lines:
        producer.produce(name, line)
    assert producer.flush(60) == 0
    source = {
        "topics": [name],
        "parse": {"format": "regex", "pattern": r"^(?<words>(?:\w| )+)$"},
        "dead_letter": {"topic": f"{name}-dlt"},
    }
    where = {"kafka": {"bootstrap": reference.bootstrap}, "checkpoint_root": f"{tmp_path}/state"}
    sink = {"format": "parquet", "path": f"{tmp_path}/rows"}
    run(spark, loaded(tmp_path, document(**where, sources={"s": source}, streams={"q": {"from": "s", "sink": sink}})))

    rows = spark.read.parquet(f"{tmp_path}/rows").collect()
    assert sorted(row.words.encode() for row in rows) == [lines[0], lines[1], lines[3]]
    [letter] = read(reference, f"{name}-dlt", 1)
    assert dict(letter.headers())["error"] == b"longer than 32768 bytes"
    assert lines[2].startswith(letter.value())


def test_record_that_is_too_large_for_its_letter(
    spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path
) -> None:
    """The value, the key or a header is cut to the limit of the dead-letter topic; a sink's topic takes it whole."""
    create(reference, name, LARGEST)
    create(reference, f"{name}-copy", LARGEST)
    create(reference, f"{name}-dlt", 20_000)
    huge = b"x" * HUGE
    records: dict[str | None, tuple[bytes, bytes, bytes]] = {
        None: (b"k", b"v", b"h"),
        f"value of {HUGE} bytes": (b"k", huge, b"h"),
        f"key of {HUGE} bytes": (huge, b"v", b"h"),
        f"headers of {HUGE + 11} bytes": (b"k", b"v", huge),
    }
    producer = Producer({"bootstrap.servers": reference.bootstrap, "message.max.bytes": LARGEST})
    for key, value, header in records.values():
        producer.produce(name, value, key=key, headers=[("h", header)])
    assert producer.flush(60) == 0
    letter = {"topic": f"{name}-dlt", "max_bytes": 20_000}
    pipeline = loaded(
        tmp_path,
        document(
            kafka={"bootstrap": reference.bootstrap},
            checkpoint_root=f"{tmp_path}/state",
            sources={
                "texts": {"topics": [name]},
                "objects": {
                    "topics": [name],
                    "parse": {"format": "json", "schema": "id INT"},
                    "dead_letter": letter,
                },
            },
            streams={"copy": {"from": "texts", "sink": {"format": "kafka", "topic": f"{name}-copy"}}},
        ),
    )
    run(spark, pipeline)

    copied = [json.loads(message.value())["value"].encode() for message in read(reference, f"{name}-copy", 4)]
    assert sorted(copied) == sorted(value for _, value, _ in records.values())
    told = []
    for message in read(reference, f"{name}-dlt", 4):
        headers = dict(message.headers())
        told.append(headers["cut"].decode() if "cut" in headers else None)
        key, value, _ = records[told[-1]]
        assert (key.startswith(message.key()), value.startswith(message.value())) == (True, True)
    assert set(told) == set(records)


def test_a_failing_sql_expression_is_null(
    spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path
) -> None:
    """No number, division by zero, a missing element, a duplicate key, invalid text; in a strict session it fails."""
    columns = {
        "CAST(value AS INT)": "number",
        "12 / CAST(value AS INT)": "quotient",
        "split(value, '&')[1]": "element",
        "str_to_map(value, '&', '=')['a']": "last",
        "decode(_value, 'UTF-8')": "text",
    }
    pipeline = loaded(
        tmp_path,
        document(
            kafka={"bootstrap": reference.bootstrap},
            checkpoint_root=f"{tmp_path}/state",
            sources={"s": {"topics": [name]}},
            streams={
                "q": {
                    "from": "s",
                    "sql": f"SELECT {', '.join(f'{sql} AS {column}' for sql, column in columns.items())} FROM s",
                    "sink": {"format": "parquet", "path": f"{tmp_path}/rows"},
                }
            },
        ),
    )
    produce(reference, name, b"none", b"0", b"99999999999", b"a=1&a=2", b"\xff", None, b"4")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        [strict] = plan(spark, pipeline)
        with pytest.raises(StreamingQueryException, match="CAST_INVALID_INPUT"):
            strict.start(once=True).awaitTermination(120)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "false")
    run(spark, pipeline)

    rows = spark.read.parquet(f"{tmp_path}/rows").collect()
    assert {row.text: (row.number, row.quotient, row.element, row.last) for row in rows} == {
        **dict.fromkeys(("none", "99999999999", "\ufffd", None), (None, None, None, None)),
        "0": (0, None, None, None),
        "a=1&a=2": (None, None, "a=2", "2"),
        "4": (4, 3.0, None, None),
    }
