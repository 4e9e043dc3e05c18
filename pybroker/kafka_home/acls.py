"""Translate kafka-acls into `pybroker acls`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from pybroker.kafka_home.common_options import BadCommandLine, Command, connection_words, tool_parser

_ACTIONS = ("list", "add", "remove")
_RESOURCES = ("topic", "group", "transactional-id", "delegation-token", "user-principal")
_PRINCIPALS = ("allow-principal", "deny-principal")
#: Options that Kafka's tool ignores without a principal, and uses to describe entries with one.
_OF_ENTRIES = ("allow-host", "deny-host", "operation")
_FLAGS = ("cluster", "producer", "consumer", "idempotent")


def acls(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker acls`. Raises BadCommandLine."""
    parser = tool_parser("kafka-acls")
    parser.add_argument("--authorizer-properties", "--authorizer", action="append")
    for action in _ACTIONS:
        parser.add_argument(f"--{action}", action="append_const", const=action, dest="actions", default=[])
    for name in (*_RESOURCES, *_PRINCIPALS, *_OF_ENTRIES, "principal"):
        parser.add_argument(f"--{name}", action="append", default=[], dest=name)
    for flag in _FLAGS:
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--resource-pattern-type")
    options = parser.parse_args(arguments)
    _check(options)
    (action,) = options.actions
    given = vars(options)
    has_principals = any(given[name] for name in _PRINCIPALS)
    names = [*_RESOURCES, *_PRINCIPALS, *(_OF_ENTRIES if has_principals else ()), "principal"]
    words = [word for name in names for value in given[name] for word in (f"--{name}", value)]
    words += [f"--{flag}" for flag in _FLAGS if given[flag]]
    if options.resource_pattern_type is not None:
        words += ["--resource-pattern-type", options.resource_pattern_type]
    question = "Are you sure you want to remove these ACLs? (y/n)" if action == "remove" and not options.force else ""
    return [Command("acls", [action, *words, *connection_words(options)], question=question)]


def _check(options: Namespace) -> None:
    """Raise BadCommandLine for what Kafka's tool refuses and pybroker's command accepts."""
    given = vars(options)
    if len(options.actions) != 1:
        raise BadCommandLine("Command must include exactly one action: --list, --add, --remove")
    (action,) = options.actions
    if action == "list":
        if wrong := [name for name in (*_PRINCIPALS, "allow-host", "deny-host", "producer", "consumer") if given[name]]:
            raise BadCommandLine(f"--{wrong[0]} can't be used with --list")
        return
    if options.principal:
        raise BadCommandLine("--principal is only available with --list")
    if not options.cluster and not any(given[name] for name in _RESOURCES):
        raise BadCommandLine("You must provide at least one resource: --topic, --group, --cluster and so on")
