"""Errors of kafka-python, the second client library."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, NodeNotReadyError, TransactionalIdNotFoundError, UnknownBrokerIdError

from pybroker.cli.client import administration
from pybroker.cli.client.administration import Administration
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Session


def connected(monkeypatch: pytest.MonkeyPatch, method: Callable[..., Any]) -> Administration:
    """Return an administration whose client has this method under every name."""
    client = SimpleNamespace(
        describe=method, _manager=SimpleNamespace(send=None, run=lambda send, request, node: method())
    )
    monkeypatch.setattr(administration, "KafkaAdminClient", lambda **settings: client)
    session: Any = SimpleNamespace(properties={"bootstrap.servers": "a:1"}, timeout_s=5.0)
    return Administration(session)


def raising(error: Exception) -> Callable[..., Any]:
    def method(*arguments: object) -> None:
        raise error

    return method


@pytest.mark.parametrize(
    ("error", "expected", "code"),
    [
        (TransactionalIdNotFoundError("Request failed for 'x'."), "The transactionalId could not be found", 105),
        (KafkaTimeoutError("no\nanswer"), "no answer", None),
        (KafkaTimeoutError(), "KafkaTimeoutError", None),
        (NodeNotReadyError(2), "NodeNotReadyError 2", None),
    ],
)
def test_errors_are_one_line_with_their_object(
    monkeypatch: pytest.MonkeyPatch, error: Exception, expected: str, code: int | None
) -> None:
    """The meaning of the error code, else the library's message."""
    client = connected(monkeypatch, raising(error))
    with pytest.raises(CommandError) as asked:
        client.ask("describe", about="x")
    with pytest.raises(CommandError) as sent:
        client.send("request")
    assert (str(asked.value), str(sent.value)) == (f"x: {expected}", expected)
    assert asked.value.error_code == code


def test_unknown_broker_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have started after the client connected."""
    client, updates = connected(monkeypatch, raising(UnknownBrokerIdError(2))), []
    client._client._manager.cluster = SimpleNamespace(request_update=lambda: updates.append(1))
    with pytest.raises(CommandError, match="UnknownBrokerIdError 2"):
        client.send("request", 2)
    assert updates


@pytest.mark.parametrize(("message", "expected"), [("Invalid key.", "Invalid key"), ("", "Invalid request")])
def test_error_response_has_the_brokers_message(monkeypatch: pytest.MonkeyPatch, message: str, expected: str) -> None:
    """Without a message it has the meaning of the error code."""
    client = connected(monkeypatch, raising(AssertionError()))
    client.check(SimpleNamespace(error_code=0, error_message=None))
    with pytest.raises(CommandError, match=f"^user ann: {expected}"):
        client.check(SimpleNamespace(error_code=42, error_message=message), "user ann")


def test_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's Python alone does not suffice."""
    monkeypatch.setattr("pybroker.cli.client.session.find_spec", lambda name: None)
    nobody: Any = None
    with pytest.raises(CommandError, match="kafka-python"):
        Session.administration(nobody)
