"""Consumer groups (KIP-848), heartbeat by heartbeat: our broker and Apache Kafka give the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.conftest import StartBroker
from tests.conformance.consumer_session import ConsumerSession
from tests.conformance.migration_scenarios import classic_into_consumers, no_upgrade, static_migration, upgrade
from tests.support.brokers import RunningBroker
from tests.support.eventually import eventually
from tests.support.java import KAFKA_LINE

#: Targets are computed at once and members live long, so that answers do not depend on time; limits are small enough to
#: reach.
PROPERTIES = {
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "3",
    "group.consumer.min.session.timeout.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}

Scenario = Callable[[ConsumerSession, str], Iterator[Any]]


@pytest.fixture(scope="module")
def pair(start_broker: StartBroker) -> tuple[RunningBroker, RunningBroker]:
    """Return one of our brokers and one of Kafka's."""
    return start_broker("ours", PROPERTIES), start_broker("kafka", PROPERTIES)


def live_and_leave(s: ConsumerSession, t: str) -> Iterator[Any]:
    """One member from its first heartbeat to its last."""
    yield s.join("a", [t])
    yield s.describe()
    yield s.beat("a", 2, {t: [0, 1, 2, 3]})
    yield s.beat("a", 2)
    yield s.describe(0)
    yield s.beat("a", 2, {t: [0, 1, 2, 3]}, topics=[t], rebalance_timeout_ms=1_000)
    yield s.beat("a", -1)
    yield s.describe()
    yield s.beat("a", 2)


def hand_over(s: ConsumerSession, t: str) -> Iterator[Any]:
    """A second member gets its share once the first one has given it up."""
    yield s.join("a", [t])
    yield s.join("b", [t])
    yield s.describe()
    yield s.beat("a", 2, {t: [0, 1, 2, 3]})
    yield s.describe()
    yield s.beat("b", 3, {})
    yield s.beat("a", 2, {t: [0, 1, 2, 3]})
    yield s.beat("a", 2, {t: [0, 1]})
    yield s.describe()
    yield s.beat("b", 3, {})
    yield s.beat("b", 3, {t: [2, 3]})
    yield s.describe()
    yield s.join("c", [t])
    yield s.beat("b", 3, {t: [2, 3]})
    yield s.beat("a", 3, {t: [0, 1]})
    yield s.beat("a", 3, {t: [0]})
    yield s.beat("b", 3, {t: [2]})
    yield s.beat("c", 4, {})
    yield s.beat("b", -1)
    yield s.beat("a", 4, {t: [0]})
    yield s.beat("c", 4, {t: [1]})
    yield s.describe()


def bad_requests(s: ConsumerSession, t: str) -> Iterator[Any]:
    """Invalid heartbeats."""
    yield s.beat("", 1)
    yield s.beat("", 0, version=0, topics=[t])
    yield s.beat("", -1, version=0)
    yield s.beat(" ", 0, topics=[t])
    yield s.beat("a", 0, topics=[t], group_id="")
    yield s.beat("a", 0, {}, topics=[t])
    yield s.beat("a", 0, topics=[t], rebalance_timeout_ms=1)
    yield s.beat("a", 0, {t: [1]}, topics=[t], rebalance_timeout_ms=1)
    yield s.beat("a", 0, {}, rebalance_timeout_ms=1)
    yield s.join("a", [t], instance_id="")
    yield s.join("a", [t], rack_id="  ")
    yield s.beat("a", -2)
    yield s.beat("a", -3)
    yield s.join("a", [t], server_assignor="sticky")
    yield s.join("a", regex="(")
    yield s.join("a", regex="[a")
    yield s.join("a", regex="*")
    yield s.join("a", regex="a(?=b)")
    yield s.join("a", regex=r"(a)\1")
    yield s.join("a", regex="a{1001}")
    yield s.join("a", regex="a\\")
    yield s.join("a", regex="[z-a]")
    yield s.join("a", regex="a)")
    yield s.beat("a", 1)
    yield s.beat("a", -1)
    yield s.beat("a", -2, instance_id="i")
    yield s.describe()


def fencing(s: ConsumerSession, t: str) -> Iterator[Any]:
    """Epochs ahead and behind, unknown members, a full group."""
    yield s.join("a", [t])
    yield s.beat("b", 1)
    yield s.beat("b", -1)
    yield s.beat("a", 3)
    yield s.beat("a", 1)
    yield s.join("b", [t])
    yield s.beat("a", 2, {t: [0, 1, 2, 3]})
    yield s.beat("a", 2, {t: [0, 1]})
    yield s.beat("a", 2, {t: [0, 1]})
    yield s.beat("a", 2, {t: [0]})
    yield s.beat("a", 2, {t: [2]})
    yield s.beat("a", 2)
    yield s.join("a", [t])
    yield s.join("c", [t])
    yield s.join("d", [t])
    yield s.beat("d", 3)
    yield s.join("a", [t, f"{t}-not"])
    yield s.describe()


def static_members(s: ConsumerSession, t: str) -> Iterator[Any]:
    """A static member is away for a while, and comes back under another id with its partitions."""
    yield s.join("a", [t], instance_id="one")
    yield s.join("b", [t], instance_id="two")
    yield s.beat("a", 2, {t: [0, 1, 2, 3]}, instance_id="one")
    yield s.beat("a", 2, {t: [0, 1]}, instance_id="one")
    yield s.beat("b", 3, {}, instance_id="two")
    yield s.join("x", [t], instance_id="one")
    yield s.beat("x", 3, instance_id="one")
    yield s.beat("x", 3, instance_id="three")
    yield s.beat("x", -2, instance_id="one")
    yield s.beat("a", -2, instance_id="one")
    yield s.describe()
    yield s.beat("a", -2, {t: [0, 1]}, instance_id="one")
    yield s.beat("b", 3, {t: [2, 3]}, instance_id="two")
    yield s.join("x", [t], instance_id="one")
    yield s.describe()
    yield s.beat("a", 3, instance_id="one")
    yield s.beat("b", 3, {t: [2, 3]}, instance_id="two")
    yield s.beat("x", -2, instance_id="one")
    yield s.join("x", [t], instance_id="one")
    yield s.beat("x", -1, instance_id="one")
    yield s.describe()
    yield s.beat("b", -1)
    yield s.describe()


def subscriptions(s: ConsumerSession, t: str) -> Iterator[Any]:
    """Members change their topics; topics are created and grow."""
    more = f"{t}-more"
    yield s.join("a", [t, more])
    yield s.join("b", [t])
    yield s.beat("a", 2, {t: [0, 1, 2, 3]})
    s.create({more: 3})
    yield s.beat("a", 2, {t: [0, 1]})
    yield s.beat("b", 3, {})
    yield s.describe()
    yield s.beat("a", 4, {t: [0, 1], more: [0, 1]})
    yield s.beat("b", 4, {t: [2, 3]})
    yield s.describe()
    s.grow(t, 6)
    yield s.beat("b", 4, {t: [2, 3]})
    yield s.beat("a", 4, {t: [0, 1], more: [0, 1, 2]})
    yield s.describe()
    yield s.beat("a", 5, topics=[more])
    yield s.describe()
    yield s.beat("a", 5, {more: [0, 1, 2]}, topics=[more])
    yield s.beat("b", 5, {t: [2, 3]})
    yield s.beat("b", 5, {t: [2, 3]})
    yield s.describe()


def assignors(s: ConsumerSession, t: str) -> Iterator[Any]:
    """The assignor that most members want; on a tie the first one in Java's table.

    No member that stays sends a heartbeat during the tie: with each one Kafka may raise the epoch.
    """
    yield s.join("a", [t], server_assignor="range")
    yield s.describe()
    yield s.join("b", [t], server_assignor="uniform")
    yield s.describe()
    yield s.join("c", [t], server_assignor="uniform")
    yield s.describe()
    yield s.beat("a", 2, {t: [0, 1, 2, 3]})
    if KAFKA_LINE >= (4, 4):  # the table of earlier releases has another order
        yield s.beat("b", 3, {}, server_assignor="range")
        yield s.describe()


def regexes(s: ConsumerSession, t: str) -> Iterator[Any]:
    """Topics by an expression: known soon after, and removed with its last member."""
    s.create({f"{t}-x": 3})
    yield s.join("a", regex=f"{t}-[xy]")
    eventually(lambda: s.describe()["epochs"] == (2, 1))
    yield s.describe()
    yield s.beat("a", 1, {})
    yield s.describe()
    yield s.join("b", regex=f"{t}-[xy]")
    yield s.beat("a", 2, {f"{t}-x": [0, 1, 2]})
    yield s.describe()
    yield s.beat("a", 2, {f"{t}-x": [0, 1]}, topics=[t], regex="")
    yield s.describe()
    yield s.beat("b", -1)
    yield s.describe()
    yield s.beat("a", -1)
    yield s.describe()


def racks(s: ConsumerSession, t: str) -> Iterator[Any]:
    """A member's value stays until it sends another."""
    yield s.join("a", [t], rack_id="r1", server_assignor="range", instance_id="one")
    yield s.beat("a", 2, {t: [0, 1, 2, 3]}, rack_id="r2", instance_id="one")
    yield s.describe()
    yield s.beat("a", 2, {t: [0, 1, 2, 3]}, topics=[], instance_id="one")
    yield s.describe()


def offsets(s: ConsumerSession, t: str) -> Iterator[Any]:
    """Members may commit and fetch at their epoch, or for partitions they owned before; outsiders only in an empty
    group.
    """
    yield s.commit(t, {0: 1}, "a", 2)
    yield s.commit(t, {0: 1}, "a", 2, version=8)
    yield s.join("a", [t])
    yield s.commit(t, {0: 5, 1: 6}, "a", 2)
    yield s.commit(t, {0: 5}, "a", 2, version=10)
    yield s.commit(t, {0: 5}, "a", 2, version=8)
    yield s.commit(t, {0: 5}, "a", 3)
    yield s.commit(t, {0: 5}, "a", 1)
    yield s.commit(t, {0: 5}, "b", 2)
    yield s.commit(t, {0: 5})
    yield s.commit(t, {0: 5}, "a")
    yield s.committed(t)
    yield s.committed(t, "a", 2)
    yield s.committed(t, "a", 1)
    yield s.committed(t, "b", 2)
    yield s.join("b", [t])
    yield s.beat("a", 2, {t: [0, 1, 2, 3]})
    yield s.commit(t, {3: 7}, "a", 2)
    yield s.beat("a", 2, {t: [0, 1]})
    yield s.commit(t, {0: 8}, "a", 2)
    yield s.commit(t, {0: 9, 3: 9}, "a", 2)
    yield s.beat("b", 3, {})
    yield s.commit(t, {2: 1}, "b", 3)
    yield s.commit(t, {2: 1}, "b", 2)
    yield s.committed(t)
    yield s.delete()
    yield s.listed()
    yield s.leave(("a", None), ("b", None), ("c", None))
    yield s.listed()
    yield s.commit(t, {0: 100})
    yield s.committed(t)
    yield s.delete()
    yield s.describe()
    yield s.listed()


def settings(s: ConsumerSession, t: str) -> Iterator[Any]:
    """A group's own settings, within the broker's limits; targets wait for the assignment interval."""
    yield s.configure(consumer_session_timeout_ms=100)
    yield s.configure(consumer_heartbeat_interval_ms=20_000)
    yield s.configure(consumer_heartbeat_interval_ms=6_000, consumer_assignment_interval_ms=60_000)
    yield s.join("a", [t])
    yield s.join("b", [t])
    yield s.describe()
    yield s.beat("a", 2, {t: [0, 1, 2, 3]})
    yield s.beat("b", 2, {})
    yield s.configure(consumer_assignment_interval_ms=0)
    yield s.beat("b", 2, {})
    yield s.describe()


def timeouts(s: ConsumerSession, t: str) -> Iterator[Any]:
    """Members without heartbeats, and members that do not give up partitions, are removed."""
    yield s.configure(consumer_session_timeout_ms=8_000, consumer_heartbeat_interval_ms=500)
    yield s.join("a", [t], rebalance_timeout_ms=700)
    yield s.join("b", [t])
    yield s.beat("a", 2, {t: [0, 1, 2, 3]})
    eventually(lambda: len(s.describe()["members"]) == 1)
    yield s.describe()
    yield s.beat("a", 2, {t: [0, 1]})
    yield s.beat("b", 3, {})
    yield s.classic_join("x", [t], instance="one")
    yield s.heartbeat("x", 5, "one")
    eventually(lambda: (s.listed() or ("", "", ""))[1] == "classic")  # only a classic member is left
    yield s.classic()


SCENARIOS: list[Scenario] = [
    live_and_leave,
    hand_over,
    bad_requests,
    fencing,
    static_members,
    subscriptions,
    assignors,
    regexes,
    racks,
    offsets,
    classic_into_consumers,
    upgrade,
    no_upgrade,
    static_migration,
    settings,
    timeouts,
]


PARTITIONS = {classic_into_consumers: 12}


def play(broker: RunningBroker, scenario: Scenario, name: str) -> list[Any]:
    session = ConsumerSession(broker, name, {name: PARTITIONS.get(scenario, 4)})
    try:
        return list(scenario(session, name))
    finally:
        session.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_answers_are_those_of_kafka(pair: tuple[RunningBroker, RunningBroker], scenario: Scenario, name: str) -> None:
    ours, kafka = (play(broker, scenario, name) for broker in pair)
    for step, (answer, expected) in enumerate(zip(ours, kafka, strict=True), 1):
        assert _common(answer) == _common(expected), f"step {step}"


def _common(answer: Any) -> Any:
    """Return what both releases of Apache Kafka answer.

    Since 4.4 a group's assignment has the group's epoch also when no member is left, and limits have other messages.
    """
    if KAFKA_LINE >= (4, 4):
        return answer
    if isinstance(answer, dict):
        return {key: value for key, value in answer.items() if key not in ("epoch", "epochs")}
    return answer[0] if isinstance(answer, tuple) else answer
