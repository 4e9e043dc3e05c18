"""Fetches of followers in sessions: they read the partitions that have changed, and miss no change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.replicas.fetch_attempt import FetchAttempt
from broker.replicas.partition import OfflineLog
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH
from replication.isr_changes import Answer, Outcome
from replication.leading import Proposal
from storage.errors import LogOffline
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID
from tests.unit.broker.replication.follower_client import MANY, FollowerClient, ManyPartitions, rests
from tests.unit.broker.replication.leading_broker import MAX_LAG_MS
from tests.unit.replication.bytecodes import bytecodes

WAIT_MS = 500


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ManyPartitions]:
    made = ManyPartitions(tmp_path, 3, LogConfig(segment_bytes=200, retention_bytes=0, file_delete_delay_ms=0))
    yield made
    made.close()


@pytest.fixture
def follower(broker: ManyPartitions) -> FollowerClient:
    """A follower that knows everything."""
    made = FollowerClient(broker)
    made.settle()
    assert all(map(rests, broker.led))
    return made


# -- costs -----------------------------------------------------------------------------------------------------------


def busy_round(follower: FollowerClient) -> None:
    """A record, the fetch that waited for it, and the fetches until it is committed and known."""
    follower.broker.append(1)
    follower.broker.settle()
    assert list(follower.receive()) == [1]
    follower.fetch()
    follower.fetch()
    follower.send(wait_ms=WAIT_MS)
    follower.broker.settle()


def cost(directory: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return the reads of partitions and the bytecodes of a busy round with so many followed partitions."""
    broker = ManyPartitions(directory, count)
    follower = FollowerClient(broker)
    follower.settle()
    follower.send(wait_ms=WAIT_MS)
    busy_round(follower)
    reads = 0
    read_one = FetchAttempt._read_one

    def counted(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        return read_one(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(FetchAttempt, "_read_one", counted)
        busy_round(follower)
    found = bytecodes(lambda: busy_round(follower))
    broker.close()
    return reads, found


def test_cost_does_not_depend_on_idle_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One busy partition among 1,000."""
    few, many = (cost(tmp_path / str(count), count, monkeypatch) for count in (3, 1000))
    assert many[0] == few[0] <= 5
    assert many[1] < few[1] * 1.05


# -- what makes a partition due again --------------------------------------------------------------------------------


def deleted(broker: ManyPartitions) -> None:
    broker.led[1].delete_records(1)


def retained(broker: ManyPartitions) -> None:
    broker.logs.on_start_raised = lambda log: broker.led[log.partition].log_start_raised()
    broker.background.retain()


def given_up(broker: ManyPartitions) -> None:
    broker.partitions.give_up(broker.led[1])


def led_again(broker: ManyPartitions) -> None:
    broker.led[1].lead_again(MANY._replace(leader_epoch=5, partition_epoch=8))


def reassigned(broker: ManyPartitions) -> None:
    broker.led[1].change(MANY._replace(replicas=(1, 3), isr=(1, 3), partition_epoch=8))


def failed(broker: ManyPartitions) -> None:
    partition = broker.led[1]
    reason = LogOffline("/d", "No space left on device")
    partition.set_offline(OfflineLog("t", 1, TOPIC_ID, LogConfig(), reason))


CHANGES: list[tuple[Callable[[ManyPartitions], None], str, int]] = [
    (lambda broker: broker.append(1), "records", ErrorCode.NONE),
    (deleted, "log_start_offset", ErrorCode.NONE),
    (retained, "log_start_offset", ErrorCode.NONE),
    (given_up, "error", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (led_again, "error", ErrorCode.FENCED_LEADER_EPOCH),
    (reassigned, "error", ErrorCode.UNKNOWN_LEADER_EPOCH),
    (failed, "error", ErrorCode.KAFKA_STORAGE_ERROR),
]
NAMES = ["append", "deleted", "retained", "given-up", "led-again", "reassigned", "failed"]


@pytest.fixture
def filled(broker: ManyPartitions) -> FollowerClient:
    """A follower that knows everything of three partitions, of which the second has records."""
    for _ in range(4):
        broker.append(1)
    made = FollowerClient(broker)
    made.settle()
    assert all(map(rests, broker.led))
    return made


@pytest.mark.parametrize(("change", "what", "code"), CHANGES, ids=NAMES)
def test_change_is_answered(
    filled: FollowerClient, change: Callable[[ManyPartitions], None], what: str, code: int
) -> None:
    change(filled.broker)
    [(index, data)] = filled.fetch().items()
    assert (index, data.error_code) == (1, code)
    assert what == "error" or getattr(data, what)


@pytest.mark.parametrize(
    ("change", "what", "code"), [each for each in CHANGES if each[1] != "log_start_offset"], ids=[NAMES[0], *NAMES[3:]]
)
def test_change_ends_the_wait(
    filled: FollowerClient, change: Callable[[ManyPartitions], None], what: str, code: int
) -> None:
    filled.send(wait_ms=WAIT_MS)
    change(filled.broker)
    filled.broker.settle()
    assert filled.is_answered
    assert [data.error_code for data in filled.receive().values()] == [code]


@pytest.mark.parametrize("change", [deleted, retained])
def test_log_start_is_answered_after_the_wait(filled: FollowerClient, change: Callable[[ManyPartitions], None]) -> None:
    """It is no reason to answer at once, as in Apache Kafka."""
    filled.send(wait_ms=WAIT_MS)
    change(filled.broker)
    filled.broker.settle()
    assert not filled.is_answered
    filled.broker.advance(WAIT_MS)
    assert list(filled.receive()) == [1]


def test_high_watermark_is_answered(tmp_path: Path) -> None:
    """It moves by the fetch of another follower."""
    broker = ManyPartitions(tmp_path, 2)
    broker.led[1].change(MANY._replace(replicas=(1, 2, 3), isr=(1, 2, 3), partition_epoch=8))
    follower = FollowerClient(broker)
    follower.settle()
    broker.append(1)
    follower.settle()
    assert follower.fetch() == {}
    broker.led[1].follower_fetched(3, 30, 1, 0)
    [data] = follower.fetch().values()
    assert data.high_watermark == 1
    broker.close()


def test_deleted_topic_ends_the_wait(broker: ManyPartitions, follower: FollowerClient) -> None:
    follower.send(wait_ms=WAIT_MS)
    broker.partitions.delete("t")
    broker.settle()
    assert follower.is_answered
    assert {each.error_code for each in follower.receive().values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_partition_with_an_error_stays_due(filled: FollowerClient) -> None:
    led_again(filled.broker)
    assert [list(filled.fetch()) for _ in range(2)] == [[1], [1]]
    filled.leader_epoch = 5
    filled._moved.add(1)
    assert filled.fetch()[1].error_code == ErrorCode.NONE
    assert filled.fetch() == {}
    assert rests(filled.broker.led[1])


def test_limit_of_bytes_leaves_partitions_due(broker: ManyPartitions, follower: FollowerClient) -> None:
    for index in range(3):
        broker.append(index)
    with_records = [[index for index, data in follower.fetch(max_bytes=1).items() if data.records] for _ in range(3)]
    assert with_records == [[0], [1], [2]]


def test_served_partition_is_read_last(broker: ManyPartitions, follower: FollowerClient) -> None:
    """One that always has records does not keep others waiting."""
    served = []
    for _ in range(4):
        broker.append(0)
        broker.append(2)
        served.append([index for index, data in follower.fetch(max_bytes=1).items() if data.records])
    assert served == [[0], [2], [0], [2]]


def test_throttled_partition_stays_due(broker: ManyPartitions, follower: FollowerClient) -> None:
    broker.led[1].change(MANY._replace(isr=(1,), partition_epoch=8))
    broker.append(1)
    broker.throttle.set_rate(1)
    broker.throttle.set_replicas("t", "*")
    broker.throttle.record(1 << 20, broker.clock.monotonic_ms())
    assert not any(data.records for data in follower.fetch().values())
    broker.throttle.set_rate(1 << 40)
    assert [index for index, data in follower.fetch().items() if data.records] == [1]


def test_wait_for_deleted_records_keeps_the_partition_due(filled: FollowerClient) -> None:
    """A follower that the wait is for may be gone at any fetch of another one."""
    deleted(filled.broker)
    waiting = filled.broker.led[1].when_deleted(1, 1000)
    filled.settle()
    assert waiting is not None
    assert not rests(filled.broker.led[1])
    del filled.broker.epochs[2]
    filled.fetch()
    assert waiting.done
    filled.fetch()
    assert rests(filled.broker.led[1])


# -- the ISR ---------------------------------------------------------------------------------------------------------


def test_isr_stays_when_an_idle_partition_gets_a_record(broker: ManyPartitions, follower: FollowerClient) -> None:
    for _ in range(4):
        broker.advance(MAX_LAG_MS // 2)
        follower.fetch()
    broker.append(1)
    broker.led[1].check_lag()
    assert broker.proposed == []
    broker.advance(MAX_LAG_MS)
    broker.led[1].check_lag()
    assert broker.proposed == []


def test_stopped_follower_is_dropped_when_a_record_comes(broker: ManyPartitions, follower: FollowerClient) -> None:
    broker.advance(MAX_LAG_MS)
    follower.fetch()
    broker.advance(1000)
    broker.append(1)
    broker.advance(MAX_LAG_MS - 1000)
    broker.led[1].check_lag()
    assert broker.proposed == []
    broker.advance(1)
    for each in broker.led:
        each.check_lag()
    [(key, proposal)] = broker.proposed
    assert (key[1], proposal.isr) == (1, ((1, -1),)), "not from idle partitions, as in Apache Kafka"


def test_fetcher_of_others_keeps_nobody_in_the_isr(broker: ManyPartitions, follower: FollowerClient) -> None:
    """A partition that the follower has forgotten, for example after an error, is fetched no more."""
    follower.fetch(forgotten=(1,))
    for _ in range(3):
        broker.advance(MAX_LAG_MS // 2)
        follower.fetch()
    broker.append(1)
    broker.append(2)
    for each in broker.led:
        each.check_lag()
    assert [key[1] for key, _ in broker.proposed] == [1]


def test_follower_returns_to_the_isr(broker: ManyPartitions, follower: FollowerClient) -> None:
    """The metadata take it out of the ISR of an idle partition; each fetch may propose it."""
    broker.led[1].change(MANY._replace(isr=(1,), partition_epoch=8))
    follower.fetch()
    [(_, proposal)] = broker.proposed
    assert {each for each, _ in proposal.isr} == {1, 2}
    broker.led[1].take_answer(
        Answer((TOPIC_ID, 1), proposal, Outcome.REFUSED, isr=(1,), leader_epoch=4, partition_epoch=8)
    )
    follower.fetch()
    assert len(broker.proposed) == 2


def test_fetch_that_waits_is_no_reason_to_return_to_the_isr(broker: ManyPartitions, follower: FollowerClient) -> None:
    """The follower's log directory has failed since, for which the controller takes it out of the ISR.

    It would stay in the ISR for ever: it has all records, and nothing more is written.
    """
    follower.send(wait_ms=WAIT_MS)
    broker.led[1].change(MANY._replace(isr=(1,), partition_epoch=8))
    broker.settle()
    broker.advance(WAIT_MS)
    follower.receive()
    assert broker.proposed == []
    follower.fetch(forgotten=(1,))
    assert broker.proposed == []
    follower.fetch(forgotten=())
    assert broker.proposed == []


def test_answered_proposal_makes_the_partition_due(broker: ManyPartitions, follower: FollowerClient) -> None:
    proposal = Proposal(((1, -1),), 4, 7)
    broker.led[1].leader.isr = broker.led[1].leader.isr.propose(frozenset({1}))
    broker.led[1].take_answer(
        Answer((TOPIC_ID, 1), proposal, Outcome.COMMITTED, isr=(1,), leader_epoch=4, partition_epoch=8)
    )
    assert not rests(broker.led[1])


# -- sessions --------------------------------------------------------------------------------------------------------


def test_evicted_session_is_created_again(broker: ManyPartitions, follower: FollowerClient) -> None:
    broker.fetch_sessions._remove(follower.session_id)
    broker.append(1)
    assert broker.call(FETCH, 17, session_id=follower.session_id, session_epoch=3).error_code == (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    again = FollowerClient(broker)
    again.offsets.update(follower.offsets)
    assert sorted(again.fetch()) == [0, 1, 2]
    again.settle()
    assert all(map(rests, broker.led))
    broker.append(2)
    assert list(again.fetch()) == [2]


def test_wrong_session_epoch_does_not_count_as_a_fetch(broker: ManyPartitions, follower: FollowerClient) -> None:
    before = [each.leader.followers[2].caught_up_ms for each in broker.led]
    broker.advance(1000)
    wrong = broker.call(FETCH, 17, session_id=follower.session_id, session_epoch=follower.session_epoch + 1)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert [each.leader.followers[2].caught_up_ms for each in broker.led] == before


def test_full_session_cache_leaves_every_fetch_full(broker: ManyPartitions) -> None:
    broker.fetch_sessions.slots = 0
    follower = FollowerClient(broker)
    for _ in range(3):
        assert sorted(follower.fetch()) == [0, 1, 2]
        assert follower.session_id == 0
        follower.session_epoch, follower._moved = 0, {0, 1, 2}


def test_fetch_of_a_former_registration_gets_errors(broker: ManyPartitions, follower: FollowerClient) -> None:
    """Its broker has restarted since, and may have lost records (KIP-903)."""
    broker.epochs[2] = 25
    before = [each.leader.followers[2].caught_up_ms for each in broker.led]
    broker.advance(1000)
    assert [each.error_code for each in follower.fetch().values()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
    assert [each.leader.followers[2].caught_up_ms for each in broker.led] == before
    follower.epoch = 25
    follower.fetch()
    assert [each.leader.followers[2].broker_epoch for each in broker.led] == [25] * 3


def test_broker_that_may_not_fetch_gets_errors(broker: ManyPartitions, follower: FollowerClient) -> None:
    """Its right has ended since the session began."""
    denied: Any = type("Guard", (), {"replica_reader": lambda self, ctx: lambda topic: False})()
    broker.fetch_services = broker.fetch_services._replace(guard=denied)
    before = [each.leader.followers[2].caught_up_ms for each in broker.led]
    broker.advance(1000)
    assert [each.error_code for each in follower.fetch().values()] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 3
    assert [each.leader.followers[2].caught_up_ms for each in broker.led] == before


def test_idle_fetch_waits(broker: ManyPartitions, follower: FollowerClient) -> None:
    follower.send(wait_ms=WAIT_MS)
    broker.advance(WAIT_MS - 1)
    assert not follower.is_answered
    broker.advance(1)
    assert follower.receive() == {}


def test_fetch_that_commits_says_so_when_its_wait_ends(broker: ManyPartitions, follower: FollowerClient) -> None:
    """The follower does not have to wait for its next fetch."""
    broker.append(1)
    follower.fetch()
    follower.send(wait_ms=WAIT_MS)
    assert broker.led[1].high_watermark == 1
    broker.advance(WAIT_MS)
    assert follower.receive()[1].high_watermark == 1


def test_session_without_partitions_is_answered_at_once(broker: ManyPartitions, follower: FollowerClient) -> None:
    follower.send(wait_ms=WAIT_MS, forgotten=(0, 1, 2))
    assert follower.is_answered


def test_offsets_in_remote_storage_are_for_consumers_only(tmp_path: Path) -> None:
    """The follower has to begin at the local log start offset; the answer also has the log start offset (KIP-405)."""
    tiered = LogConfig(segment_bytes=200, remote_storage_system=True, remote_storage_enable=True)
    broker = ManyPartitions(tmp_path, 2, tiered)
    for _ in range(4):
        broker.append(1)
    log = broker.led[1].log
    log.local_start_offset = 2
    follower = FollowerClient(broker)
    data = follower.fetch()[1]
    assert (data.error_code, data.log_start_offset) == (ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, 0)
    assert data.high_watermark == log.high_watermark
    follower.offsets[1] = 2
    follower._moved.add(1)
    assert follower.fetch()[1].error_code == ErrorCode.NONE
    log.log_start_offset = 1
    follower.offsets[1] = 0
    follower._moved.add(1)
    assert follower.fetch()[1].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    broker.close()
