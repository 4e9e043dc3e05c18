"""The data pipeline's Avro, on Spark: by a schema, after Confluent's header, and by the ids of a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from pybroker.pipeline.parse import parsed
from pybroker.pipeline.plan import plan
from pybroker.pipeline.spec import Parse, SpecError
from pybroker.schema_registry import RegistryError
from tests.support.brokers import HOST
from tests.support.http_server import http_server
from tests.support.ports import free_port
from tests.support.specifications import document, loaded

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "who", "type": "string"}],
}
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "paid", "type": ["null", "boolean"], "default": None}]}
OTHER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}

#: id 1, who ann; and of the newer schema: id -1, who bob, paid
ANN, BOB = b"\x02\x06ann", b"\x01\x06bob\x02\x01"
NO_AVRO, NO_HEAD = "no Avro of this schema", "no Confluent wire format"


def headed(number: int, value: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + value


def records(spark: SparkSession, *values: bytes | None) -> DataFrame:
    """Return rows as Spark's Kafka source does."""
    rows = [(value, offset) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, "value BINARY, offset BIGINT").selectExpr(
        "value", "'t' AS topic", "0 AS partition", "offset", "current_timestamp() AS timestamp", "value AS key",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
    )  # fmt: skip


def test_value_of_the_schema_is_columns(spark: SparkSession) -> None:
    """Truncated values, longer ones, values of another schema, and null have an error instead."""
    rows = parsed(
        records(spark, ANN, ANN[:-1], ANN + b"more", b"{}", b"", None), Parse("avro", schema=json.dumps(ORDER))
    )

    assert rows.columns[:2] == ["id", "who"]
    assert rows.select("id", "who", "_error").collect() == [Row(1, "ann", None), *[Row(None, None, NO_AVRO)] * 5]


def test_head_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    """For any id; the schema is in a file."""
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    parse = Parse("avro", schema_file=str(tmp_path / "order.avsc"), framing="confluent")

    rows = parsed(records(spark, headed(77, ANN), ANN, b"\0\0", headed(77, b"x"), None), parse)

    assert [tuple(row) for row in rows.select("id", "_error").collect()] == [
        *((1, None), (None, NO_HEAD), (None, NO_HEAD), (None, NO_AVRO), (None, NO_HEAD)),
    ]


@pytest.fixture
def registry() -> Iterator[str]:
    """Run a registry with a subject of two versions, and one with incompatible versions; yield its address."""
    versions = {"orders": {1: (7, ORDER), 2: (300, NEWER)}, "strange": {1: (7, ORDER), 2: (8, OTHER)}}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, _, subject, _, *version = self.path.split("/")
            found = versions.get(subject)
            if found is None:
                self.send_error(404)
                return
            number, schema = found[int(version[0])] if version else (0, {})
            told = {"id": number, "schema": json.dumps(schema)} if version else list(found)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

    with http_server(Handler) as address:
        yield address


def test_each_value_is_read_by_the_schema_of_its_id(spark: SparkSession, registry: str) -> None:
    """The columns are the newest version's; an id of another subject is an error."""
    values = (headed(7, ANN), headed(300, BOB), headed(300, ANN), headed(8, ANN), ANN, None)

    rows = parsed(records(spark, *values), Parse("avro", registry=registry, subject="orders"))

    assert rows.select("id", "who", "paid", "_error").collect() == [
        Row(1, "ann", None, None),
        Row(-1, "bob", True, None),
        Row(None, None, None, NO_AVRO),
        Row(None, None, None, "no schema of the id 8 in orders"),
        Row(None, None, None, NO_HEAD),
        Row(None, None, None, NO_HEAD),
    ]
    older = parsed(
        records(spark, *values[:2]), Parse("avro", schema=json.dumps(ORDER), registry=registry, subject="orders")
    )
    assert older.columns[:3] == ["id", "who", "_topic"]
    assert older.select("id", "who").collect() == [Row(1, "ann"), Row(-1, "bob")]


def test_an_unavailable_schema_is_reported(spark: SparkSession, registry: str, tmp_path: Path) -> None:
    """With the key, in a line, before anything is read; also for an unreachable registry, or an unknown subject."""
    for parse, path, problem in (
        (Parse("avro", schema="{"), "parse.schema", "is not JSON"),
        (Parse("avro", schema='"string"'), "parse.schema", "is not the schema of a record"),
        (
            Parse("avro", schema='{"type": "record", "name": "n", "fields": [{"name": "a", "type": "x"}]}'),
            "parse.schema",
            "x",
        ),
        (Parse("avro", schema_file=f"{tmp_path}/none"), "parse.schema_file", "No such file"),
    ):
        with pytest.raises(SpecError) as refused:
            parsed(records(spark), parse)
        assert refused.value.path == path
        assert problem in refused.value.problem
        assert "\n" not in refused.value.problem
    for address, problem in ((registry, "404"), (f"http://{HOST}:{free_port()}", "refused")):
        with pytest.raises(RegistryError, match=problem):
            parsed(records(spark), Parse("avro", registry=address, subject="nothing"))
    parse = {"format": "avro", "registry": registry, "subject": "nothing"}
    told = rf"^sources\.s\.parse\.registry: {registry}/subjects/nothing/versions: 404"
    with pytest.raises(RegistryError, match=told):
        plan(spark, loaded(tmp_path, document(sources={"s": {"topics": ["t"], "parse": parse}})))
