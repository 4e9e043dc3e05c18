"""Fetch sessions (KIP-227): open, change, close, what responses leave out, and which session is evicted."""

import pytest

from broker.replicas.fetch_session import EVICTION_MS, FetchContext, FetchSessions
from protocol.error_codes import ErrorCode
from protocol.fetch_answer import Epoch, FetchedData
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ForgottenTopic
from protocol.schema import Struct

A, B, UNKNOWN = b"a" * 16, b"b" * 16, b"?" * 16
NAMES = {A: "alpha", B: "beta"}


class Time:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def sessions(time: Time) -> FetchSessions:
    return FetchSessions(2, NAMES.get, time)


def request(
    *partitions: tuple[object, int],
    session_id: int = 0,
    epoch: int = 0,
    forget: tuple[tuple[object, int], ...] = (),
    **of: int,
) -> Struct:
    """A request for (topic id or name, index) pairs."""

    def named(topic: object) -> dict[str, object]:
        return {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}

    return FETCH.request(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                **named(topic),
                partitions=[FetchPartition(partition=index, fetch_offset=of.get("offset", 0), partition_max_bytes=100)],
            )
            for topic, index in partitions
        ],
        forgotten_topics_data=[ForgottenTopic(**named(topic), partitions=[index]) for topic, index in forget],
    )


def read_result(index: int, **fields: object) -> FetchedData:
    """Return the result of reading a partition."""
    data = FetchedData(index)
    for name, value in fields.items():
        setattr(data, name, value)
    return data


def answered(context: FetchContext, **fields: object) -> tuple[int, int, list[tuple[str | None, int]]]:
    """Answer all partitions in the same way. Return (error, session id, the partitions that were sent)."""
    answers = [
        (wanted, read_result(wanted.index, **{"high_watermark": 5} | fields)) for wanted in context.partitions.values()
    ]
    error_code, session_id, sent = context.answer(answers)
    return error_code, session_id, [(wanted.topic, wanted.index) for wanted, _ in sent]


def opened(sessions: FetchSessions, *partitions: tuple[object, int], version: int = 13, follower: bool = False) -> int:
    """Return the id of a new session."""
    return answered(sessions.open(version, request(*partitions), follower))[1]


def test_a_full_fetch_opens_a_session_and_sends_everything(sessions: FetchSessions) -> None:
    error_code, session_id, sent = answered(sessions.open(13, request((A, 0), (B, 1))))

    assert error_code == ErrorCode.NONE
    assert 0 < session_id <= 0x7FFFFFFF
    assert sent == [("alpha", 0), ("beta", 1)]
    assert len(sessions) == 1


def test_an_incremental_fetch_sends_only_changed_partitions(sessions: FetchSessions) -> None:
    session_id = opened(sessions, (A, 0), (B, 1))

    assert answered(sessions.open(13, request(session_id=session_id, epoch=1))) == (0, session_id, [])
    both = [("alpha", 0), ("beta", 1)]
    for epoch, read_result in enumerate(
        (
            {"records": b"x"},
            {"high_watermark": 6},
            {"high_watermark": 6, "log_start_offset": 2},
            {"error_code": 1},
            {"error_code": 1},
            {"high_watermark": 6, "log_start_offset": 2},  # again, now that the error is gone
            {"high_watermark": 6, "log_start_offset": 2, "preferred_read_replica": 3},
            {"high_watermark": 6, "log_start_offset": 2, "diverging_epoch": Epoch(0, 1)},
        ),
        start=2,
    ):
        context = sessions.open(13, request(session_id=session_id, epoch=epoch))
        assert sorted(answered(context, **read_result)[2], key=str) == both, read_result
    assert (
        answered(sessions.open(13, request(session_id=session_id, epoch=10)), high_watermark=6, log_start_offset=2)[2]
        == []
    )


def test_partitions_with_records_move_to_the_end(sessions: FetchSessions) -> None:
    """So that a byte limit does not starve the partitions behind them."""
    session_id = opened(sessions, (A, 0), (A, 1), (A, 2))
    context = sessions.open(13, request(session_id=session_id, epoch=1))
    first = next(iter(context.partitions.values()))
    context.answer([(first, read_result(0, records=b"x", high_watermark=5))])

    assert [index for _, index in sessions.open(13, request(session_id=session_id, epoch=2)).partitions] == [1, 2, 0]


def test_changes_add_update_and_forget_partitions(sessions: FetchSessions) -> None:
    session_id = opened(sessions, (A, 0), (B, 1))
    context = sessions.open(
        13, request((A, 0), (A, 7), session_id=session_id, epoch=1, forget=((B, 1), (UNKNOWN, 3)), offset=44)
    )

    assert {(each.topic, each.index): each.fetch_offset for each in context.partitions.values()} == {
        ("alpha", 0): 44,
        ("alpha", 7): 44,
    }
    assert answered(context)[2] == [("alpha", 7)]


def test_names_are_used_below_version_13(sessions: FetchSessions) -> None:
    session_id = opened(sessions, ("alpha", 0), version=12)
    context = sessions.open(12, request(session_id=session_id, epoch=1, forget=(("alpha", 0),)))

    assert session_id
    assert not context.partitions


def test_errors_of_incremental_fetches(sessions: FetchSessions) -> None:
    """Unknown id: 70. Wrong epoch: 71. Ids mixed with names: 106. The responses carry no session id."""
    session_id = opened(sessions, (A, 0))

    assert sessions.open(13, request(session_id=session_id + 1, epoch=1)).error_code == 70
    assert sessions.open(13, request(session_id=session_id, epoch=2)).error_code == 71
    assert sessions.open(12, request(session_id=session_id, epoch=1)).error_code == 106
    assert sessions.open(13, request(session_id=session_id, epoch=1)).error_code == 0


def test_a_session_left_without_partitions_is_closed(sessions: FetchSessions) -> None:
    session_id = opened(sessions, (A, 0))
    context = sessions.open(13, request(session_id=session_id, epoch=1, forget=((A, 0),)))

    assert answered(context) == (0, 0, [])
    assert len(sessions) == 0


def test_epoch_minus_one_closes_and_is_served_without_a_session(sessions: FetchSessions) -> None:
    session_id = opened(sessions, (A, 0))

    assert answered(sessions.open(13, request((A, 0), session_id=session_id, epoch=-1))) == (0, 0, [("alpha", 0)])
    assert len(sessions) == 0
    assert sessions.open(13, request(session_id=session_id, epoch=1)).error_code == 70


def test_a_full_fetch_with_an_id_closes_that_session(sessions: FetchSessions) -> None:
    old = opened(sessions, (A, 0))
    answered(sessions.open(13, request((A, 0), session_id=old)))

    assert len(sessions) == 1
    assert sessions.open(13, request(session_id=old, epoch=1)).error_code == 70


def test_a_fetch_overtaken_by_another_is_rejected(sessions: FetchSessions) -> None:
    session_id = opened(sessions, (A, 0))
    parked = sessions.open(13, request(session_id=session_id, epoch=1))
    sessions.open(13, request(session_id=session_id, epoch=2))

    assert answered(parked, records=b"x") == (71, session_id, [])


def test_epochs_wrap_to_one(sessions: FetchSessions) -> None:
    session_id = opened(sessions, (A, 0))
    sessions._sessions[session_id].epoch = 0x7FFFFFFF
    sessions.open(13, request(session_id=session_id, epoch=0x7FFFFFFF))

    assert not sessions.open(13, request(session_id=session_id, epoch=1)).error_code


def test_a_repeated_partition_is_served_once_as_named_last(sessions: FetchSessions) -> None:
    asked = request((A, 0), (A, 0))
    asked.topics[1].partitions[0].fetch_offset = 9
    [wanted] = sessions.open(13, asked).partitions.values()

    assert wanted.fetch_offset == 9


def test_without_room_a_fetch_gets_no_session(sessions: FetchSessions, time: Time) -> None:
    """Neither a young session nor a larger one is evicted."""
    opened(sessions, (A, 0))
    opened(sessions, (A, 0))
    assert opened(sessions, (A, 0), (A, 1)) == 0
    time.ms += EVICTION_MS
    assert opened(sessions, (A, 0), (A, 1)) == 0


def test_a_session_unused_for_long_is_evicted(sessions: FetchSessions, time: Time) -> None:
    stale = opened(sessions, (A, 0), (A, 1))
    used = opened(sessions, (A, 0))
    time.ms += EVICTION_MS
    sessions.open(13, request(session_id=used, epoch=1))
    time.ms += 1

    assert opened(sessions, (A, 0))
    assert sessions.open(13, request(session_id=stale, epoch=1)).error_code == 70
    assert not sessions.open(13, request(session_id=used, epoch=2)).error_code


def test_a_smaller_old_session_is_evicted_by_a_larger_one(sessions: FetchSessions, time: Time) -> None:
    small, big = opened(sessions, (A, 0)), opened(sessions, (A, 0), (A, 1))
    time.ms += EVICTION_MS + 1
    sessions._sessions[small].last_used_ms = sessions._sessions[big].last_used_ms = time.ms

    assert opened(sessions, (A, 0), (B, 0))
    assert sessions.open(13, request(session_id=small, epoch=1)).error_code == 70
    assert opened(sessions, (A, 0)) == 0


def test_consumers_never_evict_followers(sessions: FetchSessions, time: Time) -> None:
    for _ in range(2):
        opened(sessions, (A, 0), follower=True)
    time.ms += EVICTION_MS + 1
    for session in sessions._sessions.values():
        session.last_used_ms = time.ms

    assert opened(sessions, (A, 0), (B, 0)) == 0
    time.ms += 2_000
    assert opened(sessions, (A, 0), (B, 0), follower=True)


def test_no_slots_no_sessions(time: Time) -> None:
    assert opened(FetchSessions(0, NAMES.get, time), (A, 0)) == 0


def test_all_sessions_share_a_limit_of_partitions(
    sessions: FetchSessions, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client without room gets no session. A session that outgrows the room must restart. An old one is evicted."""
    monkeypatch.setattr("broker.replicas.fetch_session.MOST_PARTITIONS", 3)
    first = opened(sessions, (A, 0), (A, 1))
    assert opened(sessions, (B, 0), (B, 1)) == 0
    second = opened(sessions, (B, 0))
    assert sessions.open(13, request((B, 0), session_id=second, epoch=1)).error_code == ErrorCode.NONE
    context = sessions.open(13, request((B, 1), session_id=second, epoch=2))
    assert context.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.partition_count == 2
    assert opened(sessions, (B, 0), (B, 1)) == 0
    time.ms += EVICTION_MS + 1
    assert opened(sessions, (B, 0), (B, 1))
    assert sessions.open(13, request(session_id=first, epoch=1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_no_session_is_evicted_if_that_frees_too_little(
    sessions: FetchSessions, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then not the smallest session is evicted, but the smallest that frees enough for the newcomer's partitions."""
    monkeypatch.setattr("broker.replicas.fetch_session.MOST_PARTITIONS", 4)
    small, big = opened(sessions, (A, 0)), opened(sessions, (A, 0), (A, 1), (A, 2))
    time.ms += EVICTION_MS + 1
    sessions._sessions[small].last_used_ms = sessions._sessions[big].last_used_ms = time.ms

    assert opened(sessions, (B, 0), (B, 1)) == 0
    assert sessions.partition_count == 4
    time.ms += 1_000
    assert opened(sessions, (B, 0), (B, 1), (B, 2))
    assert sessions.open(13, request(session_id=big, epoch=1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.open(13, request(session_id=small, epoch=1)).error_code == ErrorCode.NONE


def test_an_unknown_topic_id_is_kept_and_has_no_name(sessions: FetchSessions) -> None:
    [wanted] = sessions.open(13, request((UNKNOWN, 0))).partitions.values()

    assert wanted.topic is None
