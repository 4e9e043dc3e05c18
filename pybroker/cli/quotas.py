"""`pybroker quotas`: how much users, clients and addresses may take, shown and altered while the broker runs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show, tell
from pybroker.cli.option_values import key_value, keys

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import Session

_EXAMPLES = """\
examples:
  pybroker quotas list
  pybroker quotas set --user shop producer_byte_rate=1048576 consumer_byte_rate=2097152
  pybroker quotas set --user shop --client-defaults request_percentage=25
  pybroker quotas delete --user shop consumer_byte_rate
  pybroker quotas delete --user shop                     (all that it has)"""

#: Parts of what a quota is of: what options call them, and the protocol.
_PARTS = {"user": "user", "client": "client-id", "ip": "ip"}
_DEFAULT = "<default>"
_EXACT, _OF_DEFAULT = 0, 1

Entity = Mapping[str, str | None]
"""Names by the protocol's kinds; None is the default of a kind."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """The command line, whose help is also a page of the site."""
    parser = ClientParser("pybroker quotas", "Quotas of users, clients and addresses.", _EXAMPLES)
    listed = parser.add_action("list", _list, "quotas, all or those that have to do with somebody")
    _add_entity(listed)
    changed = parser.add_action("set", _set, "set quotas of one entity, or change them")
    _add_entity(changed)
    changed.add_argument("changes", nargs="*", type=_quota, metavar="KEY=VALUE")
    changed.add_argument(
        "--add-config", type=_several, action="extend", default=[], metavar="KEY=VALUE,...", help="the same"
    )
    deleted = parser.add_action("delete", _delete, "take quotas of one entity away")
    _add_entity(deleted)
    deleted.add_argument("keys", nargs="*", metavar="KEY", help="unless given: all that it has")
    deleted.add_argument(
        "--delete-config",
        type=keys,
        action="extend",
        default=[],
        metavar="KEY,...",
        help="the same",
    )
    return parser


def _add_entity(parser: ClientParser) -> None:
    """The words of kafka-configs."""
    for option, kind in (("user", "users"), ("client", "client ids"), ("ip", "addresses")):
        part = parser.add_mutually_exclusive_group()
        part.add_argument(f"--{option}", metavar="NAME")
        part.add_argument(f"--{option}-defaults", action="store_true", help=f"{kind} without a quota of their own")


def _quota(text: str) -> tuple[str, float]:
    key, value = key_value(text)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r}: {value!r} is no number")
    return key, number


def _several(text: str) -> list[tuple[str, float]]:
    return [_quota(each.strip()) for each in text.split(",")]


def _list(session: Session, options: argparse.Namespace) -> None:
    with session.administration() as client:
        found = described(client, _entity(options), strict=False)
    rows = [
        {**entity_names(entity), "key": key, "value": plain_number(value)}
        for entity, quotas in found
        for key, value in sorted(quotas.items())
    ]
    show(sorted(rows, key=lambda row: [str(cell) for cell in row.values()]), as_json=options.json)


def _set(session: Session, options: argparse.Namespace) -> None:
    changes = dict([*options.changes, *options.add_config])
    if not changes:
        raise UsageError("which quotas? such as producer_byte_rate=1048576")
    _alter(session, options, _one_entity(options), changes)


def _delete(session: Session, options: argparse.Namespace) -> None:
    entity = _one_entity(options)
    keys = [*options.keys, *options.delete_config]
    if not keys:
        with session.administration() as client:
            keys = [key for _, quotas in described(client, entity, strict=True) for key in sorted(quotas)]
        if not keys:
            raise CommandError(f"{_told(entity)}: it has no quotas")
    _alter(session, options, entity, dict.fromkeys(keys))


def _entity(options: argparse.Namespace) -> Entity:
    """What the options name; empty where they name nobody."""
    given: dict[str, str | None] = {}
    for option, kind in _PARTS.items():
        name = getattr(options, option)
        if name == "":
            raise UsageError(f"which {option}?")
        if name is not None or getattr(options, f"{option}_defaults"):
            given[kind] = name
    return given


def _one_entity(options: argparse.Namespace) -> Entity:
    entity = _entity(options)
    if not entity:
        raise UsageError("quotas of whom? --user, --client, both of them, or --ip; or --user-defaults and its like")
    return entity


def described(client: Administration, entity: Entity, *, strict: bool) -> list[tuple[Entity, dict[str, float]]]:
    """Entities and their quotas: of that entity alone, if `strict`, else of all that have such parts among others."""
    from kafka.protocol.admin import DescribeClientQuotasRequest

    wanted = [
        DescribeClientQuotasRequest.ComponentData(
            entity_type=kind, match_type=_OF_DEFAULT if name is None else _EXACT, match=name
        )
        for kind, name in entity.items()
    ]
    answer = client.send(DescribeClientQuotasRequest(components=wanted, strict=strict))
    client.check(answer)
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries
    ]


def _alter(session: Session, options: argparse.Namespace, entity: Entity, changes: Mapping[str, float | None]) -> None:
    with session.administration() as client:
        alter(client, entity, changes)
    if options.json:
        show(
            [{**entity_names(entity), "key": key, "value": plain_number(value)} for key, value in changes.items()],
            as_json=True,
        )
        return
    for key, value in changes.items():
        tell(f"{_told(entity)}: " + (f"{key} is gone" if value is None else f"{key}={plain_number(value)}"))


def alter(client: Administration, entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Set quotas of one entity; None takes one away. Raises CommandError."""
    from kafka.protocol.admin import AlterClientQuotasRequest

    entry_of = AlterClientQuotasRequest.EntryData
    entry = entry_of(
        entity=[entry_of.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            entry_of.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in changes.items()
        ],
    )
    answer = client.send(AlterClientQuotasRequest(entries=[entry], validate_only=False))
    for each in answer.entries:
        client.check(each, _told(entity))


def entity_names(entity: Entity) -> dict[str, str | None]:
    """Cells of a row: None where a part does not matter."""
    return {option: entity[kind] or _DEFAULT if kind in entity else None for option, kind in _PARTS.items()}


def _told(entity: Entity) -> str:
    return " ".join(f"{option} {name}" for option, name in entity_names(entity).items() if name is not None)


def plain_number(value: float | None) -> float | int | None:
    """As people write it: most are whole."""
    return int(value) if value is not None and value.is_integer() else value
