"""`pybroker acls`: removals that would be broader than intended."""

from __future__ import annotations

from typing import cast

import pytest

from pybroker.cli.acls import command_line, entries_of
from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.session import Session


@pytest.mark.parametrize("action", ["list", "add", "remove"])
@pytest.mark.parametrize(
    "option", ["--topic", "--group", "--transactional-id", "--allow-principal", "--deny-principal"]
)
def test_empty_option_values_are_rejected(action: str, option: str) -> None:
    """With an unset variable, `remove --allow-principal "$WHO" --topic orders` must not match all principals."""
    other = "User:ann" if option in ("--topic", "--group", "--transactional-id") else "orders"
    words = ["--allow-principal", other] if other == "User:ann" else ["--topic", other]
    options = command_line().parse([action, option, "", *words, "--operation", "read"])
    with pytest.raises(UsageError, match=f"{option}: which one"):
        options.run(cast(Session, None), options)


def test_removal_needs_a_resource_or_principal() -> None:
    """An operation or a host alone does not suffice."""
    for words in ([], ["--operation", "read"], ["--host", "10.0.0.1"]):
        options = command_line().parse(["remove", *words])
        with pytest.raises(UsageError, match="of which resource or principal"):
            options.run(cast(Session, None), options)


@pytest.mark.parametrize(
    ("line", "entries"),
    [
        ("--topic a --operation read --operation Write", ["topic a read", "topic a write"]),
        (
            "--topic a --topic b --group g --operation describe",
            ["topic a describe", "topic b describe", "group g describe"],
        ),
        ("--cluster --operation IdempotentWrite", ["cluster kafka-cluster idempotent-write"]),
        (
            "--producer --topic a --transactional-id t",
            [
                "topic a write",
                "topic a describe",
                "topic a create",
                "transactional_id t write",
                "transactional_id t describe",
            ],
        ),
        ("--consumer --topic a --group g", ["topic a read", "topic a describe", "group g read"]),
        (
            "--consumer --producer --topic a --group g",
            ["topic a write", "topic a describe", "topic a create", "topic a read", "group g read"],
        ),
        ("--topic a", []),
    ],
)
def test_entries_equal_those_of_kafka_acls(line: str, entries: list[str]) -> None:
    """One for each resource and operation, or those of --producer and --consumer."""
    options = command_line().parse(["add", "--allow-principal", "User:a", *line.split()])
    assert sorted(" ".join(each) for each in entries_of(options)) == sorted(entries)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--producer --group g", "--producer: of which topic"),
        ("--consumer --cluster", "--consumer: of which topic and group"),
        ("--consumer --topic a --group g --operation read", "--operation: --consumer says which"),
    ],
)
@pytest.mark.parametrize("action", ["add", "remove"])
def test_client_entries_need_their_resources(action: str, line: str, expected: str) -> None:
    options = command_line().parse([action, "--allow-principal", "User:a", *line.split()])
    with pytest.raises(UsageError, match=expected):
        options.run(cast(Session, None), options)
