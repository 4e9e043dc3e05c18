"""The data pipeline's parsing, on Spark: what becomes a column, and what an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from pybroker.pipeline.parse import parsed, with_event_time
from pybroker.pipeline.sources import dead_letters
from pybroker.pipeline.spec import EventTime, Parse, SpecError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "access-log"


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


def test_regex_with_a_single_group_matches_or_not(spark: SparkSession) -> None:
    """What does not match is not taken for the group."""
    rows = parsed(records(spark, "x=1;", "nothing", "", None), Parse("regex", pattern="=(?<n>.*);"))

    assert [row.n for row in rows.select("n").collect()] == ["1", None, None, None]
    assert rows.where("_error IS NULL").count() == 1


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


def test_raw_values_are_bytes(spark: SparkSession) -> None:
    """As they came, whatever they are."""
    rows = parsed(records(spark, "a", None), Parse("raw")).select("value", "_error").collect()

    assert rows == [Row(bytearray(b"a"), None), Row(None, None)]


def test_csv_of_another_shape_is_an_error(spark: SparkSession) -> None:
    """Too few and too many fields, ill-typed ones, and null; the separator is the specification's."""
    parse = Parse("csv", schema="id INT, name STRING", options={"sep": ";"})

    rows = parsed(records(spark, "1;x", '2;"a;b"', "3", "4;x;more", "five;x", None), parse)

    assert rows.select("id", "name").where("_error IS NULL").collect() == [Row(1, "x"), Row(2, "a;b")]
    assert [row[0] for row in rows.select("_error").where("_error IS NOT NULL").collect()] == [
        "no CSV of this schema"
    ] * 4


def test_access_log_as_json(spark: SparkSession) -> None:
    """The preset's columns, with a time that needs no format."""
    line = '{"time":"2026-11-21T14:36:40+00:00","method":"GET","path":"/","status":200,"bytes":12,"request_time":0.004}'

    rows = with_event_time(parsed(records(spark, line), Parse(preset="nginx_json")), EventTime("time"))

    assert rows.selectExpr("unix_seconds(time)", "path", "status", "request_time", "_error").collect() == [
        Row(1795271800, "/", 200, 0.004, None)
    ]


def test_time_of_the_record_itself(spark: SparkSession) -> None:
    """For values that do not say when."""
    rows = with_event_time(parsed(records(spark, "a"), Parse("text")), EventTime("_timestamp"))

    assert rows.where("_error IS NULL AND _timestamp IS NOT NULL").count() == 1


def test_value_without_a_time_is_an_error(spark: SparkSession) -> None:
    """The column is there, and what it says is no time."""
    rows = with_event_time(parsed(records(spark, "noon"), Parse("text")), EventTime("value"))

    assert rows.select("value", "_error").collect() == [Row(None, "no event time in column value")]


@pytest.mark.parametrize(
    ("parse", "bad", "why"),
    [
        (
            Parse("json", schema="time STRING, n INT"),
            '{"time": "2026-01-01T00:00:00Z", "n": "x"}',
            "no JSON of this schema",
        ),
        (Parse("json", schema="time STRING, n INT"), '{"n": 1}', "no event time in column time"),
        (Parse("csv", schema="time STRING, n INT"), "2026-01-01T00:00:00Z", "no CSV of this schema"),
        (Parse("regex", pattern="(?<time>T.*)"), "nothing", "no match of the pattern"),
        (
            Parse("avro", schema='{"type": "record", "name": "n", "fields": [{"name": "time", "type": "string"}]}'),
            "not Avro",
            "no Avro of this schema",
        ),
    ],
)
def test_letter_says_why(spark: SparkSession, parse: Parse, bad: str, why: str) -> None:
    """And where from; key and value are as they came."""
    rows = with_event_time(parsed(records(spark, bad), parse), EventTime("time"))

    [letter] = dead_letters(rows).collect()
    assert (letter.key, letter.value) == (bad.encode(), bad.encode())
    headers = {header.key: bytes(header.value).decode() for header in letter.headers}
    assert headers == {"error": why, "topic": "t", "partition": "0", "offset": "0"}
