"""The reference controller's decisions on a partition: those of `metadata/partition_change.py`, applied at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from metadata.features import MAX_METADATA_VERSION
from metadata.partition_change import Rules, Wanted, change_of
from metadata.partition_registration import LeaderRecoveryState, PartitionRegistration


class Change(NamedTuple):
    """A partition after a change. `unclean`: its new leader may lack committed records."""

    state: PartitionRegistration
    unclean: bool


def change(
    old: PartitionRegistration, acceptable: Callable[[int], bool], min_isr: int, wanted: Wanted
) -> Change | None:
    """Return the partition after a change; None if nothing changes. Leaders recover at once (KIP-704)."""
    rules = Rules(MAX_METADATA_VERSION, has_eligible_replicas=True, may_lead=acceptable)
    fields = change_of(old, min_isr, rules, wanted)
    if not fields:
        return None
    unclean = fields.pop("leader_recovery_state", None) is LeaderRecoveryState.RECOVERING
    changed = {name: tuple(each) if isinstance(each, list) else each for name, each in fields.items()}
    state = old._replace(
        **changed,  # type: ignore[arg-type]
        leader_epoch=old.leader_epoch + ("leader" in fields),
        partition_epoch=old.partition_epoch + 1,
    )
    return Change(state, unclean)
