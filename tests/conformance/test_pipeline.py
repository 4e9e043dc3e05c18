"""The data pipeline: parsing on Spark, and the example's specification against the broker, by its command too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from pybroker.pipeline.parse import parsed, with_event_time
from pybroker.pipeline.spec import EventTime, Parse, Pipeline, SpecError, load
from pybroker.pipeline.streams import start
from tests.support.brokers import RunningBroker
from tests.support.scale import COSTLY_BROKERS

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "access-log"
LINE = '127.0.0.1 - - [21/Nov/2026:14:36:4{n} +0000] "GET /page{n}?q=1 HTTP/1.1" 200 1{n} "-" "curl/8.5.0"'


def records(spark: SparkSession, *values: str | None) -> DataFrame:
    """Rows as Spark's Kafka source gives them."""
    rows = [(value.encode() if value is not None else None, offset) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, "value BINARY, offset BIGINT").selectExpr(
        "value", "'t' AS topic", "0 AS partition", "offset", "current_timestamp() AS timestamp", "value AS key",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
    )  # fmt: skip


def test_text_is_one_column(spark: SparkSession) -> None:
    """Every value is a text, a missing one too; nothing fails."""
    rows = parsed(records(spark, "a", None), Parse("text")).select("value", "_error", "_offset").collect()

    assert rows == [Row("a", None, 0), Row(None, None, 1)]


def test_json_of_another_shape_is_an_error(spark: SparkSession) -> None:
    """The fields of the schema; null, broken and ill-typed values have an error instead."""
    parse = Parse("json", schema="id INT, name STRING")

    rows = parsed(records(spark, '{"id": 1, "name": "x", "more": 2}', "{", '{"id": "no"}', None), parse)

    assert rows.select("id", "name").where("_error IS NULL").collect() == [Row(1, "x")]
    assert rows.where("_error IS NOT NULL").count() == 3


def test_regex_groups_are_columns(spark: SparkSession) -> None:
    """Named groups in order, with their types; what does not match has an error."""
    parse = Parse("regex", pattern=r"(?<who>\w+)(:|=)(?<how_many>\d+|x)", schema="how_many INT")

    rows = parsed(records(spark, "ann:12", " bob=x rest", "nothing", None), parse)

    assert rows.select("who", "how_many", "_error").collect() == [
        Row("ann", 12, None),
        Row("bob", None, None),
        Row(None, None, "no match of the pattern"),
        Row(None, None, "no match of the pattern"),
    ]


@pytest.mark.parametrize(
    ("parse", "path"),
    [
        (Parse("regex", pattern="no group"), "parse.pattern"),
        (Parse("regex", pattern="(?<open"), "parse.pattern"),
        (Parse("regex", pattern="(?<a>x)", schema="b INT"), "parse.schema"),
    ],
)
def test_regex_that_cannot_work_is_refused(spark: SparkSession, parse: Parse, path: str) -> None:
    """A mistake in the pattern is told before anything runs."""
    with pytest.raises(SpecError) as refused:
        parsed(records(spark), parse)
    assert refused.value.path == path


def test_access_log_of_a_real_nginx_parses_whole(spark: SparkSession) -> None:
    """Every line of the recorded log, with a time."""
    lines = spark.read.text(str(EXAMPLE / "access.log")).collect()
    rows = parsed(records(spark, *(line.value for line in lines)), Parse("regex", preset="nginx_combined"))
    rows = with_event_time(rows, EventTime("time", "dd/MMM/yyyy:HH:mm:ss Z"))

    assert rows.where(
        "_error IS NULL AND time IS NOT NULL AND status IS NOT NULL AND bytes IS NOT NULL"
    ).count() == len(lines)


def test_request_that_is_no_request_is_a_row_all_the_same(spark: SparkSession) -> None:
    """nginx logs what was sent, and 400."""
    line = r'127.0.0.1 - - [21/Nov/2026:14:36:40 +0000] "\x16\x03\x01" 400 157 "-" "-"'

    rows = parsed(records(spark, line), Parse("regex", preset="nginx_combined"))

    assert rows.select("method", "status", "bytes", "_error").collect() == [Row("", 400, 157, None)]


def produce(broker: RunningBroker, topic: str, *values: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, key=b"k", headers=[("h", b"v")])
    assert producer.flush(60) == 0


@pytest.fixture
def example(reference: RunningBroker, name: str, tmp_path: Path) -> Pipeline:
    """The example's specification, on topics and folders of the test's own."""
    environ = {"BOOTSTRAP": reference.bootstrap, "LAKE": str(tmp_path)}
    pipeline = load(EXAMPLE / "pipeline.yaml", environ)
    source = replace(pipeline.sources["access"], topics=[name], dead_letter=None)
    return replace(pipeline, sources={"access": source})


def run(spark: SparkSession, pipeline: Pipeline) -> None:
    for query in start(spark, pipeline, once=True):
        assert query.awaitTermination(120)
        assert query.exception() is None


def test_rows_are_archived_once_and_counted_in_windows(
    spark: SparkSession, reference: RunningBroker, example: Pipeline, name: str, tmp_path: Path
) -> None:
    """Two runs: the second goes on at the checkpoint; windows that are over are in the files, none of them twice."""
    lines = [LINE.format(n=n).encode() for n in range(10)]
    later = [line.replace(b"14:36", minute) for minute in (b"14:37", b"14:38") for line in lines]
    produce(reference, name, *lines, b"garbage")
    run(spark, example)
    produce(reference, name, *later)
    run(spark, example)

    requests = spark.read.parquet(str(tmp_path / "requests"))
    counted = (
        spark.read.parquet(str(tmp_path / "per_minute")).groupBy("window_start").agg(f.sum("requests"), f.sum("bytes"))
    )
    assert requests.count() == 30
    assert {row.path for row in requests.select("path").collect()} == {f"/page{n}" for n in range(10)}
    assert (tmp_path / "requests" / "date=2026-11-21").is_dir()
    of_a_minute = sum(int(f"1{n}") for n in range(10))
    assert sorted((row[0].minute, row[1], row[2]) for row in counted.collect()) == [
        (36, 10, of_a_minute),
        (37, 10, of_a_minute),
    ]


def read(broker: RunningBroker, topic: str, count: int) -> Iterator[Any]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    yield from consumer.consume(count, 60)
    consumer.close()


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_unparsed_records_go_to_the_dead_letter_topic(reference: RunningBroker, name: str, tmp_path: Path) -> None:
    """The command: bad records as they came, with where from and why; good ones as JSON into a topic, by key."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"""
version: 1
name: {name}
kafka: {{bootstrap: "{reference.bootstrap}", options: {{client.id: pipeline}}}}
checkpoint_root: {tmp_path}/state
sources:
  access:
    topics: [{name}]
    parse: {{format: regex, preset: nginx_combined}}
    dead_letter: {{topic: {name}-dlt}}
streams:
  copy:
    from: access
    sql: SELECT status, path FROM access
    sink: {{format: kafka, topic: {name}-copy, key: path}}
"""
    )
    produce(reference, name, LINE.format(n=1).encode(), b"garbage", LINE.format(n=2).encode())

    done = subprocess.run([sys.executable, "-m", "pybroker", "pipeline", str(spec)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "copy: batch 0: 3 records, 1 of them could not be parsed" in done.stdout
    [letter] = read(reference, f"{name}-dlt", 1)
    assert (letter.key(), letter.value()) == (b"k", b"garbage")
    headers = dict(letter.headers())
    assert headers.pop("offset").isdigit()
    assert headers == {"h": b"v", "error": b"no match of the pattern", "topic": name.encode(), "partition": b"0"}
    copied = {(m.key(), m.value()) for m in read(reference, f"{name}-copy", 2)}
    assert copied == {(b"/page%d?q=1" % n, b'{"status":200,"path":"/page%d?q=1"}' % n) for n in (1, 2)}


def test_stream_that_cannot_run_ends_the_command(tmp_path: Path) -> None:
    """SQL over a column that is not there: exit code 1, and the reason."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"{{version: 1, name: n, kafka: {{bootstrap: '127.0.0.1:1'}}, checkpoint_root: {tmp_path}/state, "
        f"sources: {{s: {{topics: [t]}}}}, streams: {{q: {{from: s, sql: SELECT no_such_column FROM s, "
        f"sink: {{format: parquet, path: {tmp_path}/rows}}}}}}}}"
    )

    done = subprocess.run([sys.executable, "-m", "pybroker", "pipeline", str(spec)], capture_output=True, text=True)

    assert done.returncode == 1
    assert "no_such_column" in done.stderr
