"""Access control entries.

They use kafka-python's messages: librdkafka has no users and delegation tokens as resources, and turns the broker's
refusal to list entries into an empty list.
"""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from enum import IntEnum

from console.cluster.client import Client
from security.acl import Operation, PatternType, Permission, ResourceType


def _words(kind: type[IntEnum]) -> dict[str, int]:
    """Return the words of an enumeration with their numbers, without those for filters only."""
    return {each.name.lower().replace("_", "-"): each.value for each in kind if each.name not in ("ANY", "MATCH")}


RESOURCES = _words(ResourceType)
PATTERNS = _words(PatternType)
PERMISSIONS = _words(Permission)
OPERATIONS = _words(Operation)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry, in the words of the tables above; WILDCARD is any name, any host."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    permission: str
    operation: str

    def row(self) -> dict[str, str]:
        """By the names of its fields."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.principal} on {self.resource} {self.name}"


def entries(client: Client) -> list[Entry]:
    """All of them, by what they are about."""
    from kafka.protocol.admin import DescribeAclsRequest

    with client.session() as session, session.administration() as administration:
        everything = DescribeAclsRequest(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        answer = administration.send(everything)
        administration.check(answer)
    found = (
        Entry(
            _word(RESOURCES, resource.resource_type),
            resource.resource_name,
            _word(PATTERNS, resource.pattern_type),
            acl.principal,
            acl.host,
            _word(PERMISSIONS, acl.permission_type),
            _word(OPERATIONS, acl.operation),
        )
        for resource in answer.resources
        for acl in resource.acls
    )
    return sorted(found, key=astuple)


def add(client: Client, entry: Entry) -> None:
    """Make it; one that is there already stays as it is."""
    from kafka.protocol.admin import CreateAclsRequest

    creation = CreateAclsRequest.AclCreation(
        resource_type=RESOURCES[entry.resource],
        resource_name=entry.name,
        resource_pattern_type=PATTERNS[entry.pattern],
        principal=entry.principal,
        host=entry.host,
        operation=OPERATIONS[entry.operation],
        permission_type=PERMISSIONS[entry.permission],
    )
    with client.session() as session, session.administration() as administration:
        for result in administration.send(CreateAclsRequest(creations=[creation])).results:
            administration.check(result, str(entry))


def delete(client: Client, entry: Entry) -> bool:
    """Delete this one alone. Returns whether it was there."""
    from kafka.protocol.admin import DeleteAclsRequest

    only = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=RESOURCES[entry.resource],
        resource_name_filter=entry.name,
        pattern_type_filter=PATTERNS[entry.pattern],
        principal_filter=entry.principal,
        host_filter=entry.host,
        operation=OPERATIONS[entry.operation],
        permission_type=PERMISSIONS[entry.permission],
    )
    with client.session() as session, session.administration() as administration:
        (result,) = administration.send(DeleteAclsRequest(filters=[only])).filter_results
        administration.check(result, str(entry))
        for each in result.matching_acls:
            administration.check(each, str(entry))
        return bool(result.matching_acls)


def _word(words: dict[str, int], number: int) -> str:
    return next((word for word, its in words.items() if its == number), str(number))
