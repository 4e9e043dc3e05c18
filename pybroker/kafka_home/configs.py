"""Translate kafka-configs into `pybroker configs`, `quotas` and `users`."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.properties import read_properties
from pybroker.kafka_home.common_options import BadCommandLine, CannotTranslate, Command, connection_words, tool_parser

_SCRAM = re.compile(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]", re.DOTALL)
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)  # which may have commas
_QUOTA_KINDS = {"users": "--user", "clients": "--client", "ips": "--ip"}
_KINDS = {option: kind for kind, option in _QUOTA_KINDS.items()} | {
    "--topic": "topics",
    "--broker": "brokers",
    "--broker-logger": "broker-loggers",
    "--group": "groups",
    "--client-metrics": "client-metrics",
}
#: The names of the default of a kind, and of all entities of it.
_DEFAULT, _ALL = None, "\0"

Entity = Mapping[str, str | None]
"""Names by kind."""


def configs(arguments: Sequence[str]) -> list[Command]:
    """Return the commands. Raises CannotTranslate."""
    parser = tool_parser("kafka-configs")
    parser.add_argument("--entity-type", action="append", default=[], dest="kinds")
    parser.add_argument("--entity-name", action="append", default=[], dest="names")
    parser.add_argument("--entity-default", action="append_const", const=_DEFAULT, dest="names")
    parser.add_argument("--add-config", default="")
    parser.add_argument("--add-config-file", type=Path)
    parser.add_argument("--delete-config", default="")
    parser.add_argument("--alter", action="store_true")
    parser.add_argument("--describe", action="store_true")
    options, rest = parser.parse_known_args(_spelled_out(arguments))
    if options.alter == options.describe:
        raise BadCommandLine("Command must include exactly one action: --describe, --alter")
    if not options.kinds:
        raise BadCommandLine("At least one entity type must be specified with --entity-type")
    entity = dict(zip(options.kinds, [*options.names, *[_ALL] * len(options.kinds)], strict=False))
    if options.alter and _ALL in entity.values():
        raise BadCommandLine("an entity name or default must be specified with --alter")
    connection = connection_words(options)
    if entity.keys() <= _QUOTA_KINDS.keys():
        return _of_clients(options, entity, connection)
    (kind, name), *others = entity.items()
    if others:
        raise CannotTranslate(f"{' and '.join(entity)} cannot be configured together")
    words = ["alter" if options.alter else "describe", "--entity-type", kind]
    if name is _DEFAULT:
        words.append("--entity-default")
    elif name != _ALL:
        words += ["--entity-name", name]
    for setting in settings(options.add_config):
        words += ["--add-config", re.sub(r"=\[(.*)\]$", r"=\1", setting)]
    if options.add_config_file is not None:
        words += ["--add-config-file", str(options.add_config_file)]
    for key in settings(options.delete_config):
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


def _of_clients(options: Namespace, entity: Entity, connection: list[str]) -> list[Command]:
    """Return the commands for quotas and passwords."""
    who = _quota_words(entity)
    if options.describe:
        commands = [Command("quotas", ["list", *who, *connection])]
        user = entity.get("users", _DEFAULT)
        if entity.keys() == {"users"} and user is not _DEFAULT:
            commands.append(Command("users", ["list", *([] if user == _ALL else [user]), *connection]))
        return commands
    added, deleted = [*_file_settings(options.add_config_file), *settings(options.add_config)], options.delete_config
    keys = settings(deleted)
    return [
        *_passwords(entity.get("users"), added, keys, connection),
        *_quotas(who, added, keys, connection),
    ]


def _quota_words(entity: Entity) -> list[str]:
    words: list[str] = []
    for kind, name in entity.items():
        option = _QUOTA_KINDS[kind]
        if name is _DEFAULT:
            words.append(f"{option}-defaults")
        elif name != _ALL:
            words += [option, name]
    return words


def _file_settings(path: Path | None) -> list[str]:
    try:
        return [] if path is None else [f"{key}={value}" for key, value in read_properties(path).items()]
    except UsageError as error:
        raise CannotTranslate(str(error)) from None


def _passwords(user: str | None, added: Sequence[str], deleted: Sequence[str], connection: list[str]) -> list[Command]:
    """Return the commands for configs that are passwords."""
    found = []
    for match in filter(None, map(_SCRAM.fullmatch, added)):
        credential = _CREDENTIAL.fullmatch(match[2])
        if credential is None:
            raise CannotTranslate(f"{match[1]} is given as [iterations=NUMBER,password=PASSWORD]")
        if user is None:
            raise CannotTranslate("the default of all users has no password")
        words = ["create", user, "--password-file", "-", "--mechanism", match[1]]
        if credential[1] and credential[1] != "-1":
            words += ["--iterations", credential[1]]
        found.append(Command("users", [*words, *connection], stdin=credential[2] + "\n"))
    for mechanism in deleted:
        if mechanism.startswith("SCRAM-"):
            found.append(Command("users", ["delete", user or "", "--mechanism", mechanism, *connection]))
    return found


def _quotas(who: list[str], added: Sequence[str], deleted: Sequence[str], connection: list[str]) -> list[Command]:
    """Return the commands for configs that are not passwords."""
    quotas = [each for each in added if not _SCRAM.fullmatch(each)]
    keys = [each for each in deleted if not each.startswith("SCRAM-")]
    found = []
    if quotas:
        found.append(Command("quotas", ["set", *who, *quotas, *connection]))
    if keys:
        found.append(Command("quotas", ["delete", *who, *keys, "--strict", *connection]))
    return found


def settings(text: str) -> list[str]:
    """Split `--add-config a=1,b=[2,3]` into configs: a comma between brackets belongs to the value."""
    return [each.strip() for each in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", text) if each.strip()]
