"""A registry of schemas, asked over HTTP."""

from __future__ import annotations

import io
import json
from email.message import Message
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
ANSWERS = {
    "/schemas/ids/1": {"schema": '"string"'},
    "/schemas/ids/2": USER,
    "/schemas/ids/3": {"schema": "{}", "schemaType": "JSON"},
    "/schemas/ids/4": {"schema": "", "schemaType": "PROTOBUF"},
    "/schemas/ids/5": {"schema": "{"},
    "/subjects/names%2Fx/versions/2": NAME,
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What is asked; answered from ANSWERS."""
    requests: list[Request] = []

    def answer(request: Request, timeout: float) -> Any:
        requests.append(request)
        path = request.full_url.removeprefix("http://registry:8081")
        if path not in ANSWERS:
            raise HTTPError(request.full_url, 404, "Not Found", Message(), None)
        return io.BytesIO(json.dumps(ANSWERS[path]).encode())

    monkeypatch.setattr("pybroker.cli.client.registry.urlopen", answer)
    return requests


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def test_values_are_json(asked: list[Request]) -> None:
    """Avro, with schemas that refer to others, and JSON; a schema is asked for once, with the password in the URL."""
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


@pytest.mark.parametrize("data", [b"", b"\0abc", b"plain text"])
def test_value_without_a_schema(asked: list[Request], data: bytes) -> None:
    """It is left as it is, and nobody is asked."""
    assert Registry("http://registry:8081", 1).text(data) is None
    assert asked == []


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (framed(1, b"\x04a"), "schema 1: 2 bytes are due at 1 of 2"),
        (framed(3, b"{"), "schema 3: "),
        (framed(4, b""), "schema 4 is PROTOBUF: only AVRO and JSON are read"),
        (framed(5, b""), "schema 5: "),
        (framed(6, b""), "http://registry:8081/schemas/ids/6: 404 Not Found"),
    ],
)
def test_what_is_wrong_is_one_line(asked: list[Request], data: bytes, told: str) -> None:
    """Of the value, of the schema, of the registry."""
    with pytest.raises(CommandError) as raised:
        Registry("http://registry:8081", 1).text(data)
    assert str(raised.value).startswith(told)


def test_registry_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a URL that is none."""

    def refuse(request: Request, timeout: float) -> None:
        raise URLError("refused")

    monkeypatch.setattr("pybroker.cli.client.registry.urlopen", refuse)
    with pytest.raises(CommandError, match="http://registry:8081: refused"):
        Registry("http://registry:8081", 1).text(framed(1, b""))
    with pytest.raises(UsageError, match="is no URL"):
        Registry("registry:8081", 1)
