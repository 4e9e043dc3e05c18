"""Scenarios of groups with members of both protocols, as steps for a session of `test_consumer_groups.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.consumer_session import ConsumerSession


def counted(answer: Any) -> Any:
    """Return the answer with counts of partitions instead of the partitions, which depend on the broker's ids."""
    if isinstance(answer, dict):
        return {key: counted(value) for key, value in answer.items()}
    if isinstance(answer, tuple):
        return tuple(counted(each) for each in answer)
    return len(answer) if isinstance(answer, list) else answer


def classic_into_consumers(s: ConsumerSession, t: str) -> Iterator[Any]:
    """A member of the classic protocol in a consumer group, from its first join until it is alone there.

    Each number of members can share the partitions evenly. Otherwise the order of ids would decide who gets one more,
    and the broker chooses the ids of classic members.
    """
    yield s.join("a", [t])
    yield s.classic_join("x", [t])
    yield s.describe()
    yield s.classic()
    yield s.sync("x", 3)
    yield s.heartbeat("x", 3)
    yield s.beat("a", 2, {t: range(12)})
    yield s.heartbeat("x", 3)
    yield s.beat("a", 2, {t: range(6)})
    yield s.heartbeat("x", 3)
    yield s.sync("x", 3)
    yield s.classic_join("x", [t], {})
    yield s.sync("x", 3)
    yield s.describe()
    yield s.heartbeat("x", 2)
    yield s.heartbeat("x", 4)
    yield s.heartbeat("a", 3)
    yield s.sync("a", 3)
    yield s.sync("x", 2)
    yield s.sync("x", 3, protocol_name="roundrobin")
    yield s.sync("x", 3, protocol_type="connect")
    yield s.commit(t, {2: 1}, "x", 3)
    yield s.commit(t, {2: 1}, "x", 3, version=8)
    yield s.commit(t, {2: 1}, "x", 4)
    yield s.commit(t, {2: 1}, "x", 2)
    yield s.classic_join("y", [t], protocols=("roundrobin",))
    yield s.classic_join("y", [t], protocol_type="connect")
    yield s.classic_join("y", [t], version=3, protocols=("roundrobin", "range"))
    yield s.heartbeat("x", 3)
    yield s.classic_join("x", [t], {t: range(6, 12)})
    yield s.sync("x", 3)
    yield s.heartbeat("x", 3)
    yield s.classic_join("x", [t], {t: range(6, 10)})
    yield s.sync("x", 4)
    yield s.beat("a", 3, {t: range(6)})
    yield s.beat("a", 3, {t: range(4)}, topics=[t])
    yield s.describe()
    yield s.heartbeat("y", 4)
    yield s.classic_join("y", [t], {t: [4, 5, 10, 11]})
    yield s.classic_join("z", [t])
    yield s.leave(("y", None), ("nobody", None))
    yield counted(s.describe())
    yield s.beat("a", -1)
    yield counted(s.describe())
    yield s.listed()
    state = s.classic()
    yield counted((state[:4], sorted(state[4])))
    yield s.heartbeat("x", 4)
    yield s.heartbeat("x", 6)


def upgrade(s: ConsumerSession, t: str) -> Iterator[Any]:
    """A classic group with a member becomes a consumer group, and back."""
    yield s.classic_join("x", [t])
    yield counted(s.join("a", [t]))
    yield counted(s.describe())
    yield counted(s.beat("a", -1))
    yield counted(s.classic())
    yield s.heartbeat("x", 2)
    again = s.classic_join("x", [t])
    yield again
    yield counted(s.sync("x", again["generation"], {"x": {t: [0, 1, 2, 3]}}))
    yield counted(s.classic())
    yield s.commit(t, {0: 3}, "x", again["generation"])
    yield counted(s.join("a", [t], server_assignor="range"))
    yield counted(s.describe())
    yield s.listed()
    yield s.committed(t)
    yield s.heartbeat("x", again["generation"])
    back = s.classic_join("x", [t], {t: [0, 1]})
    yield back
    yield counted(s.sync("x", back["generation"]))
    yield counted(s.beat("a", back["generation"], {}))
    yield counted(s.describe())
    yield s.leave(("x", None))
    yield counted(s.describe())
    yield counted(s.beat("a", -1))
    yield counted(s.describe())
    yield s.classic_join("x", [t])
    yield s.listed()


def no_upgrade(s: ConsumerSession, t: str) -> Iterator[Any]:
    """Groups that are not of consumers, or whose metadata are unreadable."""
    yield s.classic_join("x", [t], protocol_type="connect")
    yield s.join("a", [t])
    yield s.describe()
    yield s.leave(("x", None))
    yield s.join("a", [t])
    yield s.beat("a", -1)
    yield s.classic_join("x", [t], metadata=b"", as_new=True)
    yield s.join("a", [t])
    yield s.beat("a", 1)
    yield s.listed()


def static_migration(s: ConsumerSession, t: str) -> Iterator[Any]:
    """A static member moves to the consumer protocol and back: its instance id is taken over both ways."""
    yield s.classic_join("x", [t], instance="one")
    yield s.sync("x", 1, {"x": {t: [0, 1, 2, 3]}}, group_instance_id="one")
    yield s.join("a", [t], instance_id="one")
    yield s.describe()
    yield s.heartbeat("x", 1, "one")
    yield s.beat("a", 2, {t: [0, 1, 2, 3]}, instance_id="one")
    yield s.classic_join("y", [t], instance="two")
    yield s.describe()
    yield s.beat("a", 2, {t: [0, 1, 2, 3]}, instance_id="one")
    yield s.beat("a", 2, {t: [0, 1]}, instance_id="one")
    yield s.beat("a", -2, instance_id="one")
    yield s.classic_join("z", [t], instance="one", as_new=True)
    yield s.describe()
    yield s.listed()
    state = s.classic()
    yield state[:4], sorted(str(member) for member in state[4])
