"""A schema registry, asked over HTTP."""

from __future__ import annotations

import io
import json
import math
import struct
from email.message import Message
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request

import pytest

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.registry import Registry

NAME = {"schema": json.dumps({"type": "record", "name": "a.Name", "fields": [{"name": "n", "type": "string"}]})}
USER = {
    "schema": json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "a.Name"}]}),
    "references": [{"name": "a.Name", "subject": "names/x", "version": 2}],
}
ANSWERS: dict[str, object] = {
    "/schemas/ids/1": {"schema": '"string"'},
    "/schemas/ids/2": USER,
    "/schemas/ids/3": {"schema": "{}", "schemaType": "JSON"},
    "/schemas/ids/4": {"schema": "", "schemaType": "PROTOBUF"},
    "/schemas/ids/5": {"schema": "{"},
    "/schemas/ids/7": {"schema": '"string"', "references": [{}]},
    "/schemas/ids/8": {"schema": '"string"', "references": 8},
    "/schemas/ids/9": {"no": "schema"},
    "/schemas/ids/11": {"schema": '{"type": "array", "items": "double"}'},
    "/schemas/ids/10": HTTPError("", 401, "Unauthorized", Message(), None),
    "/subjects/names%2Fx/versions/2": NAME,
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Record the request and answer it from ANSWERS."""
    requests: list[Request] = []

    def answer(request: Request, timeout: float) -> Any:
        requests.append(request)
        path = request.full_url.removeprefix("http://registry:8081")
        if path not in ANSWERS:
            raise HTTPError(request.full_url, 404, "Not Found", Message(), None)
        found = ANSWERS[path]
        if isinstance(found, HTTPError):
            raise found
        return io.BytesIO(json.dumps(found).encode())

    monkeypatch.setattr("pybroker.schema_registry._opener", lambda: SimpleNamespace(open=answer))
    return requests


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def test_values_are_decoded_to_json(asked: list[Request]) -> None:
    """Avro, with schema references, and JSON. Each schema is requested once, with the URL's password."""
    registry = Registry("http://ann:se%20cret@registry:8081/", 1)
    assert registry.text(framed(1, b"\x02a")) == b'"a"'
    assert registry.text(framed(1, b"\x02b")) == b'"b"'
    assert registry.text(framed(2, b"\x02c")) == b'{"name": {"n": "c"}}'
    assert registry.text(framed(3, b'{"a":1}')) == b'{"a": 1}'
    assert [each.full_url.partition("8081")[2] for each in asked] == [
        "/schemas/ids/1",
        "/schemas/ids/2",
        "/subjects/names%2Fx/versions/2",
        "/schemas/ids/3",
    ]
    assert asked[0].get_header("Authorization") == "Basic YW5uOnNlIGNyZXQ="


def test_values_without_a_json_form(asked: list[Request]) -> None:
    """Non-finite numbers have their names, as in Avro's JSON. Half of a surrogate pair is escaped."""
    registry = Registry("http://registry:8081", 1)
    numbers = struct.pack("<4d", math.nan, math.inf, -math.inf, 0.5)
    assert registry.text(framed(11, b"\x08" + numbers + b"\0")) == b'["NaN", "Infinity", "-Infinity", 0.5]'
    assert registry.text(framed(3, b'{"a": [NaN, 1e400]}')) == b'{"a": ["NaN", "Infinity"]}'
    assert registry.text(framed(3, b'"\\ud800 \xc3\xa4"')) == b'"\\ud800 \xc3\xa4"'


@pytest.mark.parametrize("data", [b"", b"\0abc", b"plain text"])
def test_value_without_schema_id_is_unchanged(asked: list[Request], data: bytes) -> None:
    """The registry gets no request."""
    assert Registry("http://registry:8081", 1).text(data) is None
    assert asked == []


def test_unknown_schema_id_is_reported_once(asked: list[Request], capsys: pytest.CaptureFixture[str]) -> None:
    """Values may start with a zero byte by chance; they are printed unchanged."""
    registry = Registry("http://registry:8081", 1)
    assert [registry.text(framed(number, b"x")) for number in (6, 6, 66)] == [None] * 3
    assert len(asked) == 2
    assert capsys.readouterr().err == (
        "http://registry:8081/schemas/ids/6: 404 Not Found: such values are shown as they are\n"
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (framed(1, b"\x04a"), "schema 1: truncated: expected 2 bytes at 1, the data has 2"),
        (framed(3, b"{"), "schema 3: "),
        (framed(4, b""), "schema 4 is PROTOBUF: only AVRO and JSON are read"),
        (framed(5, b""), "schema 5: "),
        (framed(7, b""), "schema 7: it refers to something that has no subject and version"),
        (framed(8, b""), "schema 8: it refers to something that has no subject and version"),
        (framed(9, b""), "http://registry:8081/schemas/ids/9: the answer is not a schema"),
        (framed(10, b""), "http://registry:8081/schemas/ids/10: 401 Unauthorized"),
    ],
)
def test_errors_are_one_line(asked: list[Request], data: bytes, expected: str) -> None:
    """Errors in the value, the schema, and the registry's response."""
    with pytest.raises(CommandError) as raised:
        Registry("http://registry:8081", 1).text(data)
    assert str(raised.value).startswith(expected)


def test_unreachable_registry_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(request: Request, timeout: float) -> None:
        raise URLError("refused")

    monkeypatch.setattr("pybroker.schema_registry._opener", lambda: SimpleNamespace(open=refuse))
    with pytest.raises(CommandError, match="http://registry:8081/schemas/ids/1: refused"):
        Registry("http://registry:8081", 1).text(framed(1, b""))
    for url in ("registry:8081", "http://registry:abc", "http://registry:99999", "http://[registry"):
        with pytest.raises(UsageError, match="is not a URL"):
            Registry(url, 1)
