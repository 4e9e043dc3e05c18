"""The change of a partition: reassignment, in-sync and eligible replicas, leader, directories (KIP-455, 858, 966).

One pure function decides all changes that a controller makes of a partition. Its caller says what is wanted, such as
another in-sync set; the function adds what follows from it, such as the leader of that set. Its decisions are those of
Apache Kafka's PartitionChangeBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from metadata.features import DIRECTORIES_LEVEL, EPOCH_KEPT_LEVEL
from metadata.partition_registration import (
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    LeaderRecoveryState,
    PartitionRegistration,
)

Replicas: TypeAlias = tuple[int, ...]


class Election(Enum):
    """The kind of an election."""

    ONLINE = auto()  # the leader stays if it may; else the first replica that is in sync or eligible
    PREFERRED = auto()  # the first replica, if it is in sync or eligible
    UNCLEAN = auto()  # any live replica, if no other may; committed records may be lost


class Rules(msgspec.Struct, frozen=True):
    """The rules of all changes at one moment.

    `may_lead` says whether a broker is active. `default_directory` gives the directory of a broker's new replica.
    """

    metadata_version: int
    has_eligible_replicas: bool
    may_lead: Callable[[int], bool]
    default_directory: Callable[[int], bytes] = lambda _: UNASSIGNED_DIRECTORY


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted change of a partition; None: no wish.

    `lost` are the brokers that did not stop in order, so that they may have lost records.
    """

    isr: Replicas | None = None
    replicas: Replicas | None = None
    removing: Replicas | None = None
    adding: Replicas | None = None
    lost: Collection[int] = ()
    election: Election = Election.ONLINE
    recovery_state: LeaderRecoveryState | None = None
    directories: Mapping[int, bytes] = MappingProxyType({})


class Elected(NamedTuple):
    """The leader. `unclean`: it may lack committed records."""

    leader: int
    unclean: bool = False


class Assignment(NamedTuple):
    """The replicas of a partition during a reassignment, and the in-sync set."""

    replicas: Replicas
    removing: Replicas
    adding: Replicas
    isr: Replicas

    def completed(self) -> Assignment:
        """Return the assignment after the reassignment if that may end, else this one.

        All added replicas have to be in sync, and all that stay if the partition would have fewer replicas.
        """
        if not self.removing and not self.adding:
            return self
        replicas, isr = without(self.replicas, self.removing), without(self.isr, self.removing)
        if not replicas or (self.removing and not isr):
            return self
        needed = {*self.adding, *(replicas if len(self.adding) < len(self.removing) else ())}
        return Assignment(replicas, (), (), isr) if needed <= set(isr) else self


def without(replicas: Replicas, gone: Collection[int]) -> Replicas:
    """Return the replicas that are not in `gone`, in their order."""
    return tuple(each for each in replicas if each not in gone)


def change_of(partition: PartitionRegistration, min_isr: int, rules: Rules, wanted: Wanted) -> dict[str, Any]:
    """Return the fields of the PartitionChangeRecord; empty if nothing changes."""
    target = Assignment(
        partition.replicas if wanted.replicas is None else wanted.replicas,
        partition.removing_replicas if wanted.removing is None else wanted.removing,
        partition.adding_replicas if wanted.adding is None else wanted.adding,
        partition.isr if wanted.isr is None else wanted.isr,
    ).completed()
    eligible = _eligible(partition, target, min_isr, rules, wanted.lost)
    elected = _elect(partition, target, eligible, rules, wanted.election)
    after = _after_election(partition, target, eligible, elected, rules, wanted.recovery_state)
    is_new = elected.leader != partition.leader or _needs_new_epoch(partition, after, rules)
    if is_new and rules.has_eligible_replicas:
        after = after._replace(last_known_elr=_last_known(partition, elected.leader))
    fields = _differing(partition, after)
    if is_new:
        fields["leader"] = elected.leader
    if elected.unclean and elected.leader != partition.leader:
        fields["isr"] = list(after.isr)  # also if it is the same: the record shows that it was set by force
    fields.update(_directories(partition, target.replicas, rules, wanted.directories))
    return fields


def _last_known(partition: PartitionRegistration, leader: int) -> Replicas:
    """Return the last leader of a partition that has none: it alone may lead if no replica is eligible any more."""
    if leader != NO_LEADER:
        return ()
    return partition.last_known_elr or (partition.leader,)


def _eligible(
    partition: PartitionRegistration, target: Assignment, min_isr: int, rules: Rules, lost: Collection[int]
) -> Replicas:
    """Return the eligible replicas: while too few are in sync, those that were so before and lost no record.

    A replica that is removed leaves them. Apache Kafka 4.4 keeps it, and may elect it without its records when a later
    reassignment adds it again.
    """
    if not rules.has_eligible_replicas:
        return partition.eligible_leader_replicas
    if len(target.isr) >= min(min_isr, len(partition.replicas)):
        return ()
    candidates = {*partition.eligible_leader_replicas, *partition.isr}.intersection(target.replicas)
    return tuple(sorted(candidates - {*target.isr, *lost}))


def _elect(
    partition: PartitionRegistration, target: Assignment, eligible: Replicas, rules: Rules, election: Election
) -> Elected:
    valid = [each for each in target.isr or eligible if rules.may_lead(each)]
    preferred = target.replicas[0]
    if election is Election.PREFERRED and preferred in valid:
        return Elected(preferred)
    if partition.leader in valid:
        return Elected(partition.leader)
    for each in target.replicas:
        if each in valid:
            return Elected(each)
    last = partition.last_known_elr
    is_last_hope = rules.has_eligible_replicas and not target.isr and not eligible and len(last) == 1
    # Apache Kafka 4.4 also elects a last leader that a cancelled reassignment has removed: no replica could follow it.
    if is_last_hope and last[0] in target.replicas and rules.may_lead(last[0]):
        return Elected(last[0], unclean=True)
    if election is Election.UNCLEAN:
        for each in target.replicas:
            if rules.may_lead(each):
                return Elected(each, unclean=True)
    return Elected(NO_LEADER)


def _after_election(
    partition: PartitionRegistration,
    target: Assignment,
    eligible: Replicas,
    elected: Elected,
    rules: Rules,
    recovery_state: LeaderRecoveryState | None,
) -> PartitionRegistration:
    """Return the partition with the elected leader, but for its epochs and directories."""
    isr = target.isr
    recovery = partition.leader_recovery_state if recovery_state is None else recovery_state
    if elected.leader != partition.leader:
        if elected.unclean:
            isr, eligible = (elected.leader,), ()
            recovery = LeaderRecoveryState.RECOVERING
        elif elected.leader in eligible:
            isr, eligible = (elected.leader,), without(eligible, (elected.leader,))
    if not rules.has_eligible_replicas:
        isr, eligible = isr or partition.isr, ()  # an in-sync set never becomes empty
    return partition._replace(
        replicas=target.replicas,
        isr=isr,
        leader=elected.leader,
        removing_replicas=target.removing,
        adding_replicas=target.adding,
        eligible_leader_replicas=eligible,
        leader_recovery_state=recovery,
    )


#: The lists of a partition that PartitionChangeRecord has under the same name.
_LISTS = ("replicas", "isr", "removing_replicas", "adding_replicas", "eligible_leader_replicas", "last_known_elr")
_get_lists = attrgetter(*_LISTS)


def _differing(old: PartitionRegistration, new: PartitionRegistration) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: list(after)
        for name, before, after in zip(_LISTS, _get_lists(old), _get_lists(new), strict=True)
        if before != after
    }
    if new.leader_recovery_state != old.leader_recovery_state:
        fields["leader_recovery_state"] = new.leader_recovery_state
    return fields


def _needs_new_epoch(old: PartitionRegistration, new: PartitionRegistration, rules: Rules) -> bool:
    """Return whether a leader that stays begins a new epoch, so that followers which it no longer has are fenced."""
    shrinks = rules.metadata_version < EPOCH_KEPT_LEVEL and not set(old.isr) <= set(new.isr)
    return shrinks or not set(old.replicas) <= set(new.replicas)


def _directories(
    partition: PartitionRegistration, replicas: Replicas, rules: Rules, wanted: Mapping[int, bytes]
) -> dict[str, list[bytes]]:
    if rules.metadata_version < DIRECTORIES_LEVEL or (replicas == partition.replicas and not wanted):
        return {}
    # Partitions from before that level have none yet, and their brokers may be registered no more.
    before = tuple(partition.directory_of(each) for each in partition.replicas)
    known = {**dict(zip(partition.replicas, before, strict=True)), **wanted}
    directories = [known.get(each) or rules.default_directory(each) for each in replicas]
    return {"directories": directories} if tuple(directories) != before else {}
