"""Which replica leads after a change of a partition."""

from __future__ import annotations

import pytest

from metadata.partition_change import Rules, Wanted, change_of
from metadata.partition_registration import NO_LEADER, LeaderRecoveryState, PartitionRegistration


@pytest.mark.parametrize(("replicas", "leader"), [((1, 2, 3), 3), ((1, 2), None)])
def test_last_leader_comes_back_only_as_a_replica(replicas: tuple[int, ...], leader: int | None) -> None:
    """A reassignment may have been cancelled since broker 3, the last leader, was elected."""
    partition = PartitionRegistration(
        replicas=replicas,
        isr=(),
        leader=NO_LEADER,
        leader_epoch=5,
        partition_epoch=9,
        directories=(),
        eligible_leader_replicas=(),
        last_known_elr=(3,),
        leader_recovery_state=LeaderRecoveryState.RECOVERED,
    )
    rules = Rules(metadata_version=33, has_eligible_replicas=True, may_lead=lambda broker: broker == 3)
    assert change_of(partition, 2, rules, Wanted()).get("leader") == leader


def test_a_partition_relies_on_replicas_that_may_lead() -> None:
    """In sync, eligible, or the last leader: an empty log of these would lose records."""
    partition = PartitionRegistration((1, 2, 3, 4), (1,), 1, 0, 0, eligible_leader_replicas=(2,), last_known_elr=(3,))
    assert [partition.relies_on(broker) for broker in (1, 2, 3, 4)] == [True, True, True, False]
