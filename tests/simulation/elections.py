"""The reference controller's decision on a partition: ISR, ELR, leader. Kafka's PartitionChangeBuilder (KIP-966)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple

from metadata.partition_registration import NO_LEADER, PartitionRegistration


class Change(NamedTuple):
    """A partition after a change. `unclean`: its new leader may lack committed records."""

    state: PartitionRegistration
    unclean: bool


class Election(Enum):
    """The kinds of election."""

    ONLINE = auto()
    PREFERRED = auto()
    UNCLEAN = auto()


def unique(replicas: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(replicas))


def eligible_replicas(
    old: PartitionRegistration, isr: tuple[int, ...], min_isr: int, unclean: frozenset[int]
) -> tuple[int, ...]:
    """Return the ELR beside the target ISR. `unclean` brokers may have lost records."""
    if len(isr) >= min(min_isr, len(old.replicas)):
        return ()
    return tuple(
        each for each in unique(old.eligible_leader_replicas + old.isr) if each not in isr and each not in unclean
    )


def elect(
    old: PartitionRegistration,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    acceptable: Callable[[int], bool],
    election: Election,
) -> tuple[int, bool]:
    """Return the leader, and whether it may lack committed records."""
    valid = [each for each in isr or elr if acceptable(each)]
    if election is Election.PREFERRED and old.replicas[0] in valid:
        return old.replicas[0], False
    if old.leader in valid:
        return old.leader, False
    for each in old.replicas:
        if each in valid:
            return each, False
    if not isr and not elr and len(old.last_known_elr) == 1 and acceptable(old.last_known_elr[0]):
        return old.last_known_elr[0], True
    if election is Election.UNCLEAN:
        for each in old.replicas:
            if acceptable(each):
                return each, True
    return NO_LEADER, False


def change(
    old: PartitionRegistration,
    acceptable: Callable[[int], bool],
    min_isr: int,
    *,
    isr: tuple[int, ...] | None = None,
    unclean: frozenset[int] = frozenset(),
    election: Election = Election.ONLINE,
) -> Change | None:
    """Return the partition after a change of its ISR or of the active brokers; None if nothing changes."""
    target = old.isr if isr is None else isr
    elr = eligible_replicas(old, target, min_isr, unclean)
    leader, is_unclean = elect(old, target, elr, acceptable, election)
    epoch = old.leader_epoch
    if leader != old.leader:
        epoch += 1
        if leader in elr:
            target, elr = (leader,), tuple(each for each in elr if each != leader)
        elif is_unclean:
            target, elr = (leader,), ()
    last_known = old.last_known_elr
    if not target and old.isr:
        last_known = (old.leader,)
    elif leader != NO_LEADER:
        last_known = ()
    found = old._replace(
        isr=target, leader=leader, leader_epoch=epoch, eligible_leader_replicas=elr, last_known_elr=last_known
    )
    return None if found == old else Change(found._replace(partition_epoch=old.partition_epoch + 1), is_unclean)
