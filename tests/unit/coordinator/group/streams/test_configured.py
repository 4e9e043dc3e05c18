"""A topology in a cluster: partitions of internal topics, and its problems (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coordinator.group.refused import Refused
from coordinator.group.streams import configured as module
from coordinator.group.streams.configured import ConfiguredTopology, Status, configure, named
from coordinator.group.streams.topology import topology_of
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from tests.support.consumer_groups import Topics
from tests.support.streams_groups import internal, subtopology, topology

TOPICS = {"t": 3, "u": 2, "seven": 7}


def configured(*subtopologies: Struct, topics: dict[str, int] | None = None) -> ConfiguredTopology:
    return configure(topology_of(topology(*subtopologies)), Topics(TOPICS | (topics or {})))


def refusal(*subtopologies: Struct, epoch: int = 0) -> Refused:
    with pytest.raises(Refused) as raised:
        configure(topology_of(topology(*subtopologies, epoch=epoch)), Topics(TOPICS))
    return raised.value


def problem(found: ConfiguredTopology) -> tuple[Status, str]:
    assert found.problem is not None
    assert not found.is_ready
    return found.problem.status, found.problem.detail


def tasks(found: ConfiguredTopology) -> dict[str, int]:
    assert found.subtopologies is not None
    return {each: subtopology.task_count for each, subtopology in found.subtopologies.items()}


def wanted(found: ConfiguredTopology) -> dict[str, int]:
    return {name: topic.partitions for name, topic in found.missing.items()}


def test_tasks_are_as_many_as_the_most_partitions_of_an_input() -> None:
    found = configured(subtopology("1", ["t", "u"]), subtopology("0", ["u"]))
    assert found.is_ready
    assert list(tasks(found).items()) == [("0", 2), ("1", 3)]


def test_topology_without_subtopologies_is_ready() -> None:
    assert configured().is_ready


def test_missing_sources_are_named() -> None:
    found = configured(subtopology("0", ["x5", "x1", "t"]), subtopology("1", ["x3", "x2"]))
    detail = "Source topics x1, x2, x3 and 1 additional topics are missing."
    assert problem(found) == (Status.MISSING_SOURCE_TOPICS, detail)
    assert found.subtopologies is None


def test_partitions_flow_through_subtopologies() -> None:
    """In any order of the subtopologies."""
    found = configured(
        subtopology("2", repartition=[internal("r2")], changelogs=[internal("log2")]),
        subtopology("1", ["u"], repartition=[internal("r1")], sinks=["r2"]),
        subtopology("0", ["t", "seven"], sinks=["r1"]),
    )
    assert wanted(found) == {"r1": 7, "r2": 7, "log2": 7}
    assert tasks(found) == {"0": 7, "1": 7, "2": 7}
    status, detail = problem(found)
    assert status is Status.MISSING_INTERNAL_TOPICS
    assert detail.startswith("Internal topics are missing: ")


def test_a_long_chain_takes_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds over a long chain would block the loop for seconds."""
    asked = 0
    most = module._most

    def counted(counts: Iterable[int | None]) -> int | None:
        nonlocal asked
        asked += 1
        return most(counts)

    monkeypatch.setattr(module, "_most", counted)
    chain = [
        subtopology(f"s{part}", repartition=[internal(f"r{part - 1}")], sinks=[f"r{part}"]) for part in range(1, 300)
    ]
    found = configured(subtopology("s0", ["t"], sinks=["r0"]), *chain)
    assert tasks(found) == {f"s{part}": 3 for part in range(300)}
    assert asked <= 4 * 300


def test_application_may_set_partition_counts() -> None:
    found = configured(
        subtopology("0", ["t"], sinks=["r"]),
        subtopology("1", repartition=[internal("r", 5, 2, retention_ms="7", cleanup_policy="delete")]),
    )
    assert wanted(found) == {"r": 5}
    assert found.missing["r"].replication_factor == 2
    assert dict(found.missing["r"].configs) == {"retention.ms": "7", "cleanup.policy": "delete"}


def test_existing_topics_are_not_missing() -> None:
    parts = subtopology("0", ["t"], sinks=["r"]), subtopology("1", repartition=[internal("r")])
    assert configured(*parts, topics={"r": 3}).is_ready
    detail = "Existing topic r has different number of partitions: expected 3, found 4"
    assert problem(configured(*parts, topics={"r": 4})) == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_source_of_another_applications_internal_topic() -> None:
    """This application does not decide its partitions."""
    found = configured(subtopology("0", ["t"], changelogs=[internal("log")]), topics={"log": 3})
    assert (found.is_ready, wanted(found)) == (True, {})


# -- copartitioning ---------------------------------------------------------------------------------------------------


def test_copartitioned_sources_have_equal_counts() -> None:
    assert configured(subtopology("0", ["t", "t2"], copartition=[([0, 1], [])]), topics={"t2": 3}).is_ready
    detail = "Following topics do not have the same number of partitions: [{t=3, u=2}]"
    found = configured(subtopology("0", ["t", "u"], copartition=[([0, 1], [])]))
    assert problem(found) == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_repartition_topics_follow_their_copartitioned_source() -> None:
    found = configured(
        subtopology("0", ["seven"], sinks=["r"]),
        subtopology("1", ["u"], repartition=[internal("r")], copartition=[([0], [0])], changelogs=[internal("log")]),
    )
    assert wanted(found) == {"r": 2, "log": 2}


def test_fixed_repartition_counts_must_match_the_source() -> None:
    found = configured(
        subtopology("0", ["t"], sinks=["r"]),
        subtopology("1", ["u"], repartition=[internal("r", 5)], copartition=[([0], [0])]),
    )
    detail = (
        "Number of partitions [5] of repartition topic [r] doesn't match number of partitions [2] of the source topic."
    )
    assert problem(found) == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_copartitioned_repartition_topics() -> None:
    """The largest number, or the application's own for one topic."""
    first = subtopology("0", ["t"], sinks=["r1"]), subtopology("1", ["u"], sinks=["r2"])
    together = [([], [0, 1])]
    flexible = subtopology("2", repartition=[internal("r1"), internal("r2")], copartition=together)
    assert wanted(configured(*first, flexible)) == {"r1": 3, "r2": 3}
    fixed = subtopology("2", repartition=[internal("r1", 5), internal("r2")], copartition=together)
    assert wanted(configured(*first, fixed)) == {"r1": 5, "r2": 5}
    unfit = subtopology("2", repartition=[internal("r1", 5), internal("r2", 4)], copartition=together)
    detail = "Following topics do not have the same number of partitions: [{r1=5, r2=4}]"
    assert problem(configured(*first, unfit)) == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


def test_empty_copartition_group_is_ignored() -> None:
    assert configured(subtopology("0", ["t"], copartition=[([], [])])).is_ready


# -- invalid topologies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subtopologies", "message"),
    [
        ([subtopology("0")], "No source topics found for subtopology 0"),
        (
            [subtopology("0", ["t"]), subtopology("1", repartition=[internal("r")])],
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is"
            " never used as a sink topic.",
        ),
        (
            [
                subtopology("0", sinks=["a"], repartition=[internal("b")]),
                subtopology("1", sinks=["b"], repartition=[internal("a")]),
            ],
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that"
            " cannot be resolved.",
        ),
    ],
)
def test_invalid_topologies(subtopologies: list[Struct], message: str) -> None:
    refused = refusal(*subtopologies)
    assert (refused.code, refused.message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def test_malformed_topologies() -> None:
    assert refusal(epoch=-1).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert refusal(subtopology("0", ["t"]), subtopology("0", ["t"])).code is ErrorCode.UNKNOWN_SERVER_ERROR
    for copartition in (([1], []), ([-1], []), ([], [0])):
        refused = refusal(subtopology("0", ["t"], copartition=[copartition]))
        assert refused.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_names_are_counted_beyond_three() -> None:
    assert named(["a", "b", "c"]) == "a, b, c"
    assert named(["a", "b", "c", "d", "e"]) == "a, b, c and 2 additional topics"
