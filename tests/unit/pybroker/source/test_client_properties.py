"""Properties of Kafka's clients: used, ignored without effect, or rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.source.client_properties import HONOURED, read_client_properties
from pybroker.source.errors import UnusableOption

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "spark.md"
SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize("name", HONOURED)
def test_used_properties_are_kept_and_documented(name: str) -> None:
    assert read_client_properties({**SERVERS, f"kafka.{name}": "something", "topic": "orders"})[name] == "something"
    assert f"`kafka.{name}`" in PAGE.read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fetch.max.bytes", "1"),
        ("linger.ms", "5"),
        ("retries", "0"),
        ("acks", "all"),
        ("acks", "-1"),
        ("enable.idempotence", "TRUE"),
        (
            "sasl.login.callback.handler.class",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        ),
    ],
)
def test_properties_without_effect_on_rows_are_ignored(name: str, value: str) -> None:
    assert read_client_properties({**SERVERS, f"kafka.{name}": value}) == {"bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize(
    "name",
    [
        "isolation.levle",
        "transactional.id",
        "sasl.kerberos.service.name",
        "ssl.cipher.suites",
        "ssl.engine.factory.class",
    ],
)
def test_unsupported_properties_are_rejected(name: str) -> None:
    """Ignored properties could read rows uncommitted, write without a transaction, or send unencrypted."""
    with pytest.raises(UnusableOption, match=rf"'kafka\.{name}'.*isolation\.level") as refused:
        read_client_properties({**SERVERS, f"kafka.{name}": "hidden"})
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"), [("acks", "1"), ("enable.idempotence", "false"), ("sasl.login.callback.handler.class", "mine")]
)
def test_fixed_properties_must_not_be_changed(name: str, value: str) -> None:
    with pytest.raises(UnusableOption, match=f"kafka.{name}: '{value}' is not supported"):
        read_client_properties({**SERVERS, f"kafka.{name}": value})
