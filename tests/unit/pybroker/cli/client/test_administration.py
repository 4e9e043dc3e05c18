"""The second client library."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, TransactionalIdNotFoundError

from pybroker.cli.client import administration
from pybroker.cli.client.administration import Administration
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Session


def connected(monkeypatch: pytest.MonkeyPatch, method: Callable[..., Any]) -> Administration:
    """One whose client has this method for everything."""
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
    ("error", "told", "code"),
    [
        (TransactionalIdNotFoundError("Request failed for 'x'."), "The transactionalId could not be found", 105),
        (KafkaTimeoutError("no\nanswer"), "no answer", None),
        (KafkaTimeoutError(), "KafkaTimeoutError", None),
    ],
)
def test_failure_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, told: str, code: int | None) -> None:
    """What an error code means, else what the library says; and what it is about."""
    client = connected(monkeypatch, raising(error))
    with pytest.raises(CommandError) as asked:
        client.ask("describe", about="x")
    with pytest.raises(CommandError) as sent:
        client.send("request")
    assert (str(asked.value), str(sent.value)) == (f"x: {told}", told)
    assert asked.value.error_code == code


@pytest.mark.parametrize(("message", "told"), [("Invalid key.", "Invalid key"), ("", "Invalid request")])
def test_answer_that_is_an_error(monkeypatch: pytest.MonkeyPatch, message: str, told: str) -> None:
    """In the broker's words, if it has any, or in those of its code."""
    client = connected(monkeypatch, raising(AssertionError()))
    client.check(SimpleNamespace(error_code=0, error_message=None))
    with pytest.raises(CommandError, match=f"^user ann: {told}"):
        client.check(SimpleNamespace(error_code=42, error_message=message), "user ann")


def test_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, where only the first one is there."""
    monkeypatch.setattr("pybroker.cli.client.session.find_spec", lambda name: None)
    nobody: Any = None
    with pytest.raises(CommandError, match="kafka-python"):
        Session.administration(nobody)
