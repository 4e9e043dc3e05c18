"""`pybroker quotas`: entities and changes."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.cli import quotas


class Broker:
    """Replaces a client: records requests and answers with these entries."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.entries: list[Any] = []

    def send(self, request: Any) -> Any:
        self.sent.append(request)
        return SimpleNamespace(error_code=0, entries=self.entries)

    def check(self, answer: Any, about: str = "") -> None:
        assert answer.error_code == 0


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    session = SimpleNamespace(administration=lambda: nullcontext(made))
    monkeypatch.setattr("pybroker.cli.client.session.Session", lambda options: session)
    return made


def test_entity_has_names_and_defaults(broker: Broker) -> None:
    """A default is a null name."""
    assert quotas.main(["set", "--user", "shop", "--client-defaults", "producer_byte_rate=7.5"]) == 0
    (request,) = broker.sent
    (entry,) = request.entries
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("user", "shop"), ("client-id", None)]
    assert [(each.key, each.value, each.remove) for each in entry.ops] == [("producer_byte_rate", 7.5, False)]
    assert not request.validate_only


def test_list_filters_by_the_named_parts(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """By name or default. Other parts may be present."""
    broker.entries = [
        SimpleNamespace(
            entity=[SimpleNamespace(entity_type="ip", entity_name=None)],
            values=[SimpleNamespace(key="connection_creation_rate", value=20.0)],
        )
    ]
    assert quotas.main(["list", "--json", "--user", "shop", "--client-defaults"]) == 0
    (request,) = broker.sent
    asked = [(each.entity_type, each.match_type, each.match) for each in request.components]
    assert asked == [("user", 0, "shop"), ("client-id", 1, None)]
    assert not request.strict
    row = {"user": None, "client": None, "ip": "<default>", "key": "connection_creation_rate", "value": 20}
    assert json.loads(capsys.readouterr().out) == row


def test_delete_reads_the_existing_quotas(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """Of exactly that entity, and deletes all of them."""
    broker.entries = [
        SimpleNamespace(
            error_code=0,
            entity=[SimpleNamespace(entity_type="user", entity_name="shop")],
            values=[SimpleNamespace(key=key, value=1.0) for key in ("producer_byte_rate", "consumer_byte_rate")],
        )
    ]
    assert quotas.main(["delete", "--user", "shop"]) == 0
    described, altered = broker.sent
    assert described.strict
    ops = [(each.key, each.remove) for each in altered.entries[0].ops]
    assert ops == [("consumer_byte_rate", True), ("producer_byte_rate", True)]
    assert (
        capsys.readouterr().out
        == "user shop: consumer_byte_rate was removed\nuser shop: producer_byte_rate was removed\n"
    )


@pytest.mark.parametrize("text", ["rate=much", "rate=nan", "rate=inf", "rate=", "rate"])
def test_quota_has_to_be_a_number(text: str) -> None:
    """It is checked before a request is sent."""
    with pytest.raises(argparse.ArgumentTypeError):
        quotas._quota(text)


def test_quotas_are_parsed_as_by_kafka_configs() -> None:
    """Separated by commas."""
    line = "set --user a --add-config producer_byte_rate=1,consumer_byte_rate=2.5 --add-config request_percentage=3"
    options = quotas.command_line().parse(line.split())
    assert options.add_config == [("producer_byte_rate", 1), ("consumer_byte_rate", 2.5), ("request_percentage", 3)]
    line = "delete --user a --delete-config producer_byte_rate,consumer_byte_rate"
    assert quotas.command_line().parse(line.split()).delete_config == ["producer_byte_rate", "consumer_byte_rate"]
