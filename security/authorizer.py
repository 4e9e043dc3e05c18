"""Authorization, decided as in Apache Kafka's StandardAuthorizer.

Super users may do everything. For others, an entry that denies wins over all that allow. If no entry allows, access is
denied. If a resource has no entries at all, `allow.everyone.if.no.acl.found` decides. Decisions are cached until the
entries change: on the hot path a decision is one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from security.acl import ANY_PRINCIPAL, IMPLIED_BY, WILDCARD, Acl, Operation, PatternType, Permission
from security.cidr import AddressRange, address_of, parse_range

#: The most cached decisions for one principal, and for all. A client may ask for any number of names.
_CACHED_PER_PRINCIPAL, _CACHED = 5_000, 50_000
#: Decisions about longer names are not cached. No topic name is longer.
_LONGEST_CACHED_NAME = 249
#: The most client addresses whose ranges are cached. A client may have any number of IPv6 addresses.
_CACHED_ADDRESSES = 1_000
#: A placeholder for any resource: super users, and principals that may do it to all resources, may do it to this one.
_ANY_NAME = "hardcode"


class Verdict(NamedTuple):
    """A decision and its reason, for the log."""

    allowed: bool
    rule: str


_SUPER_USER = Verdict(True, "SuperUser")


class _Entries:
    """The entries of one kind of resource, by name."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, list[Acl]] = {}
        self.prefixed: dict[str, list[Acl]] = {}
        self.lengths: list[int] = []  # the lengths of prefixes

    def add(self, acl: Acl) -> None:
        named = self.literal if acl.pattern_type == PatternType.LITERAL else self.prefixed
        named.setdefault(acl.name, []).append(acl)

    def applying_to(self, name: str) -> Iterator[Acl]:
        """Yield the entries that apply to a resource of that name."""
        yield from self.literal.get(name, ())
        for length in self.lengths:
            if length > len(name):
                break
            yield from self.prefixed.get(name[:length], ())
        if name != WILDCARD:
            yield from self.literal.get(WILDCARD, ())


class Authorizer:
    """Decides by the entries that `load` got last."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_without_entry: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._without_entry = Verdict(allow_without_entry, "DefaultAllow" if allow_without_entry else "DefaultDeny")
        self._by_type: dict[int, _Entries] = {}
        self._ranges: dict[str, AddressRange] = {}  # by host, for entries whose host is a range
        self._hosts: dict[str, frozenset[str]] = {}  # by client address
        self._decided: dict[str, dict[tuple[str, int, int, str], Verdict]] = {}  # by principal
        self._cached_count = 0

    def load(self, acls: Iterable[Acl]) -> None:
        """Use these entries from now on."""
        self._clear_cache()
        self._by_type = {}
        self._ranges = {}
        for acl in acls:
            self._by_type.setdefault(acl.resource_type, _Entries()).add(acl)
            if "/" in acl.host and acl.host not in self._ranges:
                with suppress(ValueError):  # an entry of an earlier release may have any text
                    self._ranges[acl.host] = parse_range(acl.host)
        for entries in self._by_type.values():
            entries.lengths = sorted({len(name) for name in entries.prefixed})

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        """Return whether the principal may do the operation, from this host."""
        question = (host, operation, resource_type, name)
        decided = self._decided.get(principal)
        verdict = None if decided is None else decided.get(question)
        if verdict is None:
            verdict = self._decide(principal, *question)
            if len(name) <= _LONGEST_CACHED_NAME:
                self._cache_of(principal)[question] = verdict
                self._cached_count += 1
        return verdict

    def _cache_of(self, principal: str) -> dict[tuple[str, int, int, str], Verdict]:
        """Return the cache for a principal's decisions. A principal with too many decisions loses its own ones only."""
        if self._cached_count >= _CACHED:
            self._clear_cache()
        decided = self._decided.setdefault(principal, {})
        if len(decided) >= _CACHED_PER_PRINCIPAL:
            self._cached_count -= len(decided)
            decided.clear()
        return decided

    def _clear_cache(self) -> None:
        self._decided.clear()
        self._cached_count = 0
        self._hosts.clear()

    def _hosts_of(self, address: str) -> frozenset[str]:
        """Return the hosts of entries that apply to a client's address: the address, `*`, and ranges that have it."""
        hosts = self._hosts.get(address)
        if hosts is None:
            number = address_of(address) if self._ranges else None
            ranges = (host for host, addresses in self._ranges.items() if addresses.has(number))
            hosts = frozenset((address, WILDCARD, *ranges))
            if len(self._hosts) >= _CACHED_ADDRESSES:
                self._hosts.clear()
            self._hosts[address] = hosts
        return hosts

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Verdict:
        if principal in self._super_users:
            return _SUPER_USER
        entries = self._by_type.get(resource_type)
        hosts = self._hosts_of(host)
        verdict = self._without_entry
        for acl in entries.applying_to(name) if entries is not None else ():
            if verdict is self._without_entry:
                verdict = Verdict(False, "DefaultDeny")  # there are entries, but none that matches
            if _is_about(acl, principal, hosts, operation):
                if acl.permission == Permission.DENY:
                    return Verdict(False, f"MatchingAcl(acl={acl})")
                verdict = Verdict(True, f"MatchingAcl(acl={acl})")
        return verdict

    def decide_for_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether the principal may do the operation on any resource of a kind, existing or not (KIP-679)."""
        if self.decide(principal, host, operation, resource_type, _ANY_NAME).allowed:
            return True
        entries = self._by_type.get(resource_type)
        if entries is None:
            return False
        hosts = self._hosts_of(host)

        def names(named: dict[str, list[Acl]], permission: Permission) -> set[str]:
            return {
                name
                for name, acls in named.items()
                for acl in acls
                if acl.permission == permission
                and acl.principal in (principal, ANY_PRINCIPAL)
                and acl.host in hosts
                and acl.operation in (operation, Operation.ALL)
            }

        denied = names(entries.literal, Permission.DENY)
        if WILDCARD in denied:
            return False
        denied_prefixes = names(entries.prefixed, Permission.DENY)
        allowed = names(entries.literal, Permission.ALLOW)
        if WILDCARD in allowed:
            return True
        return any(
            not any(name.startswith(prefix) for prefix in denied_prefixes)
            for name in (allowed - denied) | names(entries.prefixed, Permission.ALLOW)
        )


def _is_about(acl: Acl, principal: str, hosts: frozenset[str], operation: int) -> bool:
    if acl.principal not in (principal, ANY_PRINCIPAL) or acl.host not in hosts:
        return False
    if acl.operation in (operation, Operation.ALL):
        return True
    implied_by = IMPLIED_BY.get(operation, ())  # type: ignore[call-overload]
    return acl.permission == Permission.ALLOW and acl.operation in implied_by
