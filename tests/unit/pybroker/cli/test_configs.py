"""`pybroker configs`: what a command line asks to be changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.cli.client.errors import UsageError
from pybroker.cli.configs import changes_of, command_line


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
def test_settings_as_kafka_configs_takes_them(text: str, expected: dict[str, str]) -> None:
    """Several at once, lists in brackets; and lists without, where no key is within."""
    assert changes("--add-config", text) == expected


def test_all_that_is_given(tmp_path: Path) -> None:
    """A file first, in Java's syntax; what the command line says wins, and what goes back to its default."""
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


def test_what_is_no_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """One line."""
    with pytest.raises(SystemExit) as ended:
        changes("--add-config", "retention.ms")
    assert ended.value.code == 2
    assert "'retention.ms' is not KEY=VALUE" in capsys.readouterr().err
