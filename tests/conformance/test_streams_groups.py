"""Streams groups (KIP-1071), heartbeat by heartbeat: our broker and Apache Kafka give the same answers.

There are no other assertions: each step of a scenario compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.delete_topics import DELETE_TOPICS, DeleteTopicState
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT, Endpoint, KeyValue
from protocol.messages.streams_group_topology_description_update import (
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    TopologyDescription,
)
from tests.support.brokers_of_4_4 import needs_4_4
from tests.support.groups import subscription
from tests.support.pairs import Pair
from tests.support.scale import scaled
from tests.support.streams_groups import counted, internal, subtopology, topology
from tests.support.streams_session import PROPERTIES, StreamsSession, has_topics

pytestmark = needs_4_4

Scenario = Callable[[Pair, StreamsSession, str], None]
ALL = {"0": [0, 1, 2], "1": [0, 1, 2]}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("streams"), {**PROPERTIES, "group.streams.max.size": "4"})
    yield made
    made.close()


# -- scenarios --------------------------------------------------------------------------------------------------------


def live_and_leave(pair: Pair, s: StreamsSession, t: str) -> None:
    """One member from its first heartbeat to its last, and the group's end."""
    s.beat("a", 0, told=counted(t))
    s.describe()
    s.wait_for_internal_topics(t)
    s.beat("a", 2, active={}, until=has_topics)
    s.describe()
    s.beat("a", 3, active=ALL)
    s.beat("a", 3)
    s.beat("a", 3, active=ALL, rebalance_timeout_ms=7, process_id="other")
    s.describe()
    s.beat("a", -1)
    s.describe()
    s.beat("a", 3)
    s.beat("a", 0, told=counted(t))
    pair.same(DELETE_GROUPS, 2, groups_names=[s.group_id])
    s.beat("a", -1)
    pair.same(DELETE_GROUPS, 2, groups_names=[s.group_id])
    s.describe()


def hand_over(pair: Pair, s: StreamsSession, t: str) -> None:
    """Others get their share once the first one has given it up; a process never has a task twice."""
    s.enter(t)
    s.beat("b", 0, told=counted(t))
    s.describe()
    s.beat("a", 3, active=ALL)
    s.beat("a", 3)
    s.beat("b", 4, active={})
    s.follow("a")
    s.describe()
    s.follow("b")
    s.beat("c", 0, told=counted(t), process_id="process-a")
    for member_id in ("a", "b", "c") * 3:
        s.follow(member_id)
    s.describe()
    s.beat("b", -1)
    for member_id in ("a", "c") * 3:
        s.follow(member_id)
    s.describe()


def standbys(pair: Pair, s: StreamsSession, t: str) -> None:
    """Replicas of tasks with state, by the group's own configuration; endpoints list them, too."""
    s.enter(t, user_endpoint=Endpoint(host="h1", port=1), client_tags=[KeyValue(key="z", value="1")])
    s.configure("a", 3, ALL, streams_num_standby_replicas=1)
    s.beat("b", 0, told=counted(t), user_endpoint=Endpoint(host="h2", port=65_535), rack_id="r")
    for member_id in ("a", "b") * 3:
        s.follow(member_id)
    s.describe()
    s.beat("c", 0, told=counted(t))
    for member_id in ("c", "b", "a") * 3:
        s.follow(member_id)
    s.describe()
    s.follow("c", endpoint_information_epoch=2)
    s.beat("a", -1)
    for member_id in ("b", "c") * 3:
        s.follow(member_id)
    s.describe()


def bad_requests(pair: Pair, s: StreamsSession, t: str) -> None:
    """Invalid heartbeats."""
    told = counted(t)
    for member_id, epoch, fields in (
        ("", 0, {"told": told}),
        ("m", 0, {"told": told, "group_id": " "}),
        ("m", 0, {"told": told, "rack_id": ""}),
        ("m", 0, {"told": told, "instance_id": " "}),
        ("m", 0, {"told": told, "rebalance_timeout_ms": -1}),
        ("m", 0, {"told": told, "active": {"0": [0]}}),
        ("m", 0, {"told": told, "standby": {"0": [0]}}),
        ("m", 0, {}),
        ("m", 1, {"told": told}),
        ("m", 1, {}),
        ("m", -1, {}),
        ("m", -2, {}),
        ("m", -2, {"instance_id": "i"}),
        ("m", -3, {}),
        ("m", 0, {"told": topology(subtopology("0", [t], expressions=["x.*"]))}),
        ("m", 0, {"told": topology(subtopology("0", ["__consumer_offsets", t]))}),
        ("m", 0, {"told": topology(subtopology("0", ["a b"], sinks=["c/d"]))}),
        ("m", 0, {"told": topology(subtopology("0", [t], changelogs=[internal("log", 3)]))}),
        ("m", 0, {"told": topology(subtopology("0", [t]), epoch=-1)}),
        ("m", 0, {"told": topology(subtopology("0", [t]), subtopology("0", [t]))}),
        ("m", 0, {"told": topology(subtopology("0", [t], copartition=[([1], [])]))}),
        ("m", 0, {"told": topology(subtopology("0", [t], copartition=[([-1], [])]))}),
        ("m", 0, {"told": topology(subtopology("0"))}),
        ("m", 0, {"told": topology(subtopology("0", [t]), subtopology("1", repartition=[internal("r")]))}),
    ):
        answer = s.beat(member_id, epoch, **fields)
        assert answer["error_code"] != ErrorCode.NONE
    pair.same(
        STREAMS_GROUP_HEARTBEAT,
        0,
        group_id=s.group_id,
        member_id="m",
        member_epoch=1,
        active_tasks=[],
        standby_tasks=None,
        warmup_tasks=None,
        endpoint_information_epoch=0,
    )
    s.describe()
    s.describe("")


def fenced(pair: Pair, s: StreamsSession, t: str) -> None:
    """Wrong epochs, tasks and topologies."""
    s.enter(t)
    s.beat("b", 0, told=counted(t))
    s.follow("a")
    s.follow("a")
    s.beat("a", 9, active={})
    s.beat("a", 1, active={})
    s.beat("a", 3)
    s.beat("a", 3, active={"0": [0, 1]})
    s.beat("a", 3, active={"0": [0, 1, 2]})
    s.beat("a", 4, active={"9": [0]})
    s.beat("a", 4, active={"0": [3]})
    s.beat("a", 4, active={"0": [-1]})
    s.beat("x", 4, active={})
    s.beat("x", -1)
    s.beat("c", 0, told=topology(subtopology("0", [t])))
    s.beat("c", 0, told=counted(t, epoch=1))
    s.beat("c", 0, told=topology(*reversed(counted(t).subtopologies)))
    s.beat("d", 0, told=counted(t))
    s.beat("e", 0, told=counted(t))
    s.beat("d", 0, told=counted(t))
    s.describe()


def stale_topology(pair: Pair, s: StreamsSession, t: str) -> None:
    """A member of an older version of the application."""
    s.beat("a", 0, told=topology(subtopology("0", [t]), epoch=2))
    s.beat("b", 0, told=topology(subtopology("0", [t, "x"]), epoch=1))
    s.follow("a")
    s.follow("b")
    s.describe()


def topologies(pair: Pair, s: StreamsSession, t: str) -> None:
    """Inconsistent topologies, each in a group of its own."""
    u = f"{t}-u"
    s.create_topics({u: 2, f"{t}-seven": 7})
    r1, log = f"{t}-r1", f"{t}-l"  # the broker creates them: they are valid
    r3, r4 = f"{t}-r3", f"{t}-r4"
    both = [([], [0, 1])]
    for number, told in enumerate(
        [
            topology(),
            topology(subtopology("0", [t, u])),
            topology(subtopology("0", ["x1", "x2", "x5", "x4", t])),
            topology(subtopology("0", [t, u], copartition=[([0, 1], [])])),
            topology(
                subtopology("0", [t], sinks=[r1]),
                subtopology("1", [u], repartition=[internal(r1)], copartition=[([0], [0])], changelogs=[internal(log)]),
            ),
            topology(
                subtopology("0", [t], sinks=[r3]),
                subtopology("1", [u], repartition=[internal(r3, 5)], copartition=[([0], [0])]),
            ),
            topology(
                subtopology("0", [t], sinks=[r3, r4]),
                subtopology("1", repartition=[internal(r3, 5), internal(r4, 4)], copartition=both),
            ),
            topology(
                subtopology("0", sinks=["p"], repartition=[internal("q")]),
                subtopology("1", sinks=["q"], repartition=[internal("p")]),
            ),
            topology(
                subtopology("0", [t], sinks=[f"{t}-seven"]), subtopology("1", repartition=[internal(f"{t}-seven")])
            ),
            topology(
                subtopology("2", repartition=[internal(f"{t}-f2")], changelogs=[internal(f"{t}-f3")]),
                subtopology("1", [u], repartition=[internal(f"{t}-f1")], sinks=[f"{t}-f2"]),
                subtopology("0", [t, f"{t}-seven"], sinks=[f"{t}-f1"]),
            ),
        ]
    ):
        group_id = f"{s.group_id}-{number}"
        s.beat("m", 0, told=told, group_id=group_id)
        s.describe(group_id)


def topics_that_cannot_be_made(pair: Pair, s: StreamsSession, t: str) -> None:
    """Members get the reason."""
    log = internal(f"{t}-log", cleanup_policy="nonsense")
    s.beat("m", 0, told=topology(subtopology("0", [t], changelogs=[log])))
    s.beat("m", 2, active={}, until=lambda answer: "failed" in answer.status[0].status_detail)
    s.describe()


def sources_come_and_go(pair: Pair, s: StreamsSession, t: str) -> None:
    """Tasks follow the topics."""
    s.beat("m", 0, told=topology(subtopology("0", [t]), subtopology("1", [f"{t}-late"])))
    s.create_topics({f"{t}-late": 2})
    s.beat("m", 2, active={}, until=has_topics)
    s.describe()
    pair.ask(DELETE_TOPICS, 6, topics=[DeleteTopicState(name=f"{t}-late")], timeout_ms=10_000)
    s.beat("m", 3, active={"0": [0, 1, 2], "1": [0, 1]}, until=lambda answer: not has_topics(answer))
    s.describe()
    s.follow("m")
    s.describe()


def shutdown(pair: Pair, s: StreamsSession, t: str) -> None:
    """One member ends the application for all."""
    s.enter(t)
    s.beat("b", 0, told=counted(t))
    s.beat("b", 4, active={}, shutdown_application=True)
    s.follow("a", shutdown_application=True)
    s.beat("b", -1)
    s.follow("a")
    s.beat("a", -1, shutdown_application=True)
    s.beat("c", 0, told=counted(t))


def offsets(pair: Pair, s: StreamsSession, t: str) -> None:
    """Only members at their epoch may commit and fetch."""
    s.create_topics({f"{t}-other": 1})
    s.enter(t)
    s.beat("b", 0, told=counted(t))
    s.follow("a")
    for epoch in (2, 3, 4, -1):
        for topic, partition in ((t, 0), (t, 2), (f"{t}-rep", 0), (f"{t}-other", 0)):
            s.commit("a", epoch, topic, partition)
    s.follow("a")
    for epoch in (2, 3, 4, 5, -1):
        for topic, partition in ((t, 0), (t, 2), (f"{t}-rep", 0), (f"{t}-other", 0)):
            s.commit("a", epoch, topic, partition)
    s.commit("a", 4, t, 0, version=8)
    s.commit("x", 4, t, 0)
    s.commit("", -1, t, 0)
    for member_id, epoch in (("a", 4), ("a", 3), ("x", 4), ("", -1), (None, -1)):
        s.fetch(member_id, epoch)
    s.beat("a", -1)
    s.beat("b", -1)
    s.commit("a", 4, t, 0)
    s.commit("", -1, t, 0)
    s.fetch(None, -1)
    pair.same(LIST_GROUPS, 5, states_filter=["Empty"], types_filter=["streams"])


def other_kinds(pair: Pair, s: StreamsSession, t: str) -> None:
    """A group changes its kind only while it is empty, and only from classic to streams and back."""
    told = topology(subtopology("0", [t]))
    member = {"member_id": "c", "rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["none"]}
    consumers = f"{s.group_id}-consumers"

    def consume(group_id: str, epoch: int) -> None:
        pair.same(CONSUMER_GROUP_HEARTBEAT, 1, group_id=group_id, member_epoch=epoch, topic_partitions=[], **member)

    def join(group_id: str) -> None:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription(t))]
        ours, kafka = pair.ask(
            JOIN_GROUP,
            9,
            group_id=group_id,
            member_id="",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        assert ours.error_code == kafka.error_code

    consume(consumers, 0)
    s.beat("a", 0, told=told, group_id=consumers)
    consume(consumers, -1)
    s.beat("a", 0, told=told, group_id=consumers)
    s.describe(consumers)
    s.beat("a", 0, told=told)
    consume(s.group_id, 0)
    join(s.group_id)
    s.beat("a", -1)
    consume(s.group_id, 0)
    s.describe()
    join(s.group_id)
    s.describe(settles=True)
    s.beat("a", 0, told=told)
    s.describe()


def descriptions_without_a_plugin(pair: Pair, s: StreamsSession, t: str) -> None:
    """A broker without a plugin refuses descriptions of topologies (KIP-1331), even from members that do not exist."""
    s.beat("a", 0, told=topology(subtopology("0", [t])))
    for group_id, member_id in ((s.group_id, "a"), (s.group_id, "x"), ("none", "a"), ("", "a"), (s.group_id, "")):
        pair.same(
            STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
            0,
            group_id=group_id,
            member_id=member_id,
            topology_epoch=0,
            topology_description=TopologyDescription(subtopologies=[], global_stores=[]),
        )


SCENARIOS: list[Scenario] = [
    descriptions_without_a_plugin,
    other_kinds,
    live_and_leave,
    hand_over,
    standbys,
    bad_requests,
    fenced,
    stale_topology,
    topologies,
    topics_that_cannot_be_made,
    sources_come_and_go,
    shutdown,
    offsets,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario.__name__))
def test_both_answer_alike(pair: Pair, name: str, scenario: Scenario) -> None:
    scenario(pair, StreamsSession(pair, name, {name: 3}), name)


def test_random_members_get_the_same_tasks(pair: Pair, name: str) -> None:
    """Members of several processes join, follow their targets or not, and leave; with standbys."""
    random = Random(1071)
    for round_number in range(scaled(2)):
        t = f"{name}-{round_number}"
        s = StreamsSession(pair, t, {t: 3})
        s.enter(t)
        s.configure("a", 3, ALL, streams_num_standby_replicas=random.randrange(3))
        there = {"a"}
        for _ in range(25):
            member_id = random.choice("abcd")
            if member_id not in there:
                s.beat(member_id, 0, told=counted(t), process_id=random.choice("pqr"))
                there.add(member_id)
            elif random.random() < 0.15 and len(there) > 1:
                s.beat(member_id, -1)
                there.remove(member_id)
            elif random.random() < 0.1:
                s.beat(member_id, 0, told=counted(t))
            else:
                s.follow(member_id)
        s.describe()
        for member_id in sorted(there):
            s.beat(member_id, -1)
