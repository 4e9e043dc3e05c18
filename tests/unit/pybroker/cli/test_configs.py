"""`pybroker configs`: changes by a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.cli.client.errors import UsageError
from pybroker.cli.configs import changes_of, command_line, entity_of


def changes(*words: str) -> dict[str, str | None]:
    return changes_of(command_line().parse(["alter", "--topic", "t", *words]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retention.ms=1", {"retention.ms": "1"}),
        ("cleanup.policy=compact,delete", {"cleanup.policy": "compact,delete"}),
        (
            "retention.ms=1,cleanup.policy=[compact,delete], segment.bytes=2",
            {"retention.ms": "1", "cleanup.policy": "compact,delete", "segment.bytes": "2"},
        ),
        ("advertised.listeners=A://[::1]:1,B://h:2", {"advertised.listeners": "A://[::1]:1,B://h:2"}),
        (
            'sasl.jaas.config=X required user_a="b,c.d=e";',
            {"sasl.jaas.config": 'X required user_a="b,c.d=e";'},
        ),
        ("compression.type=", {"compression.type": ""}),
    ],
)
def test_settings_are_parsed_as_by_kafka_configs(text: str, expected: dict[str, str]) -> None:
    """Several at once, lists in brackets; lists without brackets too if they contain no key."""
    assert changes("--add-config", text) == expected


def test_sources_of_settings_are_merged(tmp_path: Path) -> None:
    """The file in Java's syntax first; the command line has priority, and deletions come last."""
    file = tmp_path / "topic.properties"
    file.write_bytes(b"retention.ms = 1\r\nsegment.bytes=2\r\nflush.ms=3\r\n")
    words = ("--add-config-file", str(file), "--add-config", "segment.bytes=4", "--add-config", "max.message.bytes=5")
    assert changes(*words, "--delete-config", "flush.ms,flush.messages") == {
        "retention.ms": "1",
        "segment.bytes": "4",
        "max.message.bytes": "5",
        "flush.ms": None,
        "flush.messages": None,
    }
    with pytest.raises(UsageError, match="No such file"):
        changes("--add-config-file", str(tmp_path / "none"))


def test_bad_setting_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        changes("--add-config", "retention.ms")
    assert ended.value.code == 2
    assert "'retention.ms' is not KEY=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--topic t", ("topics", "t")),
        ("--broker 1", ("brokers", "1")),
        ("--broker-defaults", ("brokers", "")),
        ("--group g", ("groups", "g")),
        ("--client-metrics m", ("client-metrics", "m")),
        ("--broker-logger 1", ("broker-loggers", "1")),
        ("--entity-type groups --entity-name g", ("groups", "g")),
        ("--entity-type brokers --entity-default", ("brokers", "")),
        ("--entity-type topics", ("topics", None)),
    ],
)
def test_entity_has_a_kind_and_a_name(line: str, expected: tuple[str, str | None]) -> None:
    """By pybroker's options and Kafka's. Without a name it is all of the kind."""
    assert entity_of(command_line().parse(["describe", *line.split()])) == expected


@pytest.mark.parametrize(
    "line", ["", "--entity-name t", "--topic=", "--broker one", "--entity-type topics --entity-default"]
)
def test_unclear_entity_is_rejected(line: str) -> None:
    with pytest.raises(UsageError):
        entity_of(command_line().parse(["describe", *line.split()]))
