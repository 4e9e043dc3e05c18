"""`pybroker quotas`: show and alter the quotas of users, clients and addresses."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import print_line, show
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
  pybroker quotas delete --user shop                     (all its quotas)"""

#: The parts of an entity: their names in options, and in the protocol.
_PARTS = {"user": "user", "client": "client-id", "ip": "ip"}
_DEFAULT = "<default>"
_EXACT, _OF_DEFAULT = 0, 1

Entity = Mapping[str, str | None]
"""An entity: names by the protocol's entity types. None is the default of a type."""


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker quotas", "Quotas of users, clients and addresses.", _EXAMPLES)
    listed = parser.add_action("list", _list, "list quotas, all or those of an entity")
    _add_entity(listed)
    changed = parser.add_action("set", _set, "set or change quotas of an entity")
    _add_entity(changed)
    changed.add_argument("changes", nargs="*", type=_quota, metavar="KEY=VALUE")
    changed.add_argument(
        "--add-config", type=_several, action="extend", default=[], metavar="KEY=VALUE,...", help="the same"
    )
    deleted = parser.add_action("delete", _delete, "delete quotas of an entity")
    _add_entity(deleted)
    deleted.add_argument("keys", nargs="*", metavar="KEY", help="(default: all quotas of the entity)")
    deleted.add_argument(
        "--delete-config",
        type=keys,
        action="extend",
        default=[],
        metavar="KEY,...",
        help="the same",
    )
    deleted.add_argument("--strict", action="store_true", help="fail if one of the keys is not set")
    return parser


def _add_entity(parser: ClientParser) -> None:
    """Describe an entity in the words of kafka-configs."""
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
        raise argparse.ArgumentTypeError(f"{text!r}: {value!r} is not a number")
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
            raise CommandError(f"{_entity_text(entity)}: it has no quotas")
    elif options.strict:
        with session.administration() as client:
            own = {key for _, quotas in described(client, entity, strict=True) for key in quotas}
        if missing := [key for key in keys if key not in own]:
            raise CommandError(f"{_entity_text(entity)}: not set: {', '.join(missing)}")
    _alter(session, options, entity, dict.fromkeys(keys))


def _entity(options: argparse.Namespace) -> Entity:
    """Return the entity that the options name; empty if they name none."""
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
        raise UsageError("whose quotas: --user, --client, both of them, or --ip; or --user-defaults and its like")
    return entity


def described(client: Administration, entity: Entity, *, strict: bool) -> list[tuple[Entity, dict[str, float]]]:
    """Return entities with their quotas: `strict`, of this entity alone, else of all that contain its parts."""
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
        print_line(
            f"{_entity_text(entity)}: " + (f"{key} was removed" if value is None else f"{key}={plain_number(value)}")
        )


def alter(client: Administration, entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Set quotas of an entity; None deletes one. Raises CommandError."""
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
        client.check(each, _entity_text(entity))


def entity_names(entity: Entity) -> dict[str, str | None]:
    """Return the cells of a row; None for a part that the entity does not have."""
    return {option: entity[kind] or _DEFAULT if kind in entity else None for option, kind in _PARTS.items()}


def _entity_text(entity: Entity) -> str:
    return " ".join(f"{option} {name}" for option, name in entity_names(entity).items() if name is not None)


def plain_number(value: float | None) -> float | int | None:
    """Format a number without decimals if it is whole."""
    return int(value) if value is not None and value.is_integer() else value
