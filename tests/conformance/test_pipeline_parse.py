"""The data pipeline's parsing, on Spark: which values become columns, and which are errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from pybroker.pipeline.letters import dead_letters
from pybroker.pipeline.parse import parsed, with_event_time
from pybroker.pipeline.spec import EventTime, Parse, SpecError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "access-log"


def records(spark: SparkSession, *values: str | bytes | None) -> DataFrame:
    """Return rows as Spark's Kafka source does."""
    rows = [(value.encode() if isinstance(value, str) else value, offset) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, "value BINARY, offset BIGINT").selectExpr(
        "value", "'t' AS topic", "0 AS partition", "offset", "current_timestamp() AS timestamp", "value AS key",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
    )  # fmt: skip


def test_text_is_one_column(spark: SparkSession) -> None:
    """Every value is a text, a missing one too; no value fails."""
    rows = parsed(records(spark, "a", None), Parse("text")).select("value", "_error", "_offset").collect()

    assert rows == [Row("a", None, 0), Row(None, None, 1)]


def test_json_of_another_shape_is_an_error(spark: SparkSession) -> None:
    """The fields of the schema; null, broken and ill-typed values have an error instead."""
    parse = Parse("json", schema="id INT, name STRING")

    rows = parsed(records(spark, '{"id": 1, "name": "x", "more": 2}', "{", '{"id": "no"}', None), parse)

    assert rows.select("id", "name").where("_error IS NULL").collect() == [Row(1, "x")]
    assert rows.where("_error IS NOT NULL").count() == 3


def test_regex_groups_are_columns(spark: SparkSession) -> None:
    """Named groups in order, with their types; a value without a match has an error."""
    parse = Parse("regex", pattern=r"(?<who>\w+)(:|=)(?<how_many>\d+|x)", schema="how_many INT")

    rows = parsed(records(spark, "ann:12", " bob=x rest", "nothing", None), parse)

    assert rows.select("who", "how_many", "_error").collect() == [
        Row("ann", 12, None),
        Row("bob", None, None),
        Row(None, None, "no match of the pattern"),
        Row(None, None, "no match of the pattern"),
    ]


def test_regex_with_a_single_group_matches_or_not(spark: SparkSession) -> None:
    """A value without a match is not taken for an empty group."""
    rows = parsed(records(spark, "x=1;", "nothing", "", None), Parse("regex", pattern="=(?<n>.*);"))

    assert [row.n for row in rows.select("n").collect()] == ["1", None, None, None]
    assert rows.where("_error IS NULL").count() == 1


def test_regular_expressions_are_javas(spark: SparkSession) -> None:
    """Patterns may use features that Python lacks, and group names in references.

    Brackets in classes and after backslashes are not groups.
    """
    parse = Parse("regex", pattern=r"\[?(?<level>\p{Lu}+)[(\])]+(?<quote>['`])(?<its_name>\p{L}++)\k<quote>")

    rows = parsed(records(spark, "[WARN]) 'x' `\u00e9t\u00e9`", "[WARN])`\u00e9t\u00e9`", "INFO('x`"), parse)

    assert rows.select("level", "its_name").collect() == [
        *(Row(None, None), Row("WARN", "\u00e9t\u00e9"), Row(None, None)),
    ]


def test_separator_in_a_value_is_a_character_like_others(spark: SparkSession) -> None:
    """U+0001, which joins the groups, within a group, beside it, and in a value without a match."""
    one, two = Parse("regex", pattern="=(?<n>[^;]*);"), Parse("regex", pattern="(?<a>x*)=(?<b>[^;]*);")
    values = ("=1;", "=\1;", "\1=1;\1", "\1nothing", "\1nothing\1", "\1")

    ones = parsed(records(spark, *values), one).select("n", "_error").collect()
    twos = parsed(records(spark, *values), two).select("a", "b", "_error").collect()

    unmatched = "no match of the pattern"
    assert ones == [*(Row(n, None) for n in ("1", "\1", "1")), *[Row(None, unmatched)] * 3]
    assert twos == [*(Row("", b, None) for b in ("1", "\1", "1")), *[Row(None, None, unmatched)] * 3]


@pytest.mark.parametrize(
    ("parse", "path"),
    [
        (Parse("regex", pattern="no group"), "parse.pattern"),
        (Parse("regex", pattern="(?<open"), "parse.pattern"),
        (Parse("regex", pattern="(?<a>x)(?P<b>y)"), "parse.pattern"),
        (Parse("regex", pattern="(?x)(?<a>x) # (all of it)\n"), "parse.pattern"),
        (Parse("regex", pattern="(?<a>x)", schema="b INT"), "parse.schema"),
        (Parse("csv", schema="a INT", options={"maxColumns": "many"}), "parse.options.maxColumns"),
    ],
)
def test_regex_that_cannot_work_is_refused(spark: SparkSession, parse: Parse, path: str) -> None:
    """The error in the pattern comes before anything runs."""
    with pytest.raises(SpecError) as refused:
        parsed(records(spark), parse)
    assert refused.value.path == path


@pytest.mark.parametrize(
    ("value", "parse"),
    [
        ("text", Parse("text", max_bytes=4)),
        ("text", Parse("raw", max_bytes=4)),
        ('{"id": 1}', Parse("json", schema="id INT", max_bytes=9)),
        ("123", Parse("csv", schema="id INT", max_bytes=3)),
        ("123", Parse("regex", pattern="(?<id>.*)", max_bytes=3)),
    ],
    ids=["text", "raw", "json", "csv", "regex"],
)
def test_value_that_is_too_long_is_an_error(spark: SparkSession, value: str, parse: Parse) -> None:
    """For each format, where the specification limits it; a value of exactly that length is parsed, and null is not
    long.
    """
    rows = parsed(records(spark, value, f"{value} ", None), parse).select("_error", "_value").collect()

    told = f"longer than {len(value)} bytes"
    assert [row._error for row in rows][:2] == [None, told]
    assert rows[1]._value == f"{value} ".encode()
    assert rows[2]._error != told


@pytest.mark.parametrize(
    "group",
    [r"(?:\d|[^\d\x20])+", r"(?:\w|;)*", r"(?:\S{1,2}){1,}", r"(?:(?:\w)*;?)*"],
    ids=["or", "star", "times", "nested"],
)
def test_a_repeated_group_does_not_crash_java(spark: SparkSession, group: str) -> None:
    """A repeated group takes stack for each character: a value that exhausts it is an error, in all threads alike."""
    values = ["1;" * 16_384, "1;" * 16_384 + "1", "1;" * 500_000]

    rows = parsed(records(spark, *values), Parse("regex", pattern=f"^(?<all>{group})$")).select("all", "_error")

    assert rows.collect() == [Row(values[0], None), *[Row(None, "longer than 32768 bytes")] * 2]


def test_group_that_never_goes_back_takes_values_of_any_length(spark: SparkSession) -> None:
    """Escaped brackets, and those in a class, repeat no group either."""
    value = "(1;" * 400_000

    for pattern in (r"^(?<all>(?:[(]\d;)*+)$", r"^(?<all>[)*(\d;]+)$", r"^(?<all>\(+1;.*)$"):
        rows = parsed(records(spark, value), Parse("regex", pattern=pattern)).select("all", "_error").collect()
        assert rows == [Row(value, None)], pattern


def test_access_log_of_a_real_nginx_parses_whole(spark: SparkSession) -> None:
    """Every line of the recorded log, with a time."""
    lines = spark.read.text(str(EXAMPLE / "access.log")).collect()
    rows = parsed(records(spark, *(line.value for line in lines)), Parse("regex", preset="nginx_combined"))
    rows = with_event_time(rows, EventTime("time", "dd/MMM/yyyy:HH:mm:ss Z"))

    assert rows.where(
        "_error IS NULL AND time IS NOT NULL AND status IS NOT NULL AND bytes IS NOT NULL"
    ).count() == len(lines)


def test_an_invalid_request_is_still_a_row(spark: SparkSession) -> None:
    """nginx logs the bytes that were sent, and 400."""
    line = r'127.0.0.1 - - [21/Nov/2026:14:36:40 +0000] "\x16\x03\x01" 400 157 "-" "-"'

    rows = parsed(records(spark, line), Parse("regex", preset="nginx_combined"))

    assert rows.select("method", "status", "bytes", "_error").collect() == [Row("", 400, 157, None)]


def test_quotes_within_quotes_are_as_apaches_server_writes_them(spark: SparkSession) -> None:
    """A quote after a backslash is part of the field, anywhere; without one it ends the field. An unclosed field is
    invalid.
    """
    start = "127.0.0.1 - - [21/Nov/2026:14:36:40 +0000]"
    lines = [
        rf'{start} "GET /a\"b HTTP/1.1" 200 1 "http://x/\"" "say \"hi\" \\"',
        rf'{start} "\"GET\" /" 400 2 "-" "{"x" * 400_000}\""',
        rf'{start} "GET / HTTP/1.1" 200 3 "-" "open\"',
    ]

    rows = parsed(records(spark, *lines), Parse("regex", preset="nginx_combined"))

    assert rows.selectExpr("path", "bytes", "referer", "length(user_agent)", "_error IS NULL").collect() == [
        Row(r"/a\"b", 1, r"http://x/\"", 13, True),
        Row("", 2, "-", 400_002, True),
        Row(None, None, None, None, False),
    ]


def test_raw_values_are_bytes(spark: SparkSession) -> None:
    """The bytes of the value are unchanged."""
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
    """For values without a time."""
    rows = with_event_time(parsed(records(spark, "a"), Parse("text")), EventTime("_timestamp"))

    assert rows.where("_error IS NULL AND _timestamp IS NOT NULL").count() == 1


def test_value_without_a_time_is_an_error(spark: SparkSession) -> None:
    """The column exists, but its value is no time."""
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
def test_a_dead_letter_has_the_reason(spark: SparkSession, parse: Parse, bad: str, why: str) -> None:
    """A dead letter has reason and origin; key and value are unchanged."""
    rows = with_event_time(parsed(records(spark, bad), parse), EventTime("time"))

    [letter] = dead_letters(rows, 1_048_588).collect()
    assert (letter.key, letter.value) == (bad.encode(), bad.encode())
    headers = {header.key: bytes(header.value).decode() for header in letter.headers}
    assert headers == {"error": why, "topic": "t", "partition": "0", "offset": "0"}


def test_time_that_no_timestamp_reaches_is_an_error(spark: SparkSession) -> None:
    """In ISO 8601 and in a format; the first and last valid timestamps are times."""
    iso = ("0001-01-01T00:00:00Z", "+294247-01-10T04:00:54Z", "+294248-01-01T00:00:00Z", "999999999999-01-01T00:00:00Z")
    formatted = ("01/Jan/0001:00:00:00", "31/Dec/9999:23:59:59", "01/Jan/+999999:00:00:00", "31/Feb/2026:00:00:00")

    for values, format in ((iso, None), (formatted, "dd/MMM/yyyy:HH:mm:ss")):
        rows = with_event_time(parsed(records(spark, *values), Parse("text")), EventTime("value", format))
        assert [row[0] is None for row in rows.select("_error").collect()] == [True, True, False, False]


@pytest.mark.parametrize(
    ("key", "header", "value", "cut"),
    [
        (b"k", b"v", b"x" * 2800, None),
        (b"k", b"v", b"x" * 4000, "value of 4000 bytes"),
        (b"k" * 3000, b"v", b"x" * 2000, "key of 3000 bytes"),
        (b"k", b"v" * 4000, b"x", "headers of 4011 bytes"),
        (b"k" * 3000, b"v" * 3000, b"x" * 3000, "key of 3000 bytes, headers of 3011 bytes, value of 3000 bytes"),
        (b"k" * 4000, b"v", None, "key of 4000 bytes"),
    ],
)
def test_a_dead_letter_that_is_too_large_is_cut(
    spark: SparkSession, key: bytes, header: bytes, value: bytes | None, cut: str | None
) -> None:
    """So that it is no larger than its topic accepts; its headers say that it was cut."""
    schema = "_key BINARY, _value BINARY, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, _error STRING"
    row = spark.createDataFrame([(key, value, [("h", header)], "no")], schema)

    [letter] = dead_letters(row.selectExpr("*", "'t' AS _topic", "0 AS _partition", "0 AS _offset"), 4096).collect()

    headers = {header.key: bytes(header.value) for header in letter.headers}
    told = headers.pop("cut", None)
    assert (told.decode() if told is not None else None) == cut
    assert {"error": b"no", "topic": b"t", "partition": b"0", "offset": b"0"}.items() <= headers.items()
    parts = [bytes(letter.key), bytes(letter.value or b""), *map(str.encode, headers), *headers.values()]
    assert sum(map(len, parts)) <= 4096
    for whole, kept, name in ((key, letter.key, "key"), (value, letter.value, "value")):
        assert kept == whole or (name in (cut or "") and whole is not None and whole.startswith(bytes(kept)))
    assert headers.get("h") == (None if "headers" in (cut or "") else header)
