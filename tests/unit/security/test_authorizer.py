"""Decisions as in Apache Kafka's StandardAuthorizer."""

from __future__ import annotations

import pytest

from security.acl import ANY_PRINCIPAL, Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from security.authorizer import Authorizer

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ALLOW, DENY = Permission.ALLOW, Permission.DENY
PREFIXED = PatternType.PREFIXED
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL


def entry(
    name: str,
    operation: Operation = READ,
    permission: Permission = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def allowed(
    acls: list[Acl], name: str, operation: Operation = READ, *, by_default: bool = False, host: str = "10.0.0.1"
) -> bool:
    authorizer = Authorizer({"User:root"}, allow_without_entry=by_default)
    authorizer.load(acls)
    assert authorizer.decide("User:root", host, operation, TOPIC, name).allowed
    first = authorizer.decide("User:alice", host, operation, TOPIC, name)
    assert authorizer.decide("User:alice", host, operation, TOPIC, name) is first  # cached
    return first.allowed


@pytest.mark.parametrize("by_default", [True, False])
def test_no_entry_at_all(by_default: bool) -> None:
    """The setting decides; entries of another kind or topic do not count."""
    assert allowed([], "t", by_default=by_default) is by_default
    assert allowed([entry("t", kind=GROUP)], "t", by_default=by_default) is by_default
    assert allowed([entry("other")], "t", by_default=by_default) is by_default


@pytest.mark.parametrize(
    ("acl", "name", "expected"),
    [
        (entry("t"), "t", True),
        (entry("t"), "tt", False),
        (entry("*"), "anything", True),
        (entry("ab", pattern=PREFIXED), "abc", True),
        (entry("ab", pattern=PREFIXED), "ab", True),
        (entry("ab", pattern=PREFIXED), "a", False),
        (entry("*", pattern=PREFIXED), "abc", False),
        (entry("t", principal=ANY_PRINCIPAL), "t", True),
        (entry("t", principal="User:bob"), "t", False),
        (entry("t", principal="Group:alice"), "t", False),
        (entry("t", host="10.0.0.1"), "t", True),
        (entry("t", host="10.0.0.2"), "t", False),
        (entry("t", ALL), "t", True),
        (entry("t", WRITE), "t", False),
    ],
)
def test_one_entry(acl: Acl, name: str, expected: bool) -> None:
    assert allowed([acl], name) is expected


@pytest.mark.parametrize(
    "denial", [entry("t", permission=DENY), entry("*", ALL, DENY), entry("", permission=DENY, pattern=PREFIXED)]
)
def test_denial_wins_over_all_that_allow(denial: Acl) -> None:
    granted = [entry("t"), entry("*"), entry("t", pattern=PREFIXED)]
    assert allowed(granted, "t")
    assert not allowed([*granted, denial], "t")
    assert not allowed([denial, *granted], "t")


def test_entries_for_other_users_end_the_default() -> None:
    """A topic with entries is not open to all any more."""
    assert not allowed([entry("t", principal="User:bob")], "t", by_default=True)
    assert not allowed([entry("*", principal="User:bob")], "t", by_default=True)


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER])
def test_implied_operations(operation: Operation) -> None:
    """READ implies DESCRIBE; a denied READ does not deny DESCRIBE."""
    assert allowed([entry("t", operation)], "t", DESCRIBE)
    assert allowed([entry("t", DESCRIBE), entry("t", operation, DENY)], "t", DESCRIBE)
    assert not allowed([entry("t", Operation.CREATE)], "t", DESCRIBE)
    assert allowed([entry("t", Operation.ALTER_CONFIGS)], "t", Operation.DESCRIBE_CONFIGS)
    assert not allowed([entry("t", operation)], "t", Operation.DESCRIBE_CONFIGS)


def test_a_change_counts_at_once() -> None:
    authorizer = Authorizer()
    for acls, expected in ([], False), ([entry("t")], True), ([], False):
        authorizer.load(acls)
        assert authorizer.decide("User:alice", "h", READ, TOPIC, "t").allowed is expected


def test_the_cache_of_decisions_is_bounded() -> None:
    """Per principal and in total; long names are not cached. A principal with many requests affects no other."""
    authorizer = Authorizer()
    authorizer.load([entry("t")])
    first = authorizer.decide("User:alice", "h", READ, TOPIC, "t")
    for length in (249, 250):
        assert not authorizer.decide("User:alice", "h", READ, TOPIC, "n" * length).allowed
    assert [len(question[-1]) for question in authorizer._decided["User:alice"]] == [1, 249]
    for number in range(12_000):
        authorizer.decide("User:mallory", "h", READ, TOPIC, f"{number}")
    assert len(authorizer._decided["User:mallory"]) <= 5_000
    assert authorizer.decide("User:alice", "h", READ, TOPIC, "t") is first
    for number in range(60_000):
        authorizer.decide(f"User:{number % 100}", "h", READ, TOPIC, f"{number}")
    assert sum(map(len, authorizer._decided.values())) == authorizer._cached_count <= 50_000


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([entry("t", WRITE)], True),
        ([entry("t", READ)], False),
        ([entry("t", WRITE), entry("t", WRITE, DENY)], False),
        ([entry("ta", WRITE), entry("t", WRITE, DENY, pattern=PREFIXED)], False),
        ([entry("t", WRITE, pattern=PREFIXED), entry("ta", WRITE, DENY, pattern=PREFIXED)], True),
        ([entry("*", WRITE), entry("t", WRITE, DENY)], True),
        ([entry("t", WRITE), entry("*", ALL, DENY)], False),
        ([entry("t", WRITE, host="10.0.0.2")], False),
    ],
)
def test_any_resource_of_a_kind(acls: list[Acl], expected: bool) -> None:
    """As for producers without a transactional id."""
    authorizer = Authorizer({"User:root"})
    authorizer.load(acls)
    assert authorizer.decide_for_any("User:alice", "10.0.0.1", WRITE, TOPIC) is expected
    assert authorizer.decide_for_any("User:root", "10.0.0.1", WRITE, TOPIC)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), {"foo", "fo", "*"}),
        (AclFilter(name="foo"), {"foo"}),
        (AclFilter(name="fo"), {"fo"}),
        (AclFilter(name="foo", pattern_type=PatternType.MATCH), {"foo", "fo", "*"}),
        (AclFilter(name="fo", pattern_type=PatternType.LITERAL), set()),
        (AclFilter(pattern_type=PREFIXED), {"fo"}),
        (AclFilter(resource_type=GROUP), set()),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(operation=WRITE), set()),
        (AclFilter(permission=ALLOW, host="*", operation=READ), {"foo", "fo", "*"}),
    ],
)
def test_filters(wanted: AclFilter, expected: set[str]) -> None:
    acls = [entry("foo"), entry("fo", pattern=PREFIXED), entry("*")]
    assert {acl.name for acl in acls if wanted.matches(acl)} == expected


def test_verdicts_have_their_reason() -> None:
    authorizer = Authorizer({"User:root"}, allow_without_entry=True)
    assert authorizer.decide("User:root", "h", READ, TOPIC, "t").rule == "SuperUser"
    assert authorizer.decide("User:alice", "h", READ, TOPIC, "t").rule == "DefaultAllow"
    authorizer.load([entry("t", WRITE)])
    assert authorizer.decide("User:alice", "h", READ, TOPIC, "t").rule == "DefaultDeny"
    assert "name='t'" in authorizer.decide("User:alice", "h", WRITE, TOPIC, "t").rule


@pytest.mark.parametrize(
    ("host", "expected"),
    [("10.9.9.9", True), ("11.0.0.1", False), ("2001:db8:0:0:0:0:0:1", True), ("10.0.0.0/8", True)],
)
def test_ranges_of_addresses(host: str, expected: bool) -> None:
    """A range is also a text: that of Kafka matches itself."""
    acls = [entry("t", host="10.0.0.0/8"), entry("t", host="2001:db8::/32"), entry("t", host="x/0")]
    assert allowed(acls, "t", host=host) is expected
    authorizer = Authorizer()
    authorizer.load(acls)
    assert authorizer.decide_for_any("User:alice", host, READ, TOPIC) is expected


def test_a_denied_range_wins() -> None:
    acls = [entry("t"), entry("*", READ, DENY, host="10.0.0.0/8")]
    assert [allowed(acls, "t", host=host) for host in ("10.0.0.1", "11.0.0.1")] == [False, True]
    authorizer = Authorizer()
    authorizer.load(acls)
    found = [authorizer.decide_for_any("User:alice", host, READ, TOPIC) for host in ("10.0.0.1", "11.0.0.1")]
    assert found == [False, True]


def test_malformed_ranges_match_as_text_only() -> None:
    """Releases before 4.4 accept any text as a host."""
    assert not allowed([entry("t", host="10.0.0.0/33")], "t")
    assert allowed([entry("t", host="x/0")], "t", host="x/0")


def test_changed_ranges_count_at_once() -> None:
    authorizer = Authorizer()
    answers = []
    for acls in ([], [entry("t", host="10.0.0.0/8")], [entry("t", host="11.0.0.0/8")]):
        authorizer.load(acls)
        answers.append(authorizer.decide("User:alice", "10.0.0.1", READ, TOPIC, "t").allowed)
    assert answers == [False, True, False]


def test_addresses_with_ranges_are_bounded() -> None:
    authorizer = Authorizer()
    authorizer.load([entry("t", host="10.0.0.0/8")])
    for number in range(3_000):
        host = f"10.0.{number >> 8}.{number & 255}"
        assert authorizer.decide("User:alice", host, READ, TOPIC, "t").allowed
    assert len(authorizer._hosts) <= 1_000
