"""`pybroker acls`: removals that would be broader than intended."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import cast

import pytest

from pybroker.cli.acls import command_line, filters_of, operations_of
from pybroker.cli.client import acl_entries
from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.session import Session
from security import acl


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
                "transactional-id t write",
                "transactional-id t describe",
            ],
        ),
        ("--consumer --topic a --group g", ["topic a read", "topic a describe", "group g read"]),
        (
            "--consumer --producer --topic a --group g",
            ["topic a write", "topic a describe", "topic a create", "topic a read", "group g read"],
        ),
        ("--topic a", ["topic a all"]),
        ("--user-principal User:b --operation createtokens", ["user User:b create-tokens"]),
        ("--delegation-token t --operation Describe", ["delegation-token t describe"]),
        (
            "--producer --idempotent --topic a",
            ["topic a write", "topic a describe", "topic a create", "cluster kafka-cluster idempotent-write"],
        ),
    ],
)
def test_entries_equal_those_of_kafka_acls(line: str, entries: list[str]) -> None:
    """One for each resource and operation, or those of --producer and --consumer."""
    options = command_line().parse(["add", "--allow-principal", "User:a", *line.split()])
    assert sorted(" ".join(each) for each in operations_of(options)) == sorted(entries)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--producer --group g", "--producer: of which topic"),
        ("--consumer --cluster", "--consumer: of which topic and group"),
        ("--consumer --topic a --group g --operation read", "--operation: --consumer says which"),
        ("--consumer --topic a --group g --cluster", "--consumer needs neither --cluster"),
        ("--topic a --idempotent", "--idempotent is for --producer"),
        ("--group g --operation create", "group has no operation create: all, read, "),
        ("--topic a --deny-host 10.0.0.1", "--deny-host is for --deny-principal"),
    ],
)
@pytest.mark.parametrize("action", ["add", "remove"])
def test_client_entries_need_their_resources(action: str, line: str, expected: str) -> None:
    options = command_line().parse([action, "--allow-principal", "User:a", *line.split()])
    with pytest.raises(UsageError, match=expected):
        options.run(cast(Session, None), options)


def removed(line: str) -> list[dict[str, object]]:
    """Return the filters of a removal, in words, without those that match everything."""
    rows = [each.row() for each in filters_of(command_line().parse(["remove", *line.split()]))]
    return [{key: cell for key, cell in row.items() if cell not in (None, "any")} for row in rows]


def test_removal_by_name_is_literal() -> None:
    """As with kafka-acls: entries for the prefix `tab` also apply to other topics."""
    assert removed("--topic tab") == [{"resource": "topic", "name": "tab", "pattern": "literal"}]
    (found,) = removed("--topic tab --resource-pattern-type PREFIXED")
    assert found["pattern"] == "prefixed"


def test_removal_deletes_what_the_same_options_add() -> None:
    """kafka-acls deletes the entries that it would add, for all hosts and the operation All."""
    entry = {"resource": "topic", "name": "t", "pattern": "literal", "principal": "User:a", "permission": "allow"}

    assert removed("--allow-principal User:a --topic t") == [{**entry, "host": "*", "operation": "all"}]
    assert removed("--allow-principal User:a --topic t --host 10.0.0.1 --operation read") == [
        {**entry, "host": "10.0.0.1", "operation": "read"}
    ]
    assert removed("--allow-principal User:a --topic t --host any --operation any") == [entry]


def test_removal_without_a_resource_is_of_the_principal() -> None:
    """kafka-acls has none."""
    assert removed("--deny-principal User:a") == [{"principal": "User:a", "permission": "deny"}]


def test_principals_and_hosts_can_be_repeated() -> None:
    line = "--allow-principal User:a --allow-principal User:b --allow-host 1.1.1.1 --allow-host 2.2.2.2 --topic t"

    assert [(row["principal"], row["host"]) for row in removed(line)] == [
        ("User:a", "1.1.1.1"),
        ("User:a", "2.2.2.2"),
        ("User:b", "1.1.1.1"),
        ("User:b", "2.2.2.2"),
    ]


def test_principal_needs_a_type() -> None:
    with pytest.raises(UsageError, match="'ann' is not a principal"):
        removed("--allow-principal ann --topic t")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (acl_entries.RESOURCES, acl.ResourceType),
        (acl_entries.PATTERNS, acl.PatternType),
        (acl_entries.PERMISSIONS, acl.Permission),
        (acl_entries.OPERATIONS, acl.Operation),
    ],
    ids=["resources", "patterns", "permissions", "operations"],
)
def test_words_have_the_numbers_of_the_broker(words: Mapping[str, int], kind: type[IntEnum]) -> None:
    """All of them; the broker's are compared with Kafka's."""
    assert words == {each.name.lower().replace("_", "-"): each.value for each in kind}
