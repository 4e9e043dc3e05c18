"""Addresses of brokers on a command line."""

from __future__ import annotations

import pytest

from pybroker.cli.client.addresses import check_addresses
from pybroker.cli.client.errors import UsageError
from pybroker.cli.topics import main


@pytest.mark.parametrize(
    "text",
    [
        "localhost:9092",
        "localhost",
        "10.0.0.1:1",
        "[::1]:9092",
        "[::1]",
        "a:1,b:65535",
        "a:1, b:2,",
        "SASL_SSL://a:1",
        "ssl://a:1/",
    ],
)
def test_addresses_of_brokers_are_accepted(text: str) -> None:
    check_addresses(text)


@pytest.mark.parametrize(
    "text",
    [
        "host:notaport",
        "host:70000",
        "host:0",
        "host:-1",
        "host:",
        ":9092",
        "host:9092:9092",
        "host:9092/",
        "::1:9092",
        "[::1]9092",
        "[::1]:",
        "[::1",
        "[host]:9092",
        "[]:9092",
        "my host:9092",
        "host:٩",
        "PLAINTEXT://:9092",
    ],
)
def test_other_texts_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_addresses(f"good:1,{text}")
    assert str(refused.value) == (
        f"{text!r} is not HOST:PORT, as in localhost:9092 or [::1]:9092; a port is 1 to 65535"
    )


def test_a_command_ends_with_its_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """At once, without an attempt to connect."""
    assert main(["list", "-b", "host:notaport"]) == 2
    assert capsys.readouterr().err == (
        "pybroker topics: 'host:notaport' is not HOST:PORT, as in localhost:9092 or [::1]:9092; a port is 1 to 65535\n"
    )
