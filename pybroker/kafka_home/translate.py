"""Translate command lines of Apache Kafka's console tools into command lines of pybroker.

Most of pybroker's commands accept Kafka's options; this module translates the others. `--zookeeper` is dropped, so the
command talks to the broker on localhost:9092.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pybroker.kafka_home.common_options import (
    CannotTranslate,
    Command,
    connection_words,
    tool_parser,
)
from pybroker.kafka_home.consoles import console_consumer, console_producer
from pybroker.kafka_home.perf_tools import consumer_perf_test, producer_perf_test

_SCRAM = re.compile(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]", re.DOTALL)
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)  # which may have commas
_QUOTA_KINDS = {"users": "--user", "clients": "--client", "ips": "--ip"}
_KINDS = {option: kind for kind, option in _QUOTA_KINDS.items()} | {"--topic": "topics", "--broker": "brokers"}


def _as_it_is(name: str) -> Callable[[Sequence[str]], list[Command]]:
    """Return a command that accepts Kafka's options."""

    def translated(arguments: Sequence[str]) -> list[Command]:
        options, rest = tool_parser(f"kafka-{name}").parse_known_args(arguments)
        return [Command(name, [*rest, *connection_words(options)])]

    return translated


def _configs(arguments: Sequence[str]) -> list[Command]:
    parser = tool_parser("kafka-configs")
    parser.add_argument("--entity-type", action="append", default=[], dest="kinds")
    parser.add_argument("--entity-name", action="append", default=[], dest="names")
    parser.add_argument("--entity-default", action="append_const", const=None, dest="names")
    parser.add_argument("--add-config", default="")
    parser.add_argument("--delete-config", default="")
    parser.add_argument("--alter", action="store_true")
    parser.add_argument("--describe", action="store_true")
    options, rest = parser.parse_known_args(_spelled_out(arguments))
    entity = dict(zip(options.kinds or ["topics"], [*options.names, *[None] * len(options.kinds)], strict=False))
    connection = connection_words(options)
    added, deleted = settings(options.add_config), settings(options.delete_config)
    if entity.keys() <= _QUOTA_KINDS.keys():
        if not options.alter:
            return [Command("quotas", ["list", *connection]), Command("users", ["list", *connection])]
        return [
            *_passwords(entity.get("users"), added, deleted, connection),
            *_quotas(entity, added, deleted, connection),
        ]
    (kind, name), *others = entity.items()
    if others:
        raise CannotTranslate(f"{' and '.join(entity)} cannot be configured together")
    words = ["alter" if options.alter else "describe", "--entity-type", kind]
    if name is not None:
        words += ["--entity-name", name]
    elif options.names:
        words.append("--entity-default")
    for setting in added:
        words += ["--add-config", re.sub(r"=\[(.*)\]$", r"=\1", setting)]
    for key in deleted:
        words += ["--delete-config", key]
    return [Command("configs", [*words, *rest, *connection])]


def _spelled_out(arguments: Sequence[str]) -> list[str]:
    """Return `--user NAME` and the like as `--entity-type users --entity-name NAME`."""
    words: list[str] = []
    for word in arguments:
        kind, defaults = _KINDS.get(word), _KINDS.get(word.removesuffix("-defaults"))
        if kind is not None:
            words += ["--entity-type", kind, "--entity-name"]
        elif defaults is not None:
            words += ["--entity-type", defaults, "--entity-default"]
        else:
            words.append(word)
    return words


def _passwords(user: str | None, added: Sequence[str], deleted: Sequence[str], connection: list[str]) -> list[Command]:
    """Return the commands for configs that are passwords."""
    found = []
    for match in filter(None, map(_SCRAM.fullmatch, added)):
        credential = _CREDENTIAL.fullmatch(match[2])
        if credential is None:
            raise CannotTranslate(f"{match[1]} is given as [iterations=NUMBER,password=PASSWORD]")
        words = ["create", user or "", "--password-file", "-", "--mechanism", match[1]]
        if credential[1] and credential[1] != "-1":
            words += ["--iterations", credential[1]]
        found.append(Command("users", [*words, *connection], stdin=credential[2] + "\n"))
    for mechanism in deleted:
        if mechanism.startswith("SCRAM-"):
            found.append(Command("users", ["delete", user or "", "--mechanism", mechanism, *connection]))
    return found


def _quotas(
    entity: dict[str, str | None], added: Sequence[str], deleted: Sequence[str], connection: list[str]
) -> list[Command]:
    """Return the commands for configs that are not passwords."""
    who: list[str] = []
    for kind, name in entity.items():
        option = _QUOTA_KINDS[kind]
        who += [f"{option}-defaults"] if name is None else [option, name]
    quotas = [each for each in added if not _SCRAM.fullmatch(each)]
    keys = [each for each in deleted if not each.startswith("SCRAM-")]
    found = []
    if quotas:
        found.append(Command("quotas", ["set", *who, *quotas, *connection]))
    if keys:
        found.append(Command("quotas", ["delete", *who, *keys, *connection]))
    return found


def settings(text: str) -> list[str]:
    """Split `--add-config a=1,b=[2,3]` into configs: a comma between brackets belongs to the value."""
    return [each.strip() for each in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", text) if each.strip()]


def _acls(arguments: Sequence[str]) -> list[Command]:
    parser = tool_parser("kafka-acls")
    parser.add_argument("--authorizer-properties", action="append")
    parser.add_argument("--allow-host", "--deny-host", dest="host")
    options, rest = parser.parse_known_args(arguments)
    host = ["--host", options.host] if options.host and options.host != "*" else []
    return [Command("acls", [*rest, *host, *connection_words(options)])]


def _cluster(arguments: Sequence[str]) -> list[Command]:
    options, rest = tool_parser("kafka-cluster").parse_known_args(arguments)
    if rest not in (["cluster-id"], ["list-endpoints"]):
        raise CannotTranslate("kafka-cluster supports cluster-id and list-endpoints")
    return [Command("cluster", ["id" if rest == ["cluster-id"] else "describe", *connection_words(options)])]


def _api_versions(arguments: Sequence[str]) -> list[Command]:
    options, _ = tool_parser("kafka-broker-api-versions").parse_known_args(arguments)
    return [Command("cluster", ["describe", *connection_words(options)])]


TRANSLATIONS: dict[str, Callable[[Sequence[str]], list[Command]]] = {
    "kafka-acls": _acls,
    "kafka-broker-api-versions": _api_versions,
    "kafka-client-metrics": _as_it_is("client-metrics"),
    "kafka-cluster": _cluster,
    "kafka-configs": _configs,
    "kafka-console-consumer": console_consumer,
    "kafka-console-producer": console_producer,
    "kafka-consumer-groups": _as_it_is("groups"),
    "kafka-consumer-perf-test": consumer_perf_test,
    "kafka-producer-perf-test": producer_perf_test,
    "kafka-topics": _as_it_is("topics"),
}
"""The translation of each tool; all raise CannotTranslate."""
