"""I9: what a leader does not read for a follower has not changed. Checked by a look at each partition of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replication.partition_key import PartitionKey
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.leaders import Leader, Leaders, Session


def check_rest(leaders: Leaders, session: Session, key: PartitionKey, follower_id: int, now_ms: int) -> None:
    """A partition that a fetch does not read has nothing for the follower."""
    data = leaders.look(key, session.partitions[key], follower_id)
    is_new = session.known.get(key) != (data.high_watermark, data.log_start_offset)
    if is_new or data.records or data.error_code or data.diverging_epoch.end_offset >= 0:
        raise Violation(
            "I9 resting partitions", f"leader {leaders.node_id} does not read {key[1]} for {follower_id}: {data}"
        )
    leader = leaders.partitions[key]
    if leader.state.advance(leader.log.log_end_offset, now_ms):
        raise Violation("I9 resting partitions", f"a fetch of {follower_id} would commit records of {key[1]}")
    if follower_id not in leader.state.isr.committed:
        raise Violation("I9 resting partitions", f"{key[1]} rests for {follower_id}, which is not in sync")


def check_caught_up(leader: Leader) -> None:
    """Followers have caught up when they would have if each fetch had read all partitions of its session."""
    for each, follower in leader.state.followers.items():
        if follower.caught_up_ms != (expected := leader.visited[each].caught_up_ms):
            raise Violation(
                "I9 caught-up time", f"follower {each} caught up at {follower.caught_up_ms}, not {expected}"
            )
