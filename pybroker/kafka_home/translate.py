"""Command lines of Apache Kafka's console tools, as command lines of pybroker's.

Most of pybroker's commands understand Kafka's options already; here is what differs. `--zookeeper` names no broker: it
is taken out, so that the broker on localhost:9092 is meant.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pybroker.cli.parser import OneLineParser

_SCRAM = re.compile(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]", re.DOTALL)
_FORMATS = {(False, False): "%v\n", (True, False): "%k{sep}%v\n", (True, True): "%k\n", (False, True): "\n"}


@dataclass(frozen=True, slots=True)
class Command:
    """One run of a command of pybroker's; `stdin` where it asks for a secret."""

    name: str
    arguments: list[str]
    stdin: str | None = None


class CannotTranslate(Exception):
    """What a tool is asked for that pybroker has no command for."""


def _parser(tool: str) -> ArgumentParser:
    parser = OneLineParser(prog=tool, allow_abbrev=False)
    parser.add_argument("--bootstrap-server", "--bootstrap-servers", "--broker-list", dest="bootstrap")
    parser.add_argument("--zookeeper")
    parser.add_argument("--command-config", "--consumer.config", "--producer.config", dest="config")
    parser.add_argument("--force", action="store_true")
    return parser


def _connection(options: object) -> list[str]:
    if getattr(options, "zookeeper", None):
        print("there is no ZooKeeper: the broker on localhost:9092 is asked", file=sys.stderr)
    words = []
    if bootstrap := getattr(options, "bootstrap", None):
        words += ["--bootstrap-server", _addresses(bootstrap, options)]
    if config := getattr(options, "config", None):
        words += ["--command-config", config]
    return words


def _addresses(bootstrap: str, options: object) -> str:
    """Without the listeners' names; where these stand there, and nothing says how to log in, those of PLAINTEXT."""
    each = bootstrap.split(",")
    plain = [address for address in each if address.startswith("PLAINTEXT://")]
    chosen = plain if plain and not getattr(options, "config", None) else each
    return ",".join(address.rpartition("://")[2] for address in chosen)


def _as_it_is(name: str) -> Callable[[Sequence[str]], list[Command]]:
    """A command that understands Kafka's options."""

    def translated(arguments: Sequence[str]) -> list[Command]:
        options, rest = _parser(f"kafka-{name}").parse_known_args(arguments)
        return [Command(name, [*rest, *_connection(options)])]

    return translated


def _configs(arguments: Sequence[str]) -> list[Command]:
    parser = _parser("kafka-configs")
    parser.add_argument("--entity-type", default="topics")
    parser.add_argument("--entity-name")
    parser.add_argument("--add-config", default="")
    parser.add_argument("--delete-config", default="")
    parser.add_argument("--alter", action="store_true")
    parser.add_argument("--describe", action="store_true")
    options, rest = parser.parse_known_args(arguments)
    added, deleted = settings(options.add_config), settings(options.delete_config)
    connection = _connection(options)
    if options.entity_type == "users" and options.alter:
        found = []
        for setting in added:
            match = _SCRAM.fullmatch(setting)
            if match is None:
                raise CannotTranslate(f"of users only passwords are set, by SCRAM-SHA-256 and -512, not {setting}")
            fields = dict(field.partition("=")[::2] for field in match[2].split(","))
            words = ["create", options.entity_name or "", "--password-file", "-", "--mechanism", match[1]]
            if "iterations" in fields:
                words += ["--iterations", fields["iterations"]]
            found.append(Command("users", [*words, *connection], stdin=fields.get("password", "") + "\n"))
        for mechanism in deleted:
            words = ["delete", options.entity_name or "", "--mechanism", mechanism]
            found.append(Command("users", [*words, *connection]))
        return found
    if options.entity_type == "users":
        return [Command("users", ["list", *connection])]
    words = ["alter" if options.alter else "describe", "--entity-type", options.entity_type]
    if options.entity_name is not None:
        words += ["--entity-name", options.entity_name]
    for setting in added:
        words += ["--add-config", re.sub(r"=\[(.*)\]$", r"=\1", setting)]
    for key in deleted:
        words += ["--delete-config", key]
    return [Command("configs", [*words, *rest, *connection])]


def settings(text: str) -> list[str]:
    """The settings of `--add-config a=1,b=[2,3]`: commas between brackets are of a value."""
    return [each.strip() for each in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", text) if each.strip()]


def _console_consumer(arguments: Sequence[str]) -> list[Command]:
    parser = _parser("kafka-console-consumer")
    parser.add_argument("--timeout-ms", type=int)
    parser.add_argument("--property", "--formatter-property", action="append", default=[], dest="properties")
    parser.add_argument("--whitelist", "--include", dest="include")
    options, rest = parser.parse_known_args(arguments)
    if options.include is not None:
        raise CannotTranslate("one --topic is read, not --include")
    given = dict(setting.partition("=")[::2] for setting in options.properties)
    key, no_value = given.get("print.key") == "true", given.get("print.value") == "false"
    words = ["--format", _FORMATS[key, no_value].replace("{sep}", given.get("key.separator", "\t"))]
    if options.timeout_ms is not None:
        words += ["--idle", str(options.timeout_ms / 1000)]
    return [Command("consume", [*rest, *words, *_connection(options)])]


def _console_producer(arguments: Sequence[str]) -> list[Command]:
    parser = _parser("kafka-console-producer")
    parser.add_argument("--property", "--reader-property", action="append", default=[], dest="properties")
    options, rest = parser.parse_known_args(arguments)
    if options.config is not None or "parse.key=true" in options.properties:
        raise CannotTranslate("lines are sent as values, over a listener of PLAINTEXT")
    return [Command("produce", [*rest, *_connection(options)])]


def _acls(arguments: Sequence[str]) -> list[Command]:
    parser = _parser("kafka-acls")
    parser.add_argument("--authorizer-properties", action="append")
    parser.add_argument("--allow-host", "--deny-host", dest="host")
    options, rest = parser.parse_known_args(arguments)
    host = ["--host", options.host] if options.host and options.host != "*" else []
    return [Command("acls", [*rest, *host, *_connection(options)])]


def _cluster(arguments: Sequence[str]) -> list[Command]:
    options, rest = _parser("kafka-cluster").parse_known_args(arguments)
    if rest not in (["cluster-id"], ["list-endpoints"]):
        raise CannotTranslate("kafka-cluster tells cluster-id and list-endpoints")
    return [Command("cluster", ["id" if rest == ["cluster-id"] else "describe", *_connection(options)])]


def _api_versions(arguments: Sequence[str]) -> list[Command]:
    options, _ = _parser("kafka-broker-api-versions").parse_known_args(arguments)
    return [Command("cluster", ["describe", *_connection(options)])]


TRANSLATIONS: dict[str, Callable[[Sequence[str]], list[Command]]] = {
    "kafka-acls": _acls,
    "kafka-broker-api-versions": _api_versions,
    "kafka-cluster": _cluster,
    "kafka-configs": _configs,
    "kafka-console-consumer": _console_consumer,
    "kafka-console-producer": _console_producer,
    "kafka-consumer-groups": _as_it_is("groups"),
    "kafka-topics": _as_it_is("topics"),
}
"""What each of Kafka's tools comes to; all raise CannotTranslate."""
