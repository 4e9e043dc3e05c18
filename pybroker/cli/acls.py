"""`pybroker acls`: list, add and remove access control entries."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show

if TYPE_CHECKING:
    from confluent_kafka.admin import AclBinding, AclBindingFilter, ResourceType

    from pybroker.cli.client.session import Session

_EXAMPLES = """\
examples:
  pybroker acls list --topic orders
  pybroker acls add --allow-principal User:shop --operation read --topic orders
  pybroker acls add --allow-principal User:shop --operation read --group shop- --resource-pattern-type prefixed
  pybroker acls add --allow-principal User:shop --consumer --topic orders --group shop
  pybroker acls remove --allow-principal User:shop --topic orders"""

_CLUSTER = "kafka-cluster"
_NAMED = ("topic", "group", "transactional_id")
#: The operations that a kind of client needs, by resource.
_ROLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "producer": {"topic": ("write", "describe", "create"), "transactional_id": ("write", "describe")},
    "consumer": {"topic": ("read", "describe"), "group": ("read",)},
}
#: The resources that each kind of client must name.
_NEEDED = {"producer": ("topic",), "consumer": ("topic", "group")}
_PATTERNS = ("literal", "prefixed")
_OPERATIONS = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
)


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker acls", "Access control entries of a cluster.", _EXAMPLES)
    listed = parser.add_action("list", _list, "entries, all or those that match")
    added = parser.add_action("add", _add, "add entries, one for each operation")
    removed = parser.add_action("remove", _remove, "delete the entries that match")
    for action, patterns in (
        (listed, ("any", "match", *_PATTERNS)),
        (added, _PATTERNS),
        (removed, ("any", *_PATTERNS)),
    ):
        _add_entry(action, patterns)
    for action in (added, removed):
        action.add_argument("--producer", action="store_true", help="everything that a producer to --topic needs")
        action.add_argument(
            "--consumer", action="store_true", help="everything that a consumer of --topic in --group needs"
        )
    return parser


def _add_entry(parser: ClientParser, patterns: Sequence[str]) -> None:
    for name in ("topic", "group", "transactional-id"):
        about = "can be repeated" if "match" in patterns else "* for all; can be repeated"
        parser.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=about)
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument(
        "--resource-pattern-type", choices=patterns, default=patterns[0], help=f"how to match names ({patterns[0]})"
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--allow-principal", metavar="User:NAME")
    who.add_argument("--deny-principal", metavar="User:NAME")
    parser.add_argument("--host", help="the client's address (default: any)")
    parser.add_argument(
        "--operation", type=_operation, action="append", metavar="OPERATION", help=", ".join(_OPERATIONS)
    )


def _operation(text: str) -> str:
    word = text.lower().replace("_", "-")
    word = {"clusteraction": "cluster-action", "describeconfigs": "describe-configs"}.get(word, word)
    word = {"alterconfigs": "alter-configs", "idempotentwrite": "idempotent-write"}.get(word, word)
    if word not in _OPERATIONS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(_OPERATIONS)}")
    return word


def _list(session: Session, options: argparse.Namespace) -> None:
    rows = []
    for each in _filters(options):
        rows += session.wait(session.admin.describe_acls(each, request_timeout=session.timeout_s))
    if not rows:
        _check_allowed(session)
    show(sorted(map(binding_row, rows), key=lambda row: [str(cell) for cell in row.values()]), as_json=options.json)


def _check_allowed(session: Session) -> None:
    """Raise CommandError if the list is empty because the user is not authorized, or there is no authorizer.

    confluent-kafka returns no entries then, and no error.
    """
    from kafka.protocol.admin import DescribeAclsRequest

    anything = 1
    try:
        with session.administration() as client:
            asked = DescribeAclsRequest(
                resource_type_filter=anything,
                resource_name_filter=None,
                pattern_type_filter=anything,
                principal_filter=None,
                host_filter=None,
                operation=anything,
                permission_type=anything,
            )
            client.check(client.send(asked), _CLUSTER)
    except UsageError:  # this client does not know the properties: skip the check
        return


def _add(session: Session, options: argparse.Namespace) -> None:
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType

    entries = entries_of(options)
    principal = options.allow_principal or options.deny_principal
    if not entries or principal is None:
        raise UsageError("an entry has a resource, a principal and operations: see --help")
    permission = AclPermissionType.ALLOW if options.allow_principal else AclPermissionType.DENY
    pattern = ResourcePatternType[options.resource_pattern_type.upper()]
    host = options.host or "*"
    wanted = [
        AclBinding(_type_of(kind), name, pattern, principal, host, AclOperation[_upper(word)], permission)
        for kind, name, word in entries
    ]
    for each, future in session.admin.create_acls(wanted, request_timeout=session.timeout_s).items():
        session.wait(future, f"{principal} on {each.name}")
    show(map(binding_row, wanted), as_json=options.json)


def _remove(session: Session, options: argparse.Namespace) -> None:
    filters = list(_filters(options))
    if not _places(options) and not (options.allow_principal or options.deny_principal):
        raise UsageError("of which resource or principal? all at once are not removed")
    removed: list[AclBinding] = []
    for future in session.admin.delete_acls(filters, request_timeout=session.timeout_s).values():
        removed += session.wait(future)
    show(map(binding_row, removed), as_json=options.json)


def _filters(options: argparse.Namespace) -> Iterator[AclBindingFilter]:
    from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType

    permission = AclPermissionType.ANY
    if options.allow_principal or options.deny_principal:
        permission = AclPermissionType.ALLOW if options.allow_principal else AclPermissionType.DENY
    places: list[tuple[str, Any]] = [*_places(options)] or [("any", None)]
    wanted = [(kind, name, word) for kind, name in places for word in options.operation or ["any"]]
    for kind, name, word in _entries_of_roles(options) or wanted:
        yield AclBindingFilter(
            _type_of(kind),
            name,
            ResourcePatternType[options.resource_pattern_type.upper()],
            options.allow_principal or options.deny_principal,
            options.host,
            AclOperation[_upper(word)],
            permission,
        )


def entries_of(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return resource type, resource name and operation of each entry on the command line. Raises UsageError."""
    by_operation = [(kind, name, word) for kind, name in _places(options) for word in options.operation or ()]
    return _entries_of_roles(options) or by_operation


def _entries_of_roles(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return the entries for --producer and --consumer. Raises UsageError."""
    roles = [role for role in _ROLES if getattr(options, role, False)]
    for role in roles:
        if options.operation:
            raise UsageError(f"--operation: --{role} says which")
        if missing := [name for name in _NEEDED[role] if not getattr(options, name)]:
            raise UsageError(f"--{role}: of which {' and '.join(missing)}?")
    found = [
        (kind, name, word) for role in roles for kind, name in _places(options) for word in _ROLES[role].get(kind, ())
    ]
    return list(dict.fromkeys(found))


def _places(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the names by resource type. Raises UsageError for an empty name: a shell variable that is not set must not
    mean all resources.
    """
    found = [(kind, name) for kind in _NAMED for name in getattr(options, kind)]
    others = [(option, getattr(options, option)) for option in ("allow_principal", "deny_principal", "host")]
    for option, value in (*found, *others):
        if value == "":
            raise UsageError(f"--{option.replace('_', '-')}: which one? it is empty")
    return [*found, ("cluster", _CLUSTER)] if options.cluster else found


def _type_of(kind: str) -> ResourceType:
    from confluent_kafka.admin import ResourceType

    return ResourceType["BROKER" if kind == "cluster" else kind.upper()]  # whose number is the cluster's


def binding_row(entry: AclBinding) -> dict[str, object]:
    def word(each: Any) -> str:  # an enumeration's member, once the library has made it one
        return str(each.name).lower().replace("_", "-")

    kind = word(entry.restype)
    return {
        "resource": "cluster" if kind == "broker" else kind,
        "name": entry.name,
        "pattern": word(entry.resource_pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "permission": word(entry.permission_type),
        "operation": word(entry.operation),
    }


def _upper(word: str) -> str:
    return word.upper().replace("-", "_")
