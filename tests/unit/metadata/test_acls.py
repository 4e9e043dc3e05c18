"""Access control entries as records, with Kafka's errors."""

from __future__ import annotations

from itertools import count

import pytest

from metadata.acls import Created, Deleted, create_acls, delete_acls, describe_acls
from metadata.decision import Refused
from metadata.features import ADDRESS_RANGES_LEVEL, METADATA_VERSION
from metadata.image import MetadataImage
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from security.acl import CLUSTER_NAME, Acl, AclFilter

TOPIC, CLUSTER = 2, 4
READ = Acl(TOPIC, "t", 3, "User:alice", "*", 3, 3)
WRITE = READ._replace(operation=4, permission=2, host="10.0.0.1", pattern_type=4)


def create(image: MetadataImage, *acls: Acl) -> list[Created]:
    numbers = count(len(image.acls) + 1)
    decision = create_acls(image, acls, lambda: next(numbers).to_bytes(16))
    assert replay_all(image, decision.records).changed_acls is bool(decision.records)
    return decision.results


def test_create_describe_and_delete(image: MetadataImage) -> None:
    assert create(image, READ, WRITE) == [Created(), Created()]
    assert describe_acls(image, AclFilter()) == [READ, WRITE]
    assert describe_acls(image, AclFilter(operation=4)) == [WRITE]

    decision = delete_acls(image, [AclFilter(operation=3), AclFilter(name="t"), AclFilter(name="other")])
    assert decision.results == [Deleted((READ,)), Deleted((READ, WRITE)), Deleted(())]
    assert len(decision.records) == 2
    assert replay_all(image, decision.records).changed_acls
    assert describe_acls(image, AclFilter()) == []


def test_existing_entry_is_accepted(image: MetadataImage) -> None:
    """Without another record, also twice in one request."""
    assert create(image, READ, READ) == [Created(), Created()]
    assert create(image, READ) == [Created()]
    assert len(image.acls) == 1


def test_too_many_entries_change_nothing(image: MetadataImage) -> None:
    """One request is one batch of at most 10,000 records; the controller refuses others."""
    many = [READ._replace(name=f"t{number}") for number in range(10_001)]
    assert create(image, *many) == [Created()] * 10_001
    text = "Cannot remove more than 10000 acls in a single delete operation."
    decision = delete_acls(image, [AclFilter(name="t1"), AclFilter(), AclFilter(name="t2")])
    assert decision.results == [Deleted((), ErrorCode.INVALID_REQUEST, text)] * 3
    assert decision.records == []
    assert len(delete_acls(image, [AclFilter(name="t1"), AclFilter(name="t1")]).records) == 1


@pytest.mark.parametrize(
    ("acl", "message"),
    [
        (READ._replace(resource_type=0), "Invalid resourceType UNKNOWN"),
        (READ._replace(resource_type=1), "Invalid resourceType ANY"),
        (READ._replace(pattern_type=2), "Invalid patternType MATCH"),
        (READ._replace(operation=1), "Invalid operation ANY"),
        (READ._replace(operation=99), "Invalid operation UNKNOWN"),
        (READ._replace(permission=1), "Invalid permissionType ANY"),
        (READ._replace(name=""), "Invalid empty resource name"),
        (READ._replace(resource_type=CLUSTER), f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"),
    ],
)
def test_rejected_entries(image: MetadataImage, acl: Acl, message: str) -> None:
    """The other entries of the request are created."""
    assert create(image, acl, READ) == [Created(ErrorCode.INVALID_REQUEST, message), Created()]


@pytest.mark.parametrize("host", ["10.0.0.0/8", "10.1.2.3/8", "2001:DB8::1/32", "0.0.0.0/0"])
def test_ranges_of_addresses_are_kept_as_typed(image: MetadataImage, host: str) -> None:
    image.features[METADATA_VERSION] = ADDRESS_RANGES_LEVEL
    acl = READ._replace(host=host)
    assert create(image, acl) == [Created()]
    assert describe_acls(image, AclFilter(host=host)) == [acl]
    assert describe_acls(image, AclFilter(host="10.0.0.1")) == []
    assert delete_acls(image, [AclFilter(host=host)]).results == [Deleted((acl,))]


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("x/0", "Could not parse [x/0]"),
        ("::ffff:10.0.0.0/104", "Could not parse [::ffff:10.0.0.0] - not an IPv6 address"),
    ],
)
def test_malformed_ranges_of_addresses(image: MetadataImage, host: str, reason: str) -> None:
    image.features[METADATA_VERSION] = ADDRESS_RANGES_LEVEL
    message = f"Invalid CIDR notation '{host}': {reason}"
    assert create(image, READ._replace(host=host)) == [Created(ErrorCode.INVALID_REQUEST, message)]


def test_ranges_of_addresses_need_a_level(image: MetadataImage) -> None:
    """Below it, malformed ones get the same answer."""
    image.features[METADATA_VERSION] = ADDRESS_RANGES_LEVEL - 1
    message = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
    for host in ("10.0.0.0/8", "x/0"):
        assert create(image, READ._replace(host=host)) == [Created(ErrorCode.UNSUPPORTED_VERSION, message)]


def test_the_host_is_checked_last(image: MetadataImage) -> None:
    empty = READ._replace(host="")
    assert create(image, empty) == [Created(ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty")]
    (created,) = create(image, empty._replace(principal="alice"))
    assert created.error_message.startswith("Could not parse principal")


def test_a_principal_has_a_type(image: MetadataImage) -> None:
    (created,) = create(image, READ._replace(principal="alice"))
    assert created.error_message.startswith("Could not parse principal from `alice`")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [(AclFilter(resource_type=0), "Unknown patternFilter."), (AclFilter(permission=9), "Unknown entryFilter.")],
)
def test_invalid_filters(image: MetadataImage, wanted: AclFilter, message: str) -> None:
    assert delete_acls(image, [wanted]).results == [Deleted((), ErrorCode.INVALID_REQUEST, message)]
    with pytest.raises(Refused):
        describe_acls(image, wanted)
