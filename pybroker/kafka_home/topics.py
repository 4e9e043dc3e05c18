"""Translate kafka-topics and kafka-consumer-groups into `pybroker topics` and `pybroker groups`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pybroker.kafka_home.common_options import BadCommandLine, Command, connection_words, tool_parser

_ACTIONS = ("list", "describe", "create", "alter", "delete")
_SCOPES = ("--all-topics", "--topic", "--from-file")
_GROUPS = ("--all-groups", "--group")


def topics(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker topics`. Except for --create, Kafka's --topic is a regular expression."""
    parser = tool_parser("kafka-topics")
    for action in _ACTIONS:
        parser.add_argument(f"--{action}", action="append_const", const=action, dest="actions", default=[])
    parser.add_argument("--topic")
    parser.add_argument("--partition-size-limit-per-response")  # the client library chooses it
    options, rest = parser.parse_known_args(arguments)
    if len(options.actions) != 1:
        raise BadCommandLine("Command must include exactly one action: --list, --describe, --create, --alter, --delete")
    (action,) = options.actions
    words = []
    if options.topic is not None:
        words = ["--topic", options.topic] if action == "create" else ["--include", include_list(options.topic)]
    elif action not in ("list", "describe"):
        raise BadCommandLine("Missing required argument --topic")
    return [Command("topics", [action, *words, *rest, *connection_words(options)])]


def include_list(text: str) -> str:
    """Return the regular expression of Kafka's IncludeList: a comma means or, and outer quotes are dropped."""
    return re.sub(r"^[\"']+|[\"']+$", "", text.strip().replace(",", "|").replace(" ", ""))


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


def _has(words: Sequence[str], options: Iterable[str]) -> bool:
    return any(word.partition("=")[0] in options for word in words)
