"""The commands of the control channel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.control.clock import AdjustableClock
from broker.control.commands import Commands
from broker.control.faults import FaultyDispatcher
from broker.control.links import Links
from broker.control.node_commands import NodeCommands, NodeParts, Refused
from broker.maintenance.log_cleaner import Cleaner
from runtime.deferred import Deferred
from storage.log.partition_log import PartitionLog
from tests.support.cleaning import consume
from tests.support.data_client import batch
from tests.support.instant_workers import InstantWorkers
from tests.support.txn_broker import TxnBroker

DAY_MS = 86_400_000
EIGHT_DAYS_MS = 8 * DAY_MS


class OnePool(InstantWorkers):
    """A broker of one process whose background work is done at once."""

    size = 1

    def close(self) -> None: ...


class Stage:
    """The commands, and the broker that they control."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.broker: Any = TxnBroker(directory, settings)
        of_logs = self.broker.logs, self.broker.background, self.broker.config
        self.broker.cleaner = Cleaner(
            *of_logs, self.broker.loop, self.broker.timers, self.broker.clock, lambda size: OnePool()
        )
        self.dispatcher = FaultyDispatcher(self.broker.served)
        self.moves: list[bool] = []
        clock = SimpleNamespace(move_on=self.move_on, now_ms=self.broker.clock.now_ms)
        self.broker.server = SimpleNamespace(listeners=(), connections=())
        self.links = Links()
        self.commands = Commands(self.broker, clock, self.dispatcher, self.links)  # type: ignore[arg-type]

    def move_on(self, milliseconds: int, deadlines: bool) -> None:
        self.moves.append(deadlines)
        self.broker.clock.advance(milliseconds)

    def __call__(self, command: object, **arguments: object) -> Any:
        """Run a command and all pending work; return the result."""
        result = self.commands.carry_out(command, arguments)
        self.broker.settle()
        return result.result() if isinstance(result, Deferred) else result

    def write(self, topic: str, *values: bytes) -> None:
        for value in values:
            self.broker.client.write(None, ("-", -1), (topic, 0), -1, value, version=12, transactional=False)

    def log(self, topic: str) -> PartitionLog:
        found: PartitionLog = self.broker.partition(topic).log
        return found


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.broker.cleaner.close()
    made.broker.close()


@pytest.mark.parametrize(
    ("command", "arguments", "why"),
    [
        ("explode", {}, "unknown command 'explode'; the commands are delay, fail_next"),
        ("carry_out", {}, "unknown command"),
        ("_roll", {}, "unknown command"),
        (["roll"], {}, "unknown command"),
        ("roll", {}, "missing a required argument: 'topic'"),
        ("roll", {"topic": "t", "speed": 1}, "unexpected keyword argument 'speed'"),
        ("roll", {"topic": 7}, "topic takes str, not 7"),
        ("roll", {"topic": "t", "partition": True}, r"partition takes int \| None, not True"),
        ("roll", {"topic": "nowhere"}, "there is no nowhere"),
        ("roll", {"topic": "t", "partition": 5}, "there is no t-5"),
        ("delay", {"api": "Produce", "delay_ms": -1}, "delay_ms is at least 0, not -1"),
        ("delay", {"api": "Prodcue", "delay_ms": 1}, "no API 'Prodcue'"),
        ("fail_next", {"api": "Produce", "error": "NONE"}, "'NONE' is not an error"),
        ("fail_next", {"api": "Produce", "error": "SOME"}, "'SOME' is not an error"),
        ("fail_next", {"api": "Produce", "error": "UNKNOWN_SERVER_ERROR", "count": 0}, "count is at least 1"),
        ("delay", {"api": "Produce", "delay_ms": 1, "controller": True}, "this node is not broker and controller"),
        ("move_time_on", {"milliseconds": -1}, "milliseconds is at least 0"),
        ("cut_off", {"sending_to": 9092}, r"sending_to takes list\[int\], not 9092"),
        ("cut_off", {"receiving_from": [True]}, r"receiving_from takes list\[int\], not \[True\]"),
        ("fence", {"transactional_id": "unknown"}, "no producer has used the transactional id unknown"),
        ("clean", {"topic": "t"}, "t is not compacted"),
    ],
)
def test_invalid_arguments_are_one_line(stage: Stage, command: object, arguments: Any, why: str) -> None:
    """Nothing changes."""
    stage.broker.create("t")
    stage.broker.client.wait_for_coordinator("unknown")
    with pytest.raises(Refused, match=why):
        stage(command, **arguments)
    assert stage.log("t").segments.base_offsets == [0]


def test_arguments_have_to_be_an_object(stage: Stage) -> None:
    with pytest.raises(Refused, match="an object, not"):
        stage.commands.carry_out("roll", ["t"])


def test_controller_has_no_commands_of_brokers(stage: Stage) -> None:
    """It has faults, cuts and a clock."""
    parts = NodeParts(timers=stage.broker.timers, server=stage.broker.server)
    commands = NodeCommands(parts, AdjustableClock(), stage.dispatcher, stage.links)
    commands.carry_out("fail_next", {"api": "Fetch", "error": "NOT_CONTROLLER"})
    assert stage.dispatcher._faults.keys() == {b"\0\1"}
    with pytest.raises(Refused, match=r"cut_off, reconnect, move_time_on$"):
        commands.carry_out("roll", {"topic": "t"})


def test_controller_in_a_brokers_process_has_faults_and_timers_of_its_own(stage: Stage) -> None:
    of_controller = FaultyDispatcher(stage.broker.served)
    moved: list[str] = []
    timers = [SimpleNamespace(clock_moved=partial(moved.append, each), call_later=None) for each in ("broker", "own")]
    server = SimpleNamespace(listeners=(), connections=(), dispatcher=of_controller)
    parts: list[Any] = [SimpleNamespace(timers=each, server=server) for each in timers]
    commands = NodeCommands(parts[0], AdjustableClock(), stage.dispatcher, stage.links, parts[1])
    commands.carry_out("fail_next", {"api": "Fetch", "error": "NOT_CONTROLLER", "controller": True})
    commands.carry_out("delay", {"api": "Produce", "delay_ms": 1})
    assert of_controller._faults.keys() == {b"\0\1"}
    assert stage.dispatcher._faults.keys() == {b"\0\0"}
    commands.carry_out("clear_faults", {})
    assert not of_controller._faults
    assert not stage.dispatcher._faults
    commands.carry_out("move_time_on", {"milliseconds": 1})
    assert moved == ["broker", "own"]


def test_faults_are_set_and_cleared_by_api(stage: Stage) -> None:
    ordered = stage.dispatcher._faults
    stage("delay", api="Produce", delay_ms=5, count=2)
    stage("fail_next", api="Produce", error="NOT_LEADER_OR_FOLLOWER")
    stage("disconnect_next", api="Fetch", carried_out=True)
    of_produce, of_fetch = ordered[b"\0\0"], ordered[b"\0\1"]
    assert [(each.count, each.delay_ms, each.error) for each in of_produce] == [(2, 5, None), (1, None, 6)]
    assert [each.is_served for each in of_fetch] == [True]
    stage("clear_faults")
    assert ordered == {}


@pytest.mark.parametrize("is_open", [False, True])
def test_fenced_producer_is_rejected_and_its_successor_works(stage: Stage, is_open: bool) -> None:
    """An open transaction is aborted first."""
    stage.broker.create("t")
    client = stage.broker.client
    client.wait_for_coordinator("x")
    assert client.init("x") == "NONE P0 0"
    if is_open:
        client.write("x", ("P0", 0), ("t", 0), 0, b"lost", version=12)

    fenced: Any = stage.commands.carry_out("fence", {"transactional_id": "x"})
    assert fenced.done is not is_open
    stage.broker.advance(20)

    assert fenced.result() is None
    assert client.end("x", ("P0", 0), True, 5).startswith("PRODUCER_FENCED")
    assert client.init("x") == ("NONE P0 3" if is_open else "NONE P0 2")
    assert client.committed_values("t") == []
    assert client.latest("t", committed=True) == stage.log("t").log_end_offset


def test_moved_time_fires_timers(stage: Stage) -> None:
    """In the next turn. The command returns the new time."""
    called: list[str] = []
    stage.broker.timers.call_later(DAY_MS, lambda: called.append("due"))
    stage.broker.timers.call_later(EIGHT_DAYS_MS + 1, lambda: called.append("later"))
    before_ms = stage.broker.clock.now_ms()
    assert stage("move_time_on", milliseconds=EIGHT_DAYS_MS) == before_ms + EIGHT_DAYS_MS
    stage.broker.advance(0)
    assert called == ["due"]
    stage("move_time_on", milliseconds=0, deadlines=False)
    assert stage.moves == [True, False]


def test_roll_and_retention_delete_old_records(stage: Stage) -> None:
    """After a week, by default. Retention rolls old segments first, as Kafka does."""
    stage.broker.create("t", 2)
    stage.write("t", b"a", b"b")
    assert stage("roll", topic="t") == {"t-0": 2, "t-1": 0}
    assert stage("roll", topic="t", partition=0) == {"t-0": 2}
    stage.write("t", b"c")
    stage("run_retention")
    assert stage.log("t").log_start_offset == 0

    stage("move_time_on", milliseconds=EIGHT_DAYS_MS)
    stage("run_retention")
    assert stage.log("t").log_start_offset == 3


def test_clean_compacts_the_active_segment(stage: Stage) -> None:
    """It is rolled first, however small."""
    stage.broker.cleaner.start()
    stage.broker.create("t", **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"})
    log = stage.log("t")
    now_ms = stage.broker.clock.now_ms()
    for value in (b"oldest", b"older", b"newest"):
        log.append(bytearray(batch(value, key=b"k", timestamp=now_ms)), leader_epoch=0, now_ms=now_ms)
    stage("clean", topic="t")
    assert [record.value for record in consume(log)] == [b"newest"]


def test_clean_without_a_cleaner_is_refused(stage: Stage) -> None:
    """The cleaner is disabled, or not started."""
    stage.broker.create("t", **{"cleanup.policy": "compact"})
    with pytest.raises(Refused, match="t-0: the cleaner is off"):
        stage("clean", topic="t")
