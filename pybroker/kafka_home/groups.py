"""Translate kafka-consumer-groups, kafka-share-groups and kafka-streams-groups into `pybroker groups`."""

from __future__ import annotations

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
_SHARE_TARGETS = ("--to-current", "--to-datetime", "--to-earliest", "--to-latest", "--to-offset", "--from-file")


def consumer_groups(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker groups`. A failure has exit code 0, as with Kafka's tool; a wrong command line has 1."""
    parser = tool_parser("kafka-consumer-groups")
    parser.add_argument("--timeout", type=int)
    options, rest = parser.parse_known_args(arguments)
    if _has(rest, ["--reset-offsets"]) and not _has(rest, _SCOPES):
        raise BadCommandLine("One of the reset scopes should be defined: --all-topics, --topic")
    for action in ("--describe", "--delete", "--reset-offsets"):
        if _has(rest, [action]) and not _has(rest, _GROUPS):
            raise BadCommandLine(f"{action} takes one of these options: --all-groups, --group")
    words = [] if options.timeout is None else ["--timeout", str(options.timeout / 1000)]
    return [Command("groups", [*rest, *words, *connection_words(options)], failure=0)]


def share_groups(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker groups reset-offsets --share`. A failure has exit code 0, as with Kafka's tool."""
    parser = tool_parser("kafka-share-groups")
    parser.add_argument("--timeout", type=int)
    options, rest = parser.parse_known_args(arguments)
    if not _has(rest, ["--reset-offsets"]):
        raise CannotTranslate("kafka-share-groups supports --reset-offsets")
    for names in (("--group",), _SHARE_TARGETS):
        if not _has(rest, names):
            raise BadCommandLine(f"--reset-offsets takes one of these options: {', '.join(names)}")
    if not _has(rest, _SCOPES):
        raise BadCommandLine(f"--reset-offsets takes one of these options: {', '.join(_SCOPES)}")
    if _has(rest, ["--dry-run"]) == _has(rest, ["--execute"]):
        raise BadCommandLine("--reset-offsets takes the option: --execute or --dry-run")
    words = [] if options.timeout is None else ["--timeout", str(options.timeout / 1000)]
    others = [word for word in rest if word != "--reset-offsets"]
    return [Command("groups", ["reset-offsets", "--share", *others, *words, *connection_words(options)], failure=0)]


def streams_groups(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker groups describe --topology`."""
    parser = tool_parser("kafka-streams-groups")
    parser.add_argument("--timeout", type=int)
    options, rest = parser.parse_known_args(arguments)
    if not _has(rest, ["--describe"]) or not _has(rest, ["--topology"]):
        raise CannotTranslate("kafka-streams-groups supports --describe --topology")
    if not _has(rest, ["--group"]):
        raise BadCommandLine("--describe takes the option: --group")
    words = [] if options.timeout is None else ["--timeout", str(options.timeout / 1000)]
    others = [word for word in rest if word != "--describe"]
    return [Command("groups", ["describe", *others, *words, *connection_words(options)])]


def _has(words: Sequence[str], options: Iterable[str]) -> bool:
    return any(word.partition("=")[0] in options for word in words)
