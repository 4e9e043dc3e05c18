"""Followed partitions: sessions, appends, truncation, resets, delays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH
from replication.following import Fetcher, FetchLimits, Phase
from tests.support.scale import scaled
from tests.unit.replication.doubles import MemoryLeader, MemoryLog
from tests.unit.replication.follower_pair import KEY, TOPIC, Pair, reset

OTHER = (TOPIC, 1)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_records_and_offsets_of_the_leader_are_taken_over(pair: Pair) -> None:
    for value in range(7):
        pair.theirs.write(5, value)
    pair.theirs.high_watermark = 6
    pair.step()
    pair.theirs.log_start_offset = 2
    for _ in range(2):
        pair.step()
    assert pair.ours.entries == pair.theirs.entries
    assert pair.ours.epochs == pair.theirs.epochs
    assert (pair.ours.high_watermark, pair.ours.log_start_offset) == (6, 2)


def test_request_of_a_follower(pair: Pair) -> None:
    pair.ours.write(4, 0)
    pair.ours.log_start_offset = 1
    request = pair.request()
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 202)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10 << 20)
    (asked,) = request.topics[0].partitions
    assert (asked.partition, asked.fetch_offset, asked.current_leader_epoch) == (0, 1, 5)
    assert (asked.last_fetched_epoch, asked.log_start_offset, asked.partition_max_bytes) == (4, 1, 1 << 20)
    for version in (17, 18):
        again, _ = FETCH.request.decode(version, FETCH.request.encode(version, request))
        assert again.topics[0].partitions[0].fetch_offset == 1


# -- sessions --------------------------------------------------------------------------------------------------------


def test_idle_session_names_no_partition() -> None:
    """The next request names only those that have moved."""
    pair = Pair(KEY, OTHER)
    pair.step()
    assert sorted(pair.leader.named) == [KEY, OTHER]
    pair.step()
    assert pair.leader.named == []
    pair.leader.logs[OTHER].write(5, 1)
    pair.step()
    pair.step()
    assert pair.leader.named == [OTHER]


def test_epochs_of_a_session_count_up(pair: Pair) -> None:
    epochs = []
    for _ in range(3):
        request = pair.request()
        epochs.append((request.session_id, request.session_epoch))
        pair.fetcher.answered(pair.leader.fetch(request), 0)
    assert epochs == [(0, 0), (77, 1), (77, 2)]


def test_leader_without_room_gets_full_requests(pair: Pair) -> None:
    pair.leader.has_room = False
    for _ in range(3):
        assert pair.request().session_epoch == 0
        pair.step()
        assert pair.leader.named == [KEY]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    ],
)
def test_error_of_the_session_begins_another(pair: Pair, code: ErrorCode) -> None:
    """The full request closes the former session, and nothing is delayed."""
    pair.step()
    pair.request()
    pair.fetcher.answered(FETCH.response(error_code=code, responses=[]), 0)
    request = pair.request()
    assert (request.session_id, request.session_epoch) == (77, 0)
    assert len(request.topics) == 1


def test_removed_partition_is_forgotten() -> None:
    pair = Pair(KEY, OTHER)
    pair.step()
    pair.fetcher.remove(OTHER)
    request = pair.request()
    assert [(each.topic_id, each.partitions) for each in request.forgotten_topics_data] == [(TOPIC, [1])]
    pair.leader.fetch(request)
    assert list(pair.leader.session) == [KEY]


# -- delays ----------------------------------------------------------------------------------------------------------


def test_lost_connection_delays_all(pair: Pair) -> None:
    pair.step()
    pair.request()
    pair.fetcher.failed(0)
    assert pair.fetcher.next_request(999) is None
    assert pair.fetcher.wakes_at_ms() == 1000
    pair.now = 1000
    assert pair.request().session_epoch == 0
    pair.step()
    assert pair.phase is Phase.FETCHING


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_error_delays_the_partition_alone(code: ErrorCode) -> None:
    """It leaves the session until the delay has ended."""
    pair = Pair(KEY, OTHER)
    pair.step()
    pair.answer(code)
    assert pair.phase is Phase.DELAYED
    assert pair.fetcher.partitions[KEY].last_error == code
    request = pair.request()
    assert request.forgotten_topics_data[0].partitions == [0]
    pair.leader.fetch(request)
    pair.fetcher.answered(FETCH.response(session_id=77, responses=[]), 0)
    pair.now = 1000
    assert [each.partition for each in pair.request().topics[0].partitions] == [0]


def test_later_epoch_ends_a_delay(pair: Pair) -> None:
    pair.answer(ErrorCode.UNKNOWN_LEADER_EPOCH)
    pair.fetcher.add(KEY, pair.ours, 6)
    assert pair.request().topics[0].partitions[0].current_leader_epoch == 6


def test_damaged_records_delay_the_partition(pair: Pair) -> None:
    pair.answer(0, records=bytes([1]) * 20)
    assert pair.phase is Phase.DELAYED
    assert pair.fetcher.partitions[KEY].last_error == ErrorCode.CORRUPT_MESSAGE
    assert pair.ours.entries == []


def test_records_without_a_whole_batch_delay_the_partition(pair: Pair) -> None:
    """Otherwise the same request would be sent again at once, for ever."""
    pair.answer(0, records=b"cut")
    assert pair.phase is Phase.DELAYED


def test_records_of_a_later_epoch_are_left_out(pair: Pair) -> None:
    """They come from the leader of that epoch (KAFKA-18723)."""
    pair.theirs.write(5, 0)
    pair.theirs.write(6, 1)
    pair.step()
    assert [each.epoch for each in pair.ours.entries] == [5]


def test_failed_log_is_fetched_no_more(pair: Pair) -> None:
    pair.theirs.write(5, 0)
    pair.ours.broken = True
    pair.step()
    assert pair.phase is Phase.FAILED
    pair.step()
    pair.fetcher.failed(0)
    assert pair.phase is Phase.FAILED
    assert pair.fetcher.next_request(5000) is None


def test_response_for_another_position_is_ignored(pair: Pair) -> None:
    """The partition was truncated, or follows in another epoch, while the request was on its way."""
    pair.theirs.write(5, 0)
    response = pair.leader.fetch(pair.request())
    pair.fetcher.add(KEY, pair.ours, 6)
    pair.fetcher.answered(response, 0)
    assert pair.ours.entries == []
    pair.fetcher.remove(KEY)
    pair.fetcher.answered(response, 0)
    assert pair.ours.entries == []


# -- truncation ------------------------------------------------------------------------------------------------------


def test_log_that_diverges_is_truncated(pair: Pair) -> None:
    """KIP-101: what this broker wrote as the leader of epoch 2, and nobody else has, goes."""
    for log in (pair.ours, pair.theirs):
        log.write(1, 0)
    pair.ours.write(2, 100)
    pair.ours.write(2, 101)
    pair.theirs.write(3, 1)
    for _ in range(4):
        pair.step()
    assert pair.ours.entries == pair.theirs.entries
    assert pair.ours.epochs == pair.theirs.epochs == [(1, 0), (3, 1)]


def test_quick_changes_of_leaders(pair: Pair) -> None:
    """KIP-279: the epochs alternate, so one look-up is not enough."""
    for epoch, count in ((0, 2), (2, 3), (4, 2)):
        for number in range(count):
            pair.ours.write(epoch, 10 * epoch + number)
    for epoch, count in ((0, 2), (1, 2), (3, 4), (5, 1)):
        for number in range(count):
            pair.theirs.write(epoch, 10 * epoch + number)
    for _ in range(9):
        pair.step()
    assert pair.ours.entries == pair.theirs.entries
    assert pair.ours.epochs == pair.theirs.epochs


def test_epoch_without_records_is_removed(pair: Pair) -> None:
    """KAFKA-10706: this broker led epoch 3 and wrote nothing."""
    for log in (pair.ours, pair.theirs):
        log.write(1, 0)
    pair.ours.lead(3)
    pair.theirs.write(4, 1)
    for _ in range(3):
        pair.step()
    assert pair.ours.epochs == pair.theirs.epochs
    assert pair.ours.entries == pair.theirs.entries


# -- resets ----------------------------------------------------------------------------------------------------------


def test_log_behind_the_leaders_start_begins_anew(pair: Pair) -> None:
    pair.ours.write(1, 0)
    pair.theirs.start_over(10)
    pair.theirs.write(5, 1)
    pair.answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    reset(pair)
    for _ in range(2):
        pair.step()
    assert pair.ours.entries == pair.theirs.entries
    assert pair.ours.log_start_offset == 10


def test_log_beyond_the_leaders_end_is_truncated(pair: Pair) -> None:
    """An unclean election has lost records."""
    for number in range(5):
        pair.ours.write(1, number)
    pair.theirs.write(1, 0)
    pair.answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    reset(pair)
    assert pair.ours.log_end_offset == 1
    assert pair.phase is Phase.FETCHING


def test_offset_within_the_leaders_log_is_kept(pair: Pair) -> None:
    pair.theirs.write(1, 0)
    pair.theirs.write(1, 1)
    pair.ours.write(1, 0)
    pair.answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    reset(pair)
    assert (pair.ours.log_end_offset, pair.phase) == (1, Phase.FETCHING)


def test_reset_without_an_answer_is_delayed(pair: Pair) -> None:
    pair.answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert pair.fetcher.next_request(0) is not None, "a session goes on without the partition"
    pair.fetcher.reset_failed(KEY, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert pair.phase is Phase.DELAYED
    pair.fetcher.reset(KEY, 5, 0)
    assert pair.phase is Phase.DELAYED


# -- any history -----------------------------------------------------------------------------------------------------

fetches = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=5)
turns = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), fetches), max_size=8)


@given(turns=turns, batch=st.integers(1, 4))
@settings(max_examples=min(2000, scaled(100)), deadline=None)
def test_logs_match_after_any_history(turns: list[tuple[int, int, list[tuple[int, int]]]], batch: int) -> None:
    """Three brokers; each turn one leads the next epoch, writes, and others fetch a few times. At the end all fetch."""
    logs = [MemoryLog() for _ in range(3)]
    value = 0
    for epoch, (leader, count, some) in enumerate([*turns, (0, 1, [])], 1):
        logs[leader].lead(epoch)
        fetchers = [Fetcher(node, 0, FetchLimits()) for node in range(3)]
        for node, fetcher in enumerate(fetchers):
            if node != leader:
                fetcher.add(KEY, logs[node], epoch)
        leaders = [MemoryLeader({KEY: logs[leader]}, epoch, batch=batch) for _ in range(3)]
        for _ in range(count):
            logs[leader].write(epoch, value)
            value += 1
        is_last = epoch == len(turns) + 1
        rounds = [(node, 200) for node in range(3)] if is_last else some
        for node, times in rounds:
            for _ in range(times):
                if node == leader or (request := fetchers[node].next_request(0)) is None:
                    break
                fetchers[node].answered(leaders[node].fetch(request), 0)
                for key, followed in fetchers[node].resetting():
                    wanted = logs[leader].log_start_offset if followed.reset_at_start else logs[leader].log_end_offset
                    fetchers[node].reset(key, epoch, wanted)
        for one in logs:
            for other in logs:
                matching(one, other)
    assert logs[0].entries == logs[1].entries == logs[2].entries
    assert logs[0].epochs == logs[1].epochs == logs[2].epochs


def matching(one: MemoryLog, other: MemoryLog) -> None:
    """Check the log matching property: with the same offset and epoch, everything before is the same, too."""
    theirs = {(entry.offset, entry.epoch): number for number, entry in enumerate(other.entries)}
    for number in range(len(one.entries) - 1, -1, -1):
        found = theirs.get(one.entries[number][:2])
        if found is not None:
            assert one.entries[: number + 1] == other.entries[: found + 1]
            return
