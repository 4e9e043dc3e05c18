"""`pybroker acls`: who may do what, listed, granted and taken back."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
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
  pybroker acls remove --allow-principal User:shop --topic orders"""

_CLUSTER = "kafka-cluster"
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
    """Run the command; return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """The command line, whose help is also a page of the site."""
    parser = ClientParser("pybroker acls", "Access control entries of a cluster.", _EXAMPLES)
    listed = parser.add_action("list", _list, "entries, all or those that match")
    added = parser.add_action("add", _add, "make entries, one for each operation")
    removed = parser.add_action("remove", _remove, "delete the entries that match")
    for action, patterns in (
        (listed, ("any", "match", *_PATTERNS)),
        (added, _PATTERNS),
        (removed, ("any", *_PATTERNS)),
    ):
        _add_entry(action, patterns)
    return parser


def _add_entry(parser: ClientParser, patterns: Sequence[str]) -> None:
    resource = parser.add_mutually_exclusive_group()
    for name in ("topic", "group", "transactional-id"):
        resource.add_argument(f"--{name}", help="* for all of them" if "match" not in patterns else None)
    resource.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument(
        "--resource-pattern-type", choices=patterns, default=patterns[0], help=f"how names are meant ({patterns[0]})"
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--allow-principal", metavar="User:NAME")
    who.add_argument("--deny-principal", metavar="User:NAME")
    parser.add_argument("--host", help="from which address; unless given, from all")
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
    """Raise CommandError where there is nothing to see because one may not, or there is no authorizer.

    confluent-kafka has no entries then, and no error.
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
    except UsageError:  # properties that this client has no names for: then it stays at that
        return


def _add(session: Session, options: argparse.Namespace) -> None:
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType

    kind, name = _resource(options)
    principal = options.allow_principal or options.deny_principal
    if name is None or principal is None or not options.operation:
        raise UsageError("an entry has a resource, a principal and operations: see --help")
    permission = AclPermissionType.ALLOW if options.allow_principal else AclPermissionType.DENY
    pattern = ResourcePatternType[options.resource_pattern_type.upper()]
    wanted = [
        AclBinding(kind, name, pattern, principal, options.host or "*", AclOperation[_upper(word)], permission)
        for word in options.operation
    ]
    for each, future in session.admin.create_acls(wanted, request_timeout=session.timeout_s).items():
        session.wait(future, f"{principal} on {each.name}")
    show(map(binding_row, wanted), as_json=options.json)


def _remove(session: Session, options: argparse.Namespace) -> None:
    if _resource(options)[1] is None and not (options.allow_principal or options.deny_principal):
        raise UsageError("of which resource or principal? all at once are not removed")
    removed: list[AclBinding] = []
    for future in session.admin.delete_acls(list(_filters(options)), request_timeout=session.timeout_s).values():
        removed += session.wait(future)
    show(map(binding_row, removed), as_json=options.json)


def _filters(options: argparse.Namespace) -> Iterator[AclBindingFilter]:
    from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType

    kind, name = _resource(options)
    permission = AclPermissionType.ANY
    if options.allow_principal or options.deny_principal:
        permission = AclPermissionType.ALLOW if options.allow_principal else AclPermissionType.DENY
    for word in options.operation or ["any"]:
        yield AclBindingFilter(
            kind,
            name,
            ResourcePatternType[options.resource_pattern_type.upper()],
            options.allow_principal or options.deny_principal,
            options.host,
            AclOperation[_upper(word)],
            permission,
        )


def _resource(options: argparse.Namespace) -> tuple[ResourceType, Any]:
    """The kind of what is protected, and its name; any, and None, where it is not said. UsageError for an empty word:
    that of a shell's variable which is not set must not stand for all there are.
    """
    from confluent_kafka.admin import ResourceType

    for option in ("topic", "group", "transactional_id", "allow_principal", "deny_principal", "host"):
        if getattr(options, option) == "":
            raise UsageError(f"--{option.replace('_', '-')}: which one? it is empty")

    if options.cluster:
        return ResourceType.BROKER, _CLUSTER  # the number is the cluster's
    for kind, name in (
        (ResourceType.TOPIC, options.topic),
        (ResourceType.GROUP, options.group),
        (ResourceType.TRANSACTIONAL_ID, options.transactional_id),
    ):
        if name is not None:
            return kind, name
    return ResourceType.ANY, None


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
