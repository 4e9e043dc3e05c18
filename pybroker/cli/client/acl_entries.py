"""Access control entries, as numbers of the protocol: describing, creating and deleting them.

Two clients can send the requests. kafka-python knows all resources and operations, but not all login properties.
librdkafka knows all properties, but neither delegation tokens nor users as resources, and it reports no error if the
user may not list entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker.cli.client.errors import UsageError

if TYPE_CHECKING:
    from confluent_kafka.admin import AclBinding, AclBindingFilter

    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import Session

ANY = 1
#: The words of commands, and their numbers. "any" is for filters, "match" too.
RESOURCES: Mapping[str, int] = {
    "any": ANY,
    "topic": 2,
    "group": 3,
    "cluster": 4,
    "transactional-id": 5,
    "delegation-token": 6,
    "user": 7,
}
PATTERNS: Mapping[str, int] = {"any": ANY, "match": 2, "literal": 3, "prefixed": 4}
PERMISSIONS: Mapping[str, int] = {"any": ANY, "deny": 2, "allow": 3}
OPERATIONS: Mapping[str, int] = {
    "any": ANY,
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster-action": 9,
    "describe-configs": 10,
    "alter-configs": 11,
    "idempotent-write": 12,
    "create-tokens": 13,
    "describe-tokens": 14,
    "two-phase-commit": 15,
}


class AclEntry(NamedTuple):
    """An entry, or a filter of entries: None and ANY match everything."""

    resource: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    permission: int
    operation: int

    def row(self) -> dict[str, object]:
        """Return the entry in words."""
        return {
            "resource": _word(RESOURCES, self.resource),
            "name": self.name,
            "pattern": _word(PATTERNS, self.pattern),
            "principal": self.principal,
            "host": self.host,
            "permission": _word(PERMISSIONS, self.permission),
            "operation": _word(OPERATIONS, self.operation),
        }

    def __str__(self) -> str:
        return f"{self.principal} on {self.name}"


def describe(session: Session, filters: Sequence[AclEntry]) -> list[AclEntry]:
    """Return the entries that match one of the filters. Raises CommandError."""
    found: dict[AclEntry, None] = {}
    try:
        with session.administration() as client:
            for each in filters:
                found |= dict.fromkeys(_describe(client, each))
    except UsageError:  # login properties that kafka-python does not know
        for each in filters:
            future = session.admin.describe_acls(_librdkafka_filter(each), request_timeout=session.timeout_s)
            found |= dict.fromkeys(map(_entry, session.wait(future)))
    return list(found)


def create(session: Session, entries: Sequence[AclEntry]) -> None:
    """Create entries. Raises CommandError."""
    try:
        with session.administration() as client:
            _create(client, entries)
    except UsageError:
        wanted = [_librdkafka_entry(each) for each in entries]
        for binding, future in session.admin.create_acls(wanted, request_timeout=session.timeout_s).items():
            session.wait(future, f"{binding.principal} on {binding.name}")


def delete(session: Session, filters: Sequence[AclEntry]) -> list[AclEntry]:
    """Delete the entries that match one of the filters. Return them. Raises CommandError."""
    found: dict[AclEntry, None] = {}
    try:
        with session.administration() as client:
            return _delete(client, filters)
    except UsageError:
        wanted = [_librdkafka_filter(each) for each in filters]
        for future in session.admin.delete_acls(wanted, request_timeout=session.timeout_s).values():
            found |= dict.fromkeys(map(_entry, session.wait(future)))
    return list(found)


# -- kafka-python -----------------------------------------------------------------------------------------------------


def _describe(client: Administration, wanted: AclEntry) -> list[AclEntry]:
    from kafka.protocol.admin import DescribeAclsRequest

    answer = client.send(DescribeAclsRequest(**_filter_fields(wanted)))
    client.check(answer, _about(wanted))
    return [_entry_in(resource, each) for resource in answer.resources for each in resource.acls]


def _create(client: Administration, entries: Sequence[AclEntry]) -> None:
    from kafka.protocol.admin import CreateAclsRequest

    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=each.resource,
            resource_name=each.name,
            resource_pattern_type=each.pattern,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in entries
    ]
    results = client.send(CreateAclsRequest(creations=creations)).results
    for entry, result in zip(entries, results, strict=True):
        client.check(result, str(entry))


def _delete(client: Administration, filters: Sequence[AclEntry]) -> list[AclEntry]:
    from kafka.protocol.admin import DeleteAclsRequest

    wanted = [DeleteAclsRequest.DeleteAclsFilter(**_filter_fields(each)) for each in filters]
    deleted: dict[AclEntry, None] = {}
    for each, result in zip(filters, client.send(DeleteAclsRequest(filters=wanted)).filter_results, strict=True):
        client.check(result, _about(each))
        for acl in result.matching_acls:
            client.check(acl, _about(each))
            deleted[_entry_in(acl, acl)] = None
    return list(deleted)


def _filter_fields(wanted: AclEntry) -> dict[str, Any]:
    """Return a filter as DescribeAcls and DeleteAcls have it."""
    return {
        "resource_type_filter": wanted.resource,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _entry_in(resource: Any, acl: Any) -> AclEntry:
    """Return an entry of a response: DescribeAcls has the resource once for several entries."""
    return AclEntry(
        resource.resource_type,
        resource.resource_name,
        resource.pattern_type,
        acl.principal,
        acl.host,
        acl.permission_type,
        acl.operation,
    )


def _about(wanted: AclEntry) -> str:
    """Return what an error is about: the resource, or the cluster if the filter names none."""
    return wanted.name or "kafka-cluster"


# -- librdkafka -------------------------------------------------------------------------------------------------------


def _librdkafka_entry(entry: AclEntry) -> AclBinding:
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

    assert entry.name is not None
    assert entry.principal is not None
    assert entry.host is not None
    return AclBinding(
        ResourceType(_known(entry.resource, ResourceType)),
        entry.name,
        ResourcePatternType(entry.pattern),
        entry.principal,
        entry.host,
        AclOperation(_known(entry.operation, AclOperation)),
        AclPermissionType(entry.permission),
    )


def _librdkafka_filter(wanted: AclEntry) -> AclBindingFilter:
    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    return AclBindingFilter(
        ResourceType(_known(wanted.resource, ResourceType)),
        wanted.name,  # type: ignore[arg-type]  # None matches all
        ResourcePatternType(wanted.pattern),
        wanted.principal,  # type: ignore[arg-type]  # None matches all
        wanted.host,  # type: ignore[arg-type]  # None matches all
        AclOperation(_known(wanted.operation, AclOperation)),
        AclPermissionType(wanted.permission),
    )


def _known(number: int, kind: type) -> int:
    """Return the number of a resource or operation. Raises UsageError for one that librdkafka does not know."""
    if number not in {each.value for each in kind}:  # type: ignore[attr-defined]
        raise UsageError("these login properties are unknown to kafka-python, and these entries to librdkafka")
    return number


def _entry(binding: AclBinding) -> AclEntry:
    return AclEntry(
        _number(binding.restype),
        binding.name,
        _number(binding.resource_pattern_type),
        binding.principal,
        binding.host,
        _number(binding.permission_type),
        _number(binding.operation),
    )


def _number(member: Any) -> int:  # an enumeration's member, once the library has made it one
    return int(member.value)


def _word(words: Mapping[str, int], number: int) -> str:
    return next((word for word, its in words.items() if its == number), str(number))
