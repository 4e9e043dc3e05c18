"""`pybroker acls`: list, add and remove access control entries.

Defaults are those of kafka-acls: names are literal, an entry is for all hosts and for the operation `all`. So `remove`
with a principal removes exactly the entries that `add` with the same options adds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from pybroker.cli.client.acl_entries import (
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    RESOURCES,
    AclEntry,
    create,
    delete,
    describe,
)
from pybroker.cli.client.command import run
from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show

if TYPE_CHECKING:
    from pybroker.cli.client.session import Session

_EXAMPLES = """\
examples:
  pybroker acls list --topic orders
  pybroker acls list --principal User:shop
  pybroker acls add --allow-principal User:shop --operation read --topic orders
  pybroker acls add --allow-principal User:shop --operation read --group shop- --resource-pattern-type prefixed
  pybroker acls add --allow-principal User:shop --consumer --topic orders --group shop
  pybroker acls remove --allow-principal User:shop --operation read --topic orders
  pybroker acls remove --allow-principal User:shop --operation any --host any --topic orders
  pybroker acls remove --topic orders                        (of all principals)"""

_CLUSTER = "kafka-cluster"
#: Options with names of resources, and the resources.
_NAMED = {
    "topic": "topic",
    "group": "group",
    "transactional_id": "transactional-id",
    "delegation_token": "delegation-token",
    "user_principal": "user",
}
#: The operations that a kind of client needs, by resource.
_ROLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "producer": {"topic": ("write", "describe", "create"), "transactional-id": ("write", "describe")},
    "consumer": {"topic": ("read", "describe"), "group": ("read",)},
}
#: The resources that each kind of client must name.
_NEEDED = {"producer": ("topic",), "consumer": ("topic", "group")}
_ADDED = ("literal", "prefixed")
#: The operations of each resource, as kafka-acls checks them.
_OPERATIONS_OF: Mapping[str, Sequence[str]] = {
    "topic": ("read", "write", "create", "describe", "delete", "alter", "describe-configs", "alter-configs"),
    "group": ("read", "describe", "delete", "describe-configs", "alter-configs"),
    "cluster": (
        *("create", "cluster-action", "describe-configs", "alter-configs", "idempotent-write"),
        *("alter", "describe"),
    ),
    "transactional-id": ("describe", "write", "two-phase-commit"),
    "delegation-token": ("describe",),
    "user": ("create-tokens", "describe-tokens"),
}
_ALL = "*"
_ANY = "any"


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker acls", "Access control entries of a cluster.", _EXAMPLES)
    listed = parser.add_action("list", _list, "entries, all or those of these resources")
    added = parser.add_action("add", _add, "add entries, one for each resource, principal, host and operation")
    removed = parser.add_action("remove", _remove, "delete such entries; without a principal, all of the resources")
    for action, patterns in ((listed, (*PATTERNS,)), (added, _ADDED), (removed, (*PATTERNS,))):
        _add_resources(action, patterns)
    listed.add_argument(
        "--principal", action="append", default=[], metavar="User:NAME", help="only of these; can be repeated"
    )
    for action in (listed, added, removed):
        _add_entry(action, is_filter=action is not added)
    for action in (added, removed):
        action.add_argument("--producer", action="store_true", help="everything that a producer to --topic needs")
        action.add_argument(
            "--consumer", action="store_true", help="everything that a consumer of --topic in --group needs"
        )
        action.add_argument("--idempotent", action="store_true", help="with --producer: for an idempotent producer")
    return parser


def _add_resources(parser: ClientParser, patterns: Sequence[str]) -> None:
    for name in _NAMED:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(
            option, action="append", default=[], metavar="NAME", help="can be repeated; * is a name too"
        )
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument(
        "--resource-pattern-type",
        type=str.lower,
        choices=patterns,
        default="literal",
        help="which entries of these names (literal); any: of these exact names; match: that apply to these names"
        if _ANY in patterns
        else "prefixed: for all names that begin so (literal)",
    )


def _add_entry(parser: ClientParser, *, is_filter: bool) -> None:
    for word in ("allow", "deny"):
        parser.add_argument(f"--{word}-principal", action="append", default=[], metavar="User:NAME")
        parser.add_argument(
            f"--{word}-host",
            action="append",
            default=[],
            metavar="ADDRESS",
            help="an address or a range such as 10.0.0.0/8 (default: * for all)",
        )
    parser.add_argument(
        "--host", action="append", default=[], metavar="ADDRESS", help="the same for all principals of the line"
    )
    parser.add_argument(
        "--operation",
        type=_operation if is_filter else _operation_of_entry,
        action="append",
        default=[],
        metavar="OPERATION",
        help=f"(default: all) {', '.join(word for word in OPERATIONS if is_filter or word != _ANY)}",
    )


def _operation(text: str) -> str:
    plain = text.lower().replace("_", "").replace("-", "")
    for word in OPERATIONS:
        if word.replace("-", "") == plain:
            return word
    raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(OPERATIONS)}")


def _operation_of_entry(text: str) -> str:
    word = _operation(text)
    if word == _ANY:
        raise argparse.ArgumentTypeError(f"{text!r}: an entry has one operation; all stands for every one")
    return word


def _list(session: Session, options: argparse.Namespace) -> None:
    rows = [each.row() for each in describe(session, _list_filters(options))]
    show(sorted(rows, key=lambda row: [str(cell) for cell in row.values()]), as_json=options.json)


def _list_filters(options: argparse.Namespace) -> list[AclEntry]:
    """Return filters of the entries to list: any operation and host, unless the options name some."""
    who: list[tuple[str | None, str, str]] = [*_who(options, default_host=_ANY)]
    who += [(principal, _ANY, _ANY) for principal in options.principal]
    return _filters(options, who or [(None, _ANY, host) for host in options.host or [_ANY]])


def _filters(options: argparse.Namespace, who: Sequence[tuple[str | None, str, str]]) -> list[AclEntry]:
    """Return a filter for each resource of the options, principal and operation; all resources if there are none."""
    resources: list[tuple[str, str | None]] = [*_places(options)]
    return [
        AclEntry(
            RESOURCES[kind],
            name,
            _pattern(options, kind),
            principal,
            None if host == _ANY else host,
            PERMISSIONS[permission],
            OPERATIONS[word],
        )
        for kind, name in resources or [(_ANY, None)]
        for principal, permission, host in who
        for word in options.operation or [_ANY]
    ]


def _pattern(options: argparse.Namespace, kind: str) -> int:
    """Return the pattern type of a resource. The cluster has one name, and no resource means all patterns."""
    if kind == _ANY:
        return PATTERNS[_ANY]
    return PATTERNS["literal" if kind == "cluster" else options.resource_pattern_type]


def _add(session: Session, options: argparse.Namespace) -> None:
    wanted = list(_entries(options))
    if not wanted:
        raise UsageError("an entry has a resource, a principal and operations: see --help")
    create(session, wanted)
    show([each.row() for each in wanted], as_json=options.json)


def _remove(session: Session, options: argparse.Namespace) -> None:
    removed = delete(session, filters_of(options))
    show([each.row() for each in removed], as_json=options.json)


def filters_of(options: argparse.Namespace) -> list[AclEntry]:
    """Return filters of the entries that `remove` deletes. Raises UsageError.

    With a principal these are the entries that `add` would make. Without one, they are all of the resources, with any
    host and operation. Without a resource they are all of the principal.
    """
    resources, entries = _places(options), list(_entries(options))
    if entries:
        return [each._replace(host=None if each.host == _ANY else each.host) for each in entries]
    who = _who(options, default_host=_ANY)
    if not resources and not who:
        raise UsageError("of which resource or principal? all at once are not removed")
    return _filters(options, who or [(None, _ANY, host) for host in options.host or [_ANY]])


def _entries(options: argparse.Namespace) -> Iterator[AclEntry]:
    """Yield the entries that the options describe; none without a resource or a principal. Raises UsageError."""
    who = _who(options, default_host=_ALL)
    for (kind, name, word), (principal, permission, host) in product(operations_of(options), who):
        yield AclEntry(
            RESOURCES[kind],
            name,
            _pattern(options, kind),
            principal,
            host,
            PERMISSIONS[permission],
            OPERATIONS[word],
        )


def _who(options: argparse.Namespace, *, default_host: str) -> list[tuple[str, str, str]]:
    """Return principal, permission and host of the entries. Raises UsageError."""
    found = []
    for permission in ("allow", "deny"):
        hosts = [*getattr(options, f"{permission}_host"), *options.host] or [default_host]
        principals = getattr(options, f"{permission}_principal")
        if getattr(options, f"{permission}_host") and not principals:
            raise UsageError(f"--{permission}-host is for --{permission}-principal")
        for principal in principals:
            kind, colon, name = principal.partition(":")
            if principal and not (kind and colon and name):
                raise UsageError(f"{principal!r} is not a principal, such as User:shop")
        found += [(principal, permission, host) for principal in principals for host in hosts]
    return list(dict.fromkeys(found))


def operations_of(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return resource type, resource name and operation of each entry on the command line. Raises UsageError."""
    if options.idempotent and not options.producer:
        raise UsageError("--idempotent is for --producer")
    places = _places(options)
    roles = [role for role in _ROLES if getattr(options, role)]
    if not roles:
        found = [(kind, name, word) for kind, name in places for word in options.operation or ["all"]]
        for kind, _, word in found:
            if word not in (_ANY, "all") and word not in _OPERATIONS_OF[kind]:
                raise UsageError(f"{kind} has no operation {word}: all, {', '.join(_OPERATIONS_OF[kind])}")
        return found
    for role in roles:
        if options.operation:
            raise UsageError(f"--operation: --{role} says which")
        if options.deny_principal or options.deny_host:
            raise UsageError(f"--deny-principal: --{role} allows")
        if missing := [name for name in _NEEDED[role] if not getattr(options, name)]:
            raise UsageError(f"--{role}: of which {' and '.join(missing)}?")
    if roles == ["consumer"] and (options.cluster or options.transactional_id):
        raise UsageError("--consumer needs neither --cluster nor --transactional-id")
    found = [(kind, name, word) for role in roles for kind, name in places for word in _ROLES[role].get(kind, ())]
    if options.idempotent:
        found.append(("cluster", _CLUSTER, "idempotent-write"))
    return list(dict.fromkeys(found))


def _places(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the names by resource type. Raises UsageError for an empty name: a shell variable that is not set must not
    mean all resources.
    """
    named = [(option, name) for option in _NAMED for name in getattr(options, option)]
    others = [
        (option, value)
        for option in ("allow_principal", "deny_principal", "principal", "allow_host", "deny_host", "host")
        for value in getattr(options, option, ())
    ]
    for option, value in (*named, *others):
        if value == "":
            raise UsageError(f"--{option.replace('_', '-')}: which one? it is empty")
    found = [(_NAMED[option], name) for option, name in named]
    return [*found, ("cluster", _CLUSTER)] if options.cluster else found
