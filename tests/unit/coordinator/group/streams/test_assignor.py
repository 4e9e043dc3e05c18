"""The sticky task assignor: each task once, evenly, and in its place (KIP-1071)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.group.streams.assignor import MemberSpec, SubtopologySpec, assign
from coordinator.group.streams.java_heap import JavaHeap
from coordinator.group.streams.tasks import NO_TASKS, Tasks, each_task
from tests.support.scale import scaled

STATELESS, STATEFUL = SubtopologySpec(3, False), SubtopologySpec(3, True)


def fresh(*members: str, process: str | None = None) -> dict[str, MemberSpec]:
    return {each: MemberSpec(process or f"process-{each}", NO_TASKS) for each in members}


def active(targets: dict[str, Tasks]) -> dict[str, dict[str, list[int]]]:
    return {member: {each: sorted(p) for each, p in target.active.items()} for member, target in targets.items()}


def test_no_members_or_no_tasks_give_no_assignment() -> None:
    assert assign({"0": STATELESS}, {}, 0) == {}
    assert assign({}, fresh("a"), 1) == {"a": NO_TASKS}


def test_tasks_are_spread_evenly() -> None:
    targets = assign({"0": STATELESS, "1": STATELESS}, fresh("a", "b"), 0)
    assert active(targets) == {"a": {"0": [0, 2], "1": [1]}, "b": {"0": [1], "1": [0, 2]}}


def test_tasks_stay_with_their_members() -> None:
    """As far as loads stay even: by partition, so that each member keeps some of each subtopology."""
    has = Tasks({"0": frozenset(range(3)), "1": frozenset(range(3))})
    members = {"a": MemberSpec("p", has), "b": MemberSpec("q", NO_TASKS)}
    targets = assign({"0": STATELESS, "1": STATELESS}, members, 0)
    assert active(targets) == {"a": {"0": [0, 1], "1": [0]}, "b": {"0": [2], "1": [1, 2]}}


def test_tasks_go_to_their_standbys() -> None:
    members = {
        "a": MemberSpec("p", NO_TASKS),
        "b": MemberSpec("q", Tasks(standby={"0": frozenset({1, 2})})),
        "c": MemberSpec("r", Tasks(standby={"0": frozenset({1})})),
    }
    targets = assign({"0": STATEFUL}, members, 0)
    assert active(targets) == {"a": {"0": [0]}, "b": {"0": [1]}, "c": {"0": [2]}}


def test_tasks_go_to_the_highest_offsets() -> None:
    """Members with standbys come first, whatever the others report, and each gets its share."""
    offsets = {"a": {0: 3, 1: 9}, "b": {0: 9, 1: 9}, "c": {2: 9}}
    members = {each: MemberSpec(each, NO_TASKS, {"0": reported}) for each, reported in offsets.items()}
    assert active(assign({"0": STATEFUL}, members, 0)) == {"a": {"0": [1]}, "b": {"0": [0]}, "c": {"0": [2]}}
    members["d"] = MemberSpec("d", Tasks(standby={"0": frozenset({0})}))
    targets = active(assign({"0": STATEFUL}, members, 0))
    assert targets == {"a": {"0": [1]}, "b": {}, "c": {"0": [2]}, "d": {"0": [0]}}


def test_standbys_are_in_other_processes() -> None:
    members = fresh("a", "b", process="p") | fresh("c", process="q")
    targets = assign({"0": STATEFUL, "1": STATELESS}, members, 2)
    standbys = Counter(task for target in targets.values() for task in each_task(target.standby))
    # Two processes have room for one replica; subtopologies without state have none.
    assert standbys == Counter({("0", 0): 1, ("0", 1): 1, ("0", 2): 1})


def test_former_active_member_becomes_the_standby() -> None:
    members = {
        "a": MemberSpec("p", Tasks({"0": frozenset(range(3))})),
        "b": MemberSpec("q", NO_TASKS),
        "c": MemberSpec("r", NO_TASKS),
    }
    targets = assign({"0": STATEFUL}, members, 1)
    lost = {task for task in each_task(members["a"].assigned.active) if task not in set(each_task(targets["a"].active))}
    assert set(each_task(targets["a"].standby)) & lost


def test_standbys_stay_with_the_least_loaded_of_their_holders() -> None:
    members = {
        "a": MemberSpec("p", Tasks({"0": frozenset({0, 1})})),
        "b": MemberSpec("q", Tasks({"0": frozenset({2})}, {"0": frozenset({0})})),
        "c": MemberSpec("r", Tasks(standby={"0": frozenset({0, 1, 2})})),
    }
    targets = assign({"0": STATEFUL}, members, 1)
    assert active(targets) == {"a": {"0": [0]}, "b": {"0": [2]}, "c": {"0": [1]}}
    standbys = {member: set(each_task(target.standby)) for member, target in targets.items()}
    assert standbys == {"a": {("0", 1)}, "b": {("0", 0)}, "c": {("0", 2)}}


def test_heap_orders_equal_items_as_java() -> None:
    heap: JavaHeap[str] = JavaHeap(lambda _: 0)
    for each in "abcde":
        heap.push(each)
    assert "".join(heap.pop() for _ in range(5)) == "aedcb"
    ranks = {"a": 3, "b": 1, "c": 2, "d": 1}
    ordered: JavaHeap[str] = JavaHeap(ranks.__getitem__)
    for each in ranks:
        ordered.push(each)
    assert [ranks[ordered.pop()] for _ in range(4)] == [1, 1, 2, 3]


SUBTOPOLOGIES = st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=4).map(
    lambda found: {str(index): SubtopologySpec(*each) for index, each in enumerate(found)}
)
PROCESSES = st.lists(st.sampled_from("pqrst"), min_size=1, max_size=6)


@settings(max_examples=scaled(100))
@given(SUBTOPOLOGIES, PROCESSES, PROCESSES, st.integers(0, 2))
def test_any_assignment_is_complete_and_balanced(
    subtopologies: dict[str, SubtopologySpec], before: list[str], after: list[str], standby_count: int
) -> None:
    """Members join and leave, with the last assignments of the others."""
    everything = {(each, p) for each, spec in subtopologies.items() for p in range(spec.task_count)}
    targets: dict[str, Tasks] = {}
    for processes in (before, after, after):
        previous = targets
        members = {
            f"m{index}": MemberSpec(process, previous.get(f"m{index}", NO_TASKS))
            for index, process in enumerate(processes)
        }
        targets = assign(subtopologies, members, standby_count)
        actives = Counter(task for target in targets.values() for task in each_task(target.active))
        assert actives == Counter(everything)
        counts = [len(list(each_task(target.active))) for target in targets.values()]
        assert max(counts) <= -(-len(everything) // len(counts)) + (len(set(processes)) < len(processes))
        of_process = Counter(
            (members[each].process_id, task)
            for each, target in targets.items()
            for task in (*each_task(target.active), *each_task(target.standby))
        )
        assert all(count == 1 for count in of_process.values())
        standbys = Counter(task for target in targets.values() for task in each_task(target.standby))
        replicas = min(standby_count, len(set(processes)) - 1)
        stateful = {(each, p) for each, p in everything if subtopologies[each].is_stateful}
        assert standbys == Counter(dict.fromkeys(stateful, replicas) if replicas else {})
