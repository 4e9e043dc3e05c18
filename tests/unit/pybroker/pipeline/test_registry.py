"""Responses of a schema registry, valid and invalid, without a port."""

from __future__ import annotations

import io
import json
from http.client import IncompleteRead
from urllib.error import URLError
from urllib.request import Request

import pytest

from pybroker import schema_registry
from pybroker.pipeline.registry import schemas_of
from pybroker.schema_registry import RegistryError

FIRST = {"id": 7, "version": 1, "schema": '{"type": "record"}'}
SECOND = {"id": 3, "version": 2, "schema": '"string"', "schemaType": "AVRO"}


class Registry:
    """Answers by path, and records the requests."""

    def __init__(self, **answers: object) -> None:
        versions = [FIRST, SECOND]
        self.answers: dict[str, object] = {"": [1, 2], **{f"/{each['version']}": each for each in versions}, **answers}
        self.asked: list[Request] = []

    def open(self, request: Request, timeout: float) -> io.BytesIO:
        self.asked.append(request)
        answer = self.answers[request.full_url.partition("/versions")[2]]
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer if isinstance(answer, bytes) else json.dumps(answer).encode())


def test_versions_of_a_subject_have_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest is last. Credentials in the URL are sent but not shown."""
    one = Registry()
    monkeypatch.setattr(schema_registry, "_opener", lambda: one)

    assert list(schemas_of("http://ann:p%40ss@r:8081/", "a/b").items()) == [(7, FIRST["schema"]), (3, '"string"')]
    assert one.asked[0].full_url == "http://r:8081/subjects/a%2Fb/versions"
    assert one.asked[0].get_header("Authorization") == "Basic YW5uOnBAc3M="


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"": URLError(ConnectionRefusedError(111, "Connection refused"))}, "versions: .*Connection refused"),
        ({"": b"<html>"}, "http://r/subjects/s/versions: Expecting value"),
        ({"": []}, "there are no versions of s"),
        ({"": {"error_code": 40401}}, "there are no versions of s"),
        ({"": IncompleteRead(b"")}, "versions: IncompleteRead"),
        ({"/2": {**SECOND, "id": "x"}}, "version 2 of s has no id and schema"),
        ({"/2": {"id": 1}}, "version 2 of s has no id and schema"),
        ({"/2": {**SECOND, "schemaType": "PROTOBUF"}}, "version 2 of s is PROTOBUF, not Avro"),
        ({"/2": {**SECOND, "references": [{"name": "x"}]}}, "version 2 of s refers to other subjects"),
    ],
)
def test_invalid_response_is_one_line(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, object], message: str
) -> None:
    monkeypatch.setattr(schema_registry, "_opener", lambda: Registry(**answers))

    with pytest.raises(RegistryError, match=message) as refused:
        schemas_of("http://r", "s")
    assert "\n" not in str(refused.value)


def test_invalid_address_is_an_error() -> None:
    with pytest.raises(RegistryError, match="is not an address"):
        schemas_of("http://ann:secret@r:abc", "s")
