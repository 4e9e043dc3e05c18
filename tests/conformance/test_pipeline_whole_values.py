"""A record is one value: what follows it is an error, in each of the pipeline's formats. Spark would ignore it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from pyspark.sql import Row, SparkSession

from pybroker.pipeline.parse import parsed
from pybroker.pipeline.spec import Parse
from tests.conformance.test_pipeline_avro import ANN, BOB, NEWER, NO_AVRO, ORDER, headed
from tests.conformance.test_pipeline_avro import records as binary_records
from tests.conformance.test_pipeline_parse import records

ONE, TWO = '{"id": 1, "name": "a"}', '{"id": 2, "name": "b"}'
BEHIND_JSON = [
    *(
        TWO,
        f" {TWO}",
        f"\n{TWO}",
        f",{TWO}",
        f", {TWO}",
        f"\0{TWO}",
        "null",
        " null",
        "x",
        ",",
        ";",
        "\0",
        "\x1e",
        "}",
        "]",
    ),
    *("}garbage", "]garbage", ",null", "],[", "]}", "]}]}", "{", "[", '"', "/", "//", "/*", "1", "}{", ",1", "\ufeff"),
    *(f'],"rows":[{TWO}', f'],"x":[{TWO}', f'}},"x":{{{TWO[1:]}', f"]}}\n{TWO}", ',{"end":true}', ',{"_end":true}]}'),
]


def json_rows(spark: SparkSession, values: Sequence[str], **options: str) -> list[Row]:
    parse = Parse("json", schema="id INT, name STRING", options=options)
    return parsed(records(spark, *values), parse).select("id", "name", "_error").collect()


def test_json_document_has_nothing_behind_it(spark: SparkSession) -> None:
    """Another document, or anything else but blanks."""
    rows = json_rows(spark, [ONE + behind for behind in BEHIND_JSON])
    assert [behind for behind, row in zip(BEHIND_JSON, rows, strict=True) if row._error is None] == []
    assert set(rows) == {Row(None, None, "no JSON of this schema")}


@pytest.mark.parametrize("options", [{}, {"allowComments": "true"}, {"primitivesAsString": "true"}])
def test_blanks_around_a_json_document_are_allowed(spark: SparkSession, options: dict[str, str]) -> None:
    values = [
        before + ONE + behind for before in ("", "\n", " \t") for behind in ("", " ", "\n", "\r\n", "\r", "\t\n ")
    ]
    assert set(json_rows(spark, values, **options)) == {Row(1, "a", None)}


def test_comments_around_a_json_document(spark: SparkSession) -> None:
    """An option of Spark's. A comment to the end of the value hides nothing."""
    values = [f"{ONE} // more", f"{ONE} /* more */", f"/* first */ {ONE}", f"{ONE} // more\n{TWO}", f"{ONE} /* open"]
    found = json_rows(spark, values, allowComments="true")
    assert [row.id for row in found] == [1, 1, 1, None, None]


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "\n",
        "null",
        "1",
        '"a"',
        "[]",
        f"[{ONE}]",
        f"[{ONE},{TWO}]",
        "{",
        "\ufeff" + ONE,
        '{"id": 01}',
        '{"id": +1}',
        '{"name": "a\nb"}',
        '{"id": 1,}',
        '{"id": 1 "name": "a"}',
    ],
)
def test_values_that_are_no_json_object(spark: SparkSession, value: str) -> None:
    assert json_rows(spark, [value]) == [Row(None, None, "no JSON of this schema")]


def test_json_within_a_document_is_read_as_before(spark: SparkSession) -> None:
    """Nested fields, names in their own case, missing fields, and the last of two equal names."""
    schema = "a STRUCT<b: ARRAY<STRUCT<c: INT>>>, m MAP<STRING, STRING>, _corrupt STRING, `x y` DOUBLE"
    values = [
        '{"a": {"b": [{"c": 1}, {"c": 2}]}, "m": {"k": "v"}, "_corrupt": "no", "x y": 1.5, "more": [1]}',
        "{}",
        '{"x y": 1, "x y": 2, "A": 3}',
        '{"a": {"b": [{"c": "no"}]}}',
        '{"a": {"b": [{"c": 1} {"c": 2}]}}',
    ]
    rows = parsed(records(spark, *values), Parse("json", schema=schema)).select("a", "m", "_corrupt", "`x y`", "_error")
    empty, error = (None, None, None), "no JSON of this schema"
    assert [tuple(row) for row in rows.collect()] == [
        (Row(b=[Row(c=1), Row(c=2)]), {"k": "v"}, "no", 1.5, None),
        (*empty, None, None),
        (*empty, 2.0, None),
        *[(*empty, None, error)] * 2,
    ]


@pytest.mark.parametrize("options", [{}, {"lineSep": "|"}, {"lineSep": "\n"}, {"comment": "#"}])
def test_csv_is_one_line(spark: SparkSession, options: dict[str, str]) -> None:
    """Line ends belong to a field, so nothing is lost. U+FFFF ends a line for Spark."""
    good = {
        "1,a": "a",
        "1,a\n": "a\n",
        "1,a\r\n": "a\r\n",
        "1,a\nb": "a\nb",
        "1,a\n#": "a\n#",
        "1,a|b": "a|b",
        '"1","a"': "a",
        '1,"a\nb"': "a\nb",
        '1,"a\n2,b"': "a\n2,b",
        '1,"a\n2,b': "a\n2,b",
    }
    bad = [
        "1,a\n2,b",
        "1,a\r\n2,b",
        "1,a\r2,b",
        "1,a\n\n2,b",
        '1,"a"\n2,"b"',
        "1,a|2,b",
        "1,a\uffff2,b",
        "1,a\uffff",
        "\n1,a",
    ]
    parse = Parse("csv", schema="id INT, name STRING", options=options)
    rows = parsed(records(spark, *good, *bad), parse).select("id", "name", "_error").collect()
    assert rows[: len(good)] == [Row(1, name, None) for name in good.values()]
    assert {row._error for row in rows[len(good) :]} == {"no CSV of this schema"}


def test_csv_of_one_field_is_one_line(spark: SparkSession) -> None:
    rows = parsed(records(spark, "1", "1\n2", "1\uffff2", ""), Parse("csv", schema="id INT")).select("id", "_error")
    assert rows.collect() == [Row(1, None), *[Row(None, "no CSV of this schema")] * 2, Row(None, None)]


def test_avro_value_has_nothing_behind_it(spark: SparkSession) -> None:
    """Also zero bytes, which would end an array of values, and another value."""
    behind = [b"\0", b"\0\0", b"\0more", b"\2", ANN, b"\2" + ANN, b"\2" + ANN + b"\0", b"\0" + ANN, b"more", b"\1" * 40]
    for head, framing in ((b"", None), (headed(7, b""), "confluent")):
        parse = Parse("avro", schema=json.dumps(ORDER), framing=framing)  # type: ignore[arg-type]
        values = [head + ANN, *(head + ANN + each for each in behind), head + ANN[:-1], head]
        rows = parsed(binary_records(spark, *values), parse).select("id", "who", "_error").collect()
        assert rows == [Row(1, "ann", None), *[Row(None, None, NO_AVRO)] * (len(values) - 1)]


def test_avro_value_of_a_longer_schema_is_not_of_a_shorter_one(spark: SparkSession) -> None:
    """Its beginning would be."""
    for schema, found in ((ORDER, [1, None]), (NEWER, [None, -1])):
        rows = parsed(binary_records(spark, ANN, BOB), Parse("avro", schema=json.dumps(schema))).select("id").collect()
        assert [row.id for row in rows] == found


def test_avro_names_may_be_any(spark: SparkSession) -> None:
    """A namespace, a named type that is used again, and fields with the names of those around a value."""
    schema = {
        "type": "record",
        "name": "Order",
        "namespace": "a.b",
        "fields": [
            {"name": "end", "type": {"type": "fixed", "name": "F", "size": 1}},
            {"name": "value", "type": ["null", "F"]},
        ],
    }
    rows = parsed(binary_records(spark, b"x\2y", b"x\0", b"x\2"), Parse("avro", schema=json.dumps(schema)))
    assert [tuple(row) for row in rows.select("end", "value", "_error").collect()] == [
        (b"x", b"y", None),
        (b"x", None, None),
        (None, None, NO_AVRO),
    ]


def test_access_log_value_is_one_line(spark: SparkSession) -> None:
    """More fields on the line are allowed, as for any regular expression."""
    line = '127.0.0.1 - - [21/Nov/2026:14:36:40 +0000] "GET / HTTP/1.1" 200 1 "-" "curl"'
    values = [
        line,
        f"{line}\n",
        f"{line}\r\n\n",
        f"{line} 0.1 x",
        f"{line}\n{line}",
        f"{line} 0.1\r\n{line}",
        f"{line}\n\nx",
    ]
    rows = parsed(records(spark, *values), Parse("regex", preset="nginx_combined")).select("status", "_error").collect()
    assert rows == [*[Row(200, None)] * 4, *[Row(None, "no match of the pattern")] * 3]


@pytest.mark.parametrize("kind", ["text", "raw"])
def test_text_and_raw_are_the_whole_value(spark: SparkSession, kind: str) -> None:
    value = f"{ONE}\n{TWO}\0\0"
    parse = Parse(kind)  # type: ignore[arg-type]
    (row,) = parsed(records(spark, value), parse).select("value", "_error").collect()
    assert tuple(row) == (value if kind == "text" else value.encode(), None)
