"""Translate kafka-topics into `pybroker topics`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from pybroker.kafka_home.common_options import BadCommandLine, Command, connection_words, tool_parser

_ACTIONS = ("list", "describe", "create", "alter", "delete")


def topics(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker topics`. Except for --create, Kafka's --topic is a regular expression."""
    parser = tool_parser("kafka-topics")
    for action in _ACTIONS:
        parser.add_argument(f"--{action}", action="append_const", const=action, dest="actions", default=[])
    parser.add_argument("--topic")
    parser.add_argument("--partition-size-limit-per-response")  # the client library chooses it
    parser.add_argument("--delete-config", action="append", default=[])
    options, rest = parser.parse_known_args(arguments)
    if options.delete_config:  # Kafka's tool ignores it, too
        print("kafka-topics: --delete-config has no effect: use kafka-configs", file=sys.stderr)
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
