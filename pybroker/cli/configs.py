"""`pybroker configs`: show and alter the configs of topics and brokers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybroker.cli.client import resources
from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import print_line, show
from pybroker.cli.client.properties import read_properties
from pybroker.cli.option_values import key_value, keys

if TYPE_CHECKING:
    from confluent_kafka.admin import ConfigEntry, ConfigResource, ConfigSource

    from pybroker.cli.client.session import Session

_EXAMPLES = """\
examples:
  pybroker configs describe --topic orders
  pybroker configs describe --broker 1 --all
  pybroker configs alter --topic orders --add-config retention.ms=3600000 --delete-config cleanup.policy
  pybroker configs --describe --entity-type topics --entity-name orders    (as with kafka-configs)"""

#: Keys have dots in them.
_BETWEEN_SETTINGS = re.compile(r",(?=\s*[a-z]+(?:\.[a-z]+)+=)")
_IN_BRACKETS = re.compile(r"\[(.*)\]", re.DOTALL)
_KINDS = {"topics": "TOPIC", "brokers": "BROKER"}  # the client library has no names for other kinds


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker configs", "Configs of topics and brokers.", _EXAMPLES)
    described = parser.add_action("describe", _describe, "show configs, and the source of each")
    _add_entity(described)
    described.add_argument("--all", action="store_true", help="also configs that are not set")
    altered = parser.add_action("alter", _alter, "change configs, all of them or none")
    _add_entity(altered)
    altered.add_argument(
        "--add-config",
        type=settings,
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="can be repeated; or several, separated by commas, with lists in brackets, as with kafka-configs",
    )
    altered.add_argument("--add-config-file", type=Path, metavar="FILE", help="the same, from a file of properties")
    altered.add_argument(
        "--delete-config",
        type=keys,
        action="extend",
        default=[],
        metavar="KEY,...",
        help="restore the default",
    )
    return parser


def settings(text: str) -> list[tuple[str, str]]:
    """Parse KEY=VALUE, or several. A comma without a key after it belongs to the value. Raises ArgumentTypeError."""
    given = _BETWEEN_SETTINGS.split(text) if '"' not in text else [text]
    return [(key, _without_brackets(value)) for key, value in map(key_value, given)]


def _without_brackets(value: str) -> str:
    found = _IN_BRACKETS.fullmatch(value)
    return value if found is None else found[1]


def _add_entity(parser: ClientParser) -> None:
    entity = parser.add_mutually_exclusive_group()
    entity.add_argument("--topic")
    entity.add_argument("--broker", metavar="ID")
    entity.add_argument(
        "--entity-type", choices=tuple(_KINDS), help="with --entity-name: the same, as with kafka-configs"
    )
    named = parser.add_mutually_exclusive_group()
    named.add_argument("--entity-name", metavar="NAME")
    named.add_argument("--entity-default", action="store_true", help="the default for all brokers")


def _is_of_all_brokers(options: argparse.Namespace) -> bool:
    if not options.entity_default:
        return False
    if options.topic is not None or options.broker is not None or options.entity_type == "topics":
        raise UsageError("--entity-default is for --entity-type brokers: defaults of topics are settings of brokers")
    return True


def _resource(session: Session, options: argparse.Namespace) -> ConfigResource:
    from confluent_kafka.admin import ConfigResource, ResourceType

    given = {"topics": options.topic, "brokers": options.broker}
    if options.entity_type is not None:
        given[options.entity_type] = options.entity_name
    kinds = [(kind, name) for kind, name in given.items() if name is not None]
    if len(kinds) != 1 or not kinds[0][1]:
        raise UsageError("settings of what? --topic NAME or --broker ID")
    ((kind, name),) = kinds
    if kind == "brokers" and not name.isdecimal():
        raise UsageError(f"{name!r} is not a broker id")
    if kind == "brokers" and int(name) not in {node.id for node in session.cluster.nodes}:
        raise CommandError(f"there is no broker {name}")  # the client library would wait for this broker
    return ConfigResource(ResourceType[_KINDS[kind]], name)


def _describe(session: Session, options: argparse.Namespace) -> None:
    from confluent_kafka.admin import ConfigSource

    if _is_of_all_brokers(options):
        with session.administration() as client:
            ((_, found),) = resources.describe(client, resources.BROKER, [""])
        rows = [_row(each, ConfigSource(each.config_source), is_read_only=each.read_only) for each in found]
    else:
        resource = _resource(session, options)
        (future,) = session.admin.describe_configs([resource], request_timeout=session.timeout_s).values()
        entries: dict[str, ConfigEntry] = session.wait(future, resource.name)
        rows = [
            _row(each, ConfigSource(each.source), is_read_only=each.is_read_only)
            for each in entries.values()
            if options.all or not each.is_default
        ]
    show(sorted(rows, key=lambda row: str(row["key"])), as_json=options.json)


def _row(entry: Any, source: ConfigSource, *, is_read_only: bool) -> dict[str, object]:
    """Return one line for an entry of either library."""
    return {
        "key": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": source.name.lower().removesuffix("_config"),
        "read_only": is_read_only,
    }


def _alter(session: Session, options: argparse.Namespace) -> None:
    changes = changes_of(options)
    if not changes:
        raise UsageError("nothing to change: --add-config KEY=VALUE or --delete-config KEY")
    if _is_of_all_brokers(options):
        with session.administration() as client:
            resources.alter(client, resources.BROKER, "", changes)
    else:
        _alter_one(session, _resource(session, options), changes)
    if options.json:
        show([{"key": key, "value": value} for key, value in changes.items()], as_json=True)
        return
    for key, value in changes.items():
        print_line(f"{key} was reset to its default" if value is None else f"{key}={value}")


def changes_of(options: argparse.Namespace) -> dict[str, str | None]:
    """Return values by key; None restores a default. Raises UsageError."""
    of_file = read_properties(options.add_config_file) if options.add_config_file is not None else {}
    return {**of_file, **dict(options.add_config), **dict.fromkeys(options.delete_config)}


def _alter_one(session: Session, resource: ConfigResource, changes: Mapping[str, str | None]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    for key, value in changes.items():
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=operation))
    (future,) = session.admin.incremental_alter_configs([resource], request_timeout=session.timeout_s).values()
    session.wait(future, resource.name)
