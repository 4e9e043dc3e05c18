"""`pybroker configs`: show and alter the configs of topics, brokers, groups and other resources."""

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
    from confluent_kafka.admin import ConfigEntry, ConfigResource

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
#: Kinds of entities by Kafka's words, and the options that name one.
_KINDS = {
    "topics": "topic",
    "brokers": "broker",
    "groups": "group",
    "client-metrics": "client_metrics",
    "broker-loggers": "broker_logger",
}
_BY_LIBRDKAFKA = {"topics": "TOPIC", "brokers": "BROKER"}  # it has no names for the other kinds
_BY_KAFKA_PYTHON = {
    "groups": resources.GROUP,
    "client-metrics": resources.CLIENT_METRICS,
    "broker-loggers": resources.BROKER_LOGGER,
}
#: The protocol's numbers of sources; other words than librdkafka's for two of them.
_SOURCES = {
    1: "dynamic_topic",
    2: "dynamic_broker",
    3: "dynamic_default_broker",
    4: "static_broker",
    5: "default",
    6: "dynamic_broker_logger",
    7: "dynamic_client_metrics",
    8: "dynamic_group",
}
_DEFAULT = 5
_ALL_BROKERS = ""


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker configs", "Configs of topics, brokers, groups and more.", _EXAMPLES)
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
    entity.add_argument("--topic", metavar="NAME")
    entity.add_argument("--broker", metavar="ID")
    entity.add_argument("--broker-defaults", action="store_true", help="the defaults for all brokers")
    entity.add_argument("--broker-logger", metavar="ID", help="the log levels of a broker")
    entity.add_argument("--group", metavar="NAME")
    entity.add_argument("--client-metrics", metavar="NAME", help="a subscription to metrics of clients")
    entity.add_argument(
        "--entity-type", choices=tuple(_KINDS), help="with --entity-name: the same, as with kafka-configs"
    )
    named = parser.add_mutually_exclusive_group()
    named.add_argument("--entity-name", metavar="NAME")
    named.add_argument("--entity-default", action="store_true", help="the same as --broker-defaults")


def entity_of(options: argparse.Namespace) -> tuple[str, str | None]:
    """Return the kind and the name of the entity; None for all of the kind, "" for all brokers. Raises UsageError."""
    if options.broker_defaults or options.entity_default:
        given = [option for option in _KINDS.values() if getattr(options, option) is not None]
        if given or (options.entity_type not in (None, "brokers")):
            message = "is for --entity-type brokers: defaults of topics are settings of brokers"
            raise UsageError(f"--entity-default {message}")
        return "brokers", _ALL_BROKERS
    named = [(kind, getattr(options, option)) for kind, option in _KINDS.items()]
    chosen = [(kind, name) for kind, name in named if name is not None]
    if options.entity_type is not None:
        chosen.append((options.entity_type, options.entity_name))
    elif options.entity_name is not None:
        raise UsageError("--entity-name: of which --entity-type?")
    if len(chosen) != 1 or chosen[0][1] == "":
        raise UsageError("settings of what? --topic NAME, --broker ID, --group NAME and so on")
    ((kind, name),) = chosen
    if kind in ("brokers", "broker-loggers") and name is not None and not name.isdecimal():
        raise UsageError(f"{name!r} is not a broker id")
    return kind, name


def _all_names(session: Session, kind: str) -> list[str]:
    """Return the names of all entities of a kind: of groups and client metrics those with configs."""
    if kind == "topics":
        return sorted(session.admin.list_topics(timeout=session.timeout_s).topics)
    if kind in ("brokers", "broker-loggers"):
        ids = [str(node.id) for node in sorted(session.cluster.nodes, key=lambda node: node.id)]
        return [*ids, _ALL_BROKERS] if kind == "brokers" else ids
    with session.administration() as client:
        return resources.names(client, _BY_KAFKA_PYTHON[kind])


def _check_broker(session: Session, kind: str, name: str) -> None:
    """Raise CommandError for a broker that is not there: the client library would wait for it."""
    if kind not in ("brokers", "broker-loggers") or name == _ALL_BROKERS:
        return
    if int(name) not in {node.id for node in session.cluster.nodes}:
        raise CommandError(f"there is no broker {name}")


def _resource(kind: str, name: str) -> ConfigResource:
    from confluent_kafka.admin import ConfigResource, ResourceType

    return ConfigResource(ResourceType[_BY_LIBRDKAFKA[kind]], name)


def _describe(session: Session, options: argparse.Namespace) -> None:
    kind, name = entity_of(options)
    if name is not None:
        show(_rows(session, options, kind, name), as_json=options.json)
        return
    rows = []
    for each in _all_names(session, kind):
        rows += [{"name": each or "(all)", **row} for row in _rows(session, options, kind, each)]
    show(rows, as_json=options.json)


def _rows(session: Session, options: argparse.Namespace, kind: str, name: str) -> list[dict[str, object]]:
    """Return the lines of an entity."""
    rows = [
        {
            "key": entry.name,
            "value": None if is_sensitive else entry.value,
            "source": _SOURCES.get(source, "unknown"),
            "read_only": is_read_only,
        }
        for entry, source, is_sensitive, is_read_only in _entries(session, kind, name)
        if options.all or source != _DEFAULT
    ]
    return sorted(rows, key=lambda row: str(row["key"]))


def _entries(session: Session, kind: str, name: str) -> list[tuple[Any, int, bool, bool]]:
    """Return entries of either library, and for each: source, whether it is a secret, whether it is read-only."""
    from confluent_kafka.admin import ConfigSource

    _check_broker(session, kind, name)
    if kind in _BY_LIBRDKAFKA and name != _ALL_BROKERS:
        resource = _resource(kind, name)
        (future,) = session.admin.describe_configs([resource], request_timeout=session.timeout_s).values()
        found: dict[str, ConfigEntry] = session.wait(future, resource.name)
        return [
            (each, ConfigSource(each.source).value, each.is_sensitive, each.is_read_only) for each in found.values()
        ]
    number = _BY_KAFKA_PYTHON.get(kind, resources.BROKER)
    node = int(name) if kind == "broker-loggers" else None
    with session.administration() as client:
        ((_, entries),) = resources.describe(client, number, [name], node)
    return [(each, each.config_source, each.is_sensitive, each.read_only) for each in entries]


def _alter(session: Session, options: argparse.Namespace) -> None:
    changes = changes_of(options)
    if not changes:
        raise UsageError("nothing to change: --add-config KEY=VALUE or --delete-config KEY")
    kind, name = entity_of(options)
    if name is None:
        raise UsageError(f"settings of which of the {kind}? --entity-name NAME")
    _check_broker(session, kind, name)
    if kind in _BY_LIBRDKAFKA and name != _ALL_BROKERS:
        _alter_one(session, _resource(kind, name), changes)
    else:
        node = int(name) if kind == "broker-loggers" else None
        with session.administration() as client:
            resources.alter(client, _BY_KAFKA_PYTHON.get(kind, resources.BROKER), name, changes, node)
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
