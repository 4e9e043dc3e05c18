"""Translate kafka-consumer-groups, kafka-share-groups and kafka-streams-groups into `pybroker groups`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pybroker.kafka_home.common_options import (
    BadCommandLine,
    CannotTranslate,
    Command,
    connection_words,
    tool_parser,
)

_SCOPES = ("--all-topics", "--topic", "--from-file")
_GROUPS = ("--all-groups", "--group")
_ACTIONS = ("list", "describe", "delete", "delete-offsets", "reset-offsets")
_INTERNAL_TOPICS = ("--delete-internal-topic", "--delete-all-internal-topics")
#: The error code UNKNOWN_TOPIC_OR_PARTITION.
_UNKNOWN_TOPIC = 3
_SHARE_TARGETS = ("--to-current", "--to-datetime", "--to-earliest", "--to-latest", "--to-offset", "--from-file")


def consumer_groups(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker groups`. A failure has exit code 0, as with Kafka's tool; a wrong command line has 1."""
    parser = tool_parser("kafka-consumer-groups")
    parser.add_argument("--timeout", type=int)
    options, rest = parser.parse_known_args(arguments)
    if _has(rest, ["--validate-regex"]):
        raise CannotTranslate("--validate-regex checks expressions of RE2J, a library of Java")
    if _has(rest, ["--reset-offsets"]) and not _has(rest, _SCOPES):
        raise BadCommandLine("One of the reset scopes should be defined: --all-topics, --topic")
    for action in ("--describe", "--delete", "--reset-offsets"):
        if _has(rest, [action]) and not _has(rest, _GROUPS):
            raise BadCommandLine(f"{action} takes one of these options: --all-groups, --group")
    words = [] if options.timeout is None else ["--timeout", str(options.timeout / 1000)]
    return [Command("groups", [*rest, *words, *connection_words(options)], failure=0)]


def share_groups(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker groups` for share groups. A failure has exit code 0, as with Kafka's tool."""
    action, words, rest = _typed("kafka-share-groups", arguments)
    if action == "reset-offsets":
        if _has(rest, ["--all-groups"]):
            raise BadCommandLine("--reset-offsets takes the option: --group")
        _require(action, rest, ("--group",), _SHARE_TARGETS, _SCOPES)
        _require_execution(rest)
    if action == "delete-offsets":
        _require(action, rest, ("--group",), ("--topic",))
    if action in ("describe", "delete"):
        _require(action, rest, _GROUPS)
    return [Command("groups", [*_of_type(action, "share"), *rest, *words], failure=0)]


def streams_groups(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker groups` for streams groups.

    A failure has exit code 0, except that of a description, and that of offsets in a topic that does not exist.
    """
    action, words, rest = _typed("kafka-streams-groups", arguments)
    rest = [re.sub("^--(all-)?input-topic", r"--\1topic", word) for word in rest]
    if action in ("describe", "delete"):
        _require(action, rest, _GROUPS)
    if action == "reset-offsets":
        _require(action, rest, _GROUPS)
        _require(action, rest, _SCOPES)
        _require_execution(rest)
        if _has(rest, ["--dry-run"]) and _has(rest, _INTERNAL_TOPICS):
            raise BadCommandLine(f"{' and '.join(_INTERNAL_TOPICS)} take --execute")
    if action == "delete-offsets":
        _require(action, rest, ("--group",), ("--topic", "--all-topics"))
    return [
        Command(
            "groups",
            [*_of_type(action, "streams"), *rest, *words],
            failure=int(action == "describe"),
            wrong_line_errors=(_UNKNOWN_TOPIC,) if action == "reset-offsets" else (),
        )
    ]


def _typed(tool: str, arguments: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Return the action of a command line, the words of its connection, and the other words."""
    parser = tool_parser(tool)
    parser.add_argument("--timeout", type=int)
    options, rest = parser.parse_known_args(arguments)
    found = [word for word in rest if word.startswith("--") and word[2:] in _ACTIONS]
    if len(found) != 1:
        raise BadCommandLine(f"Command must include exactly one action: --{', --'.join(_ACTIONS)}")
    words = [] if options.timeout is None else ["--timeout", str(options.timeout / 1000)]
    rest.remove(found[0])
    return found[0][2:], [*words, *connection_words(options)], rest


def _of_type(action: str, group_type: str) -> list[str]:
    return [action, "--type", group_type] if action == "list" else [action, f"--{group_type}"]


def _require(action: str, words: Sequence[str], *options: Sequence[str]) -> None:
    for names in options:
        if not _has(words, names):
            raise BadCommandLine(f"--{action} takes one of these options: {', '.join(names)}")


def _require_execution(words: Sequence[str]) -> None:
    if _has(words, ["--dry-run"]) == _has(words, ["--execute"]):
        raise BadCommandLine("--reset-offsets takes the option: --execute or --dry-run")


def _has(words: Sequence[str], options: Iterable[str]) -> bool:
    return any(word.partition("=")[0] in options for word in words)
