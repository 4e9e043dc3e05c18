"""Keys that have an effect in a member alone: a value other than the default changes what the member does."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock, patch

import pytest

from broker.membership.progress import Progress
from broker.membership.registration import observer_limits, times
from broker.membership.replication import MemberReplication, _limits, _selects_racks
from broker.membership.start_limits import bound_start
from broker.process.start_errors import CannotStart
from broker.replication.replica_reads import LEADER_ONLY, RACK_AWARE
from broker.replication.throttles import LEADER_RATE, ReplicationThrottles
from config import BrokerConfig, load
from config.membership import controller_addresses
from metadata.framing import new_record
from metadata.image import MetadataImage, ResourceType
from metadata.replay import replay_all
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.messages.cluster_metadata import ConfigRecord
from protocol.messages.fetch_snapshot import FETCH_SNAPSHOT
from replication.following import Fetcher
from replication.lifecycle import BrokerLifecycle, Identity, LifecycleState, RegistrationRefused
from replication.observing import Endpoint, Observer, ObserverState
from runtime.timers import Timers
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.unit.replication.doubles import MemoryLog

DIRECTORY = bytes([7]) * 16


def configured(**keys: str) -> BrokerConfig:
    """Return a configuration; two underscores of a name are a dot."""
    return load(overrides={name.replace("__", "."): value for name, value in keys.items()})


# -- heartbeats --------------------------------------------------------------------------------------------------------


def lifecycle(**keys: str) -> BrokerLifecycle:
    """Return the lifecycle of a broker that registers at 0."""
    return BrokerLifecycle(Identity(3, "c", bytes(16), [], [], None, [DIRECTORY]), times(configured(**keys)), 0)


def running(**keys: str) -> BrokerLifecycle:
    """Return the lifecycle of a broker that was unfenced at 0."""
    life = lifecycle(**keys)
    answers = (
        BROKER_REGISTRATION.response(broker_epoch=55),
        BROKER_HEARTBEAT.response(is_caught_up=True),
        BROKER_HEARTBEAT.response(is_caught_up=True, is_fenced=False),
    )
    for number, answer in enumerate(answers):
        if number == 2:
            life.logs_are_open(0)
        assert life.next_request(life.due_ms) is not None
        life.answered(answer, 0)
    assert life.state is LifecycleState.RUNNING
    return life


def test_time_between_heartbeats() -> None:
    assert running(broker__heartbeat__interval__ms="1234").due_ms == 1234


def test_half_a_session_is_the_longest_wait_after_failures() -> None:
    """The controllers would fence the broker after a whole one."""
    life = running(broker__session__timeout__ms="700")
    for _ in range(10):
        assert life.next_request(life.due_ms) is not None
        life.failed(life.due_ms)
    before = life.due_ms
    assert life.next_request(before) is not None
    life.failed(before)
    assert life.due_ms - before == 350


def test_registration_gives_up() -> None:
    life = lifecycle(initial__broker__registration__timeout__ms="800")
    assert life.next_request(799) is not None
    life.failed(799)
    with pytest.raises(RegistrationRefused, match="for 800 ms"):
        life.next_request(life.due_ms)


def test_failed_directory_that_nobody_hears_of() -> None:
    life = running(log__dir__failure__timeout__ms="900")
    life.directory_failed(DIRECTORY, 0)
    assert life.next_request(0) is not None
    life.failed(899)
    with pytest.raises(RegistrationRefused, match="for 900 ms"):
        life.next_request(life.due_ms)


# -- the metadata log --------------------------------------------------------------------------------------------------


def observer(**keys: str) -> Observer:
    log = MemoryLog()
    return Observer(3, "c", DIRECTORY, [Endpoint("one", 1)], log, observer_limits(configured(**keys)))  # type: ignore[arg-type]


def test_sizes_of_the_metadata_log_s_parts() -> None:
    observing = observer(controller__quorum__fetch__max__bytes="700")
    asked = observing.next_request(0)
    assert asked is not None
    assert (asked.body.max_bytes, asked.body.topics[0].partitions[0].partition_max_bytes) == (700, 700)


def test_sizes_of_a_snapshot_s_parts() -> None:
    observing = observer(controller__quorum__fetch__snapshot__max__bytes="800")
    observing.state = ObserverState.SNAPSHOT
    asked = observing.next_request(0)
    assert asked is not None
    assert (asked.api, asked.body.max_bytes) == (FETCH_SNAPSHOT, 800)


def test_pause_after_a_failed_fetch_of_metadata() -> None:
    observing = observer(controller__quorum__retry__backoff__ms="300")
    assert observing.next_request(0) is not None
    observing.failed(0)
    assert observing.due_ms == 300


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"controller__quorum__voters": "100@one:1,101@[::1]:2"}, [("one", 1), ("::1", 2)]),
        ({"controller__quorum__bootstrap__servers": "two:3,three:4"}, [("two", 3), ("three", 4)]),
        ({"controller__quorum__voters": "100@one:1", "controller__quorum__bootstrap__servers": "two:3"}, [("two", 3)]),
    ],
)
def test_addresses_of_the_controllers(keys: dict[str, str], expected: list[tuple[str, int]]) -> None:
    config = configured(process__roles="broker", node__id="3", controller__listener__names="CONTROLLER", **keys)
    assert controller_addresses(config.values) == expected


# -- the start ---------------------------------------------------------------------------------------------------------


def test_start_ends_after_a_time() -> None:
    clock = FakeClock()
    loop = FakeLoop(clock)
    progress = Progress(Mock())
    lift = bound_start(configured(server__max__startup__time__ms="1500"), Timers(loop, clock), progress)
    loop.advance(1499)
    asyncio.run(progress.until(lambda: True))
    loop.advance(1)
    with pytest.raises(CannotStart, match=r"server\.max\.startup\.time\.ms=1500"):
        asyncio.run(progress.until(lambda: True))
    lift()


# -- followers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("replica.fetch.wait.max.ms", "max_wait_ms"),
        ("replica.fetch.min.bytes", "min_bytes"),
        ("replica.fetch.response.max.bytes", "max_bytes"),
    ],
)
def test_requests_of_followers(key: str, field: str) -> None:
    fetcher = Fetcher(2, 202, _limits(load(overrides={key: "321"})))
    fetcher.add((bytes(16), 0), MemoryLog(), 5)
    request = fetcher.next_request(0)
    assert request is not None
    assert getattr(request, field) == 321


def test_most_bytes_of_a_partition() -> None:
    fetcher = Fetcher(2, 202, _limits(configured(replica__fetch__max__bytes="321")))
    fetcher.add((bytes(16), 0), MemoryLog(), 5)
    request = fetcher.next_request(0)
    assert request is not None
    assert request.topics[0].partitions[0].partition_max_bytes == 321


def test_pause_after_a_failed_fetch() -> None:
    fetcher = Fetcher(2, 202, _limits(configured(replica__fetch__backoff__ms="321")))
    fetcher.add((bytes(16), 0), MemoryLog(), 5)
    assert fetcher.next_request(0) is not None
    fetcher.failed(0)
    assert fetcher.next_request(320) is None
    assert fetcher.next_request(321) is not None


class Replication:
    """The replication of a member, on a clock."""

    def __init__(self, **keys: str) -> None:
        clock = FakeClock()
        self.loop = FakeLoop(clock)
        parts = Mock(
            config=configured(**keys),
            clock=clock,
            timers=Timers(self.loop, clock),
            metadata=Mock(image=MetadataImage()),
        )
        self.background = parts.background
        self.logs = parts.logs
        self.logs.directories = ["directory"]
        self.logs.checkpoints.high_watermark_tasks.return_value = ["task"]
        self.member = MemberReplication(parts, Mock(), Mock(), Mock(), Mock(), Mock())


def test_times_between_checkpoints_of_high_watermarks() -> None:
    replication = Replication(replica__high__watermark__checkpoint__interval__ms="700")
    replication.member.start()
    replication.loop.advance(699)
    assert replication.background.run.call_count == 0
    replication.loop.advance(701)
    assert [list(each.args[0]) for each in replication.background.run.call_args_list] == [["task"]] * 2


def test_lag_of_followers_is_checked_twice_in_its_time() -> None:
    replication = Replication(replica__lag__time__max__ms="700")
    with patch.object(replication.member.replicas, "check_lag") as check:
        replication.member.start()
        replication.loop.advance(349)
        assert check.call_count == 0
        replication.loop.advance(1)
    assert check.call_count == 1
    assert replication.member.replicas._max_lag_ms == 700


@pytest.mark.parametrize(("selector", "expected"), [(None, False), (LEADER_ONLY, False), (RACK_AWARE, True)])
def test_replicas_that_consumers_read(selector: str | None, expected: bool) -> None:
    keys = {} if selector is None else {"replica__selector__class": selector}
    assert _selects_racks(configured(**keys)) is expected
    with pytest.raises(CannotStart, match=r"com\.example\.Selector: classes are not supported"):
        _selects_racks(configured(replica__selector__class="com.example.Selector"))


@pytest.mark.parametrize(("windows", "size_s", "counted_ms"), [("2", "3", 6000), ("4", "1", 4000)])
def test_windows_of_replication_throttles(windows: str, size_s: str, counted_ms: int) -> None:
    """replication.quota.window.num and replication.quota.window.size.seconds: how long a large batch counts."""
    image = MetadataImage()
    rate = new_record(
        33, ConfigRecord, resource_type=ResourceType.BROKER, resource_name="", name=LEADER_RATE, value="1"
    )
    replay_all(image, [rate])
    config = configured(replication__quota__window__num=windows, replication__quota__window__size__seconds=size_s)
    throttle = ReplicationThrottles(config, image).leader
    throttle.record(1_000_000, 0)
    assert throttle.wait_ms(0) == counted_ms


def test_a_throttle_that_is_no_number_is_left_out() -> None:
    """Apache Kafka's controllers take any text. The rate of all brokers stays in force."""
    image = MetadataImage()
    for name, value in (("", "7"), ("1", "fast")):
        fields = {"resource_type": ResourceType.BROKER, "resource_name": name, "name": LEADER_RATE, "value": value}
        replay_all(image, [new_record(33, ConfigRecord, **fields)])
    assert ReplicationThrottles(configured(node__id="1"), image).leader.rate == 7
