"""Decisions about access control entries (KIP-140): create, delete and describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from metadata.decision import MAX_RECORDS_PER_REQUEST, Decision, Refused
from metadata.features import ADDRESS_RANGES_LEVEL
from metadata.framing import new_record
from metadata.image import MetadataImage
from metadata.releases import release_name
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from protocol.schema import Struct
from security.acl import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from security.cidr import parse_range


class Created(msgspec.Struct, frozen=True):
    """The result for an entry."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class Deleted(msgspec.Struct, frozen=True):
    """The entries that a filter deleted."""

    acls: tuple[Acl, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


def entries(image: MetadataImage) -> Iterator[tuple[bytes, Acl]]:
    """Yield all entries, by id."""
    return ((acl_id, _entry(stored)) for acl_id, stored in image.acls.items())


def _entry(stored: Struct) -> Acl:
    return Acl(
        stored.resource_type,
        stored.resource_name,
        stored.pattern_type,
        stored.principal,
        stored.host,
        stored.operation,
        stored.permission_type,
    )


def create_acls(image: MetadataImage, acls: Sequence[Acl], new_id: Callable[[], bytes]) -> Decision[Created]:
    """Create each entry. For an existing entry the result is NONE, without a record."""
    decision: Decision[Created] = Decision()
    there = {acl for _, acl in entries(image)}
    for acl in acls:
        problem = _problem(acl, image.metadata_version)
        if problem is not None:
            decision.results.append(problem)
            continue
        decision.results.append(Created())
        if acl not in there:
            there.add(acl)
            fields = {"resource_name": acl.name, "permission_type": acl.permission} | acl._asdict()
            del fields["name"], fields["permission"]
            record = new_record(image.metadata_version, AccessControlEntryRecord, id=new_id(), **fields)
            decision.records.append(record)
    return decision


def _problem(acl: Acl, metadata_version: int) -> Created | None:
    """Return why a new entry is invalid, in Kafka's words, or None."""
    text = _problem_but_host(acl)
    if text is None and not acl.host:
        text = "Host pattern cannot be null or empty"
    if text is None and "/" in acl.host:
        if metadata_version < ADDRESS_RANGES_LEVEL:
            level = release_name(ADDRESS_RANGES_LEVEL)
            text = f"CIDR-based ACL host patterns require metadata version {level} or higher."
            return Created(ErrorCode.UNSUPPORTED_VERSION, text)
        try:
            parse_range(acl.host)
        except ValueError as error:
            text = f"Invalid CIDR notation '{acl.host}': {error}"
    return None if text is None else Created(ErrorCode.INVALID_REQUEST, text)


def _problem_but_host(acl: Acl) -> str | None:
    """Return why a new entry is invalid, whatever its host, or None."""
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    if acl.resource_type == ResourceType.ANY or acl.resource_type not in _RESOURCE_TYPES:
        return f"Invalid resourceType {_name(ResourceType, acl.resource_type)}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {_name(PatternType, acl.pattern_type)}"
    if acl.operation == Operation.ANY or acl.operation not in _OPERATIONS:
        return f"Invalid operation {_name(Operation, acl.operation)}"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {_name(Permission, acl.permission)}"
    kind, colon, _ = acl.principal.partition(":")
    if not colon or not kind:
        return (
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return None


_RESOURCE_TYPES, _OPERATIONS = frozenset(ResourceType), frozenset(Operation)
_PATTERN_TYPES, _PERMISSIONS = frozenset(PatternType), frozenset(Permission)


def _name(kind: type[ResourceType] | type[PatternType] | type[Operation] | type[Permission], number: int) -> str:
    return kind(number).name if number in frozenset(kind) else "UNKNOWN"


def delete_acls(image: MetadataImage, filters: Sequence[AclFilter]) -> Decision[Deleted]:
    """Delete the entries that each filter matches. An entry that several filters match is in the result of each."""
    decision: Decision[Deleted] = Decision()
    going: dict[bytes, None] = {}
    for wanted in filters:
        try:
            check_filter(wanted)
        except Refused as refusal:
            decision.results.append(Deleted((), refusal.error_code, refusal.message))
            continue
        found = [(acl_id, acl) for acl_id, acl in entries(image) if wanted.matches(acl)]
        going.update(dict.fromkeys(acl_id for acl_id, _ in found))
        decision.results.append(Deleted(tuple(acl for _, acl in found)))
    if len(going) > MAX_RECORDS_PER_REQUEST:
        text = f"Cannot remove more than {MAX_RECORDS_PER_REQUEST} acls in a single delete operation."
        return Decision(results=[Deleted((), ErrorCode.INVALID_REQUEST, text)] * len(filters))
    level = image.metadata_version
    decision.records += [new_record(level, RemoveAccessControlEntryRecord, id=acl_id) for acl_id in going]
    return decision


def check_filter(wanted: AclFilter) -> None:
    """Raise Refused for a filter with an unknown number."""
    if wanted.resource_type not in _RESOURCE_TYPES or wanted.pattern_type not in _PATTERN_TYPES:
        raise Refused(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if wanted.operation not in _OPERATIONS or wanted.permission not in _PERMISSIONS:
        raise Refused(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")


def describe_acls(image: MetadataImage, wanted: AclFilter) -> list[Acl]:
    """Return the entries that the filter matches, grouped by resource. Raises Refused."""
    check_filter(wanted)
    return sorted(acl for _, acl in entries(image) if wanted.matches(acl))
