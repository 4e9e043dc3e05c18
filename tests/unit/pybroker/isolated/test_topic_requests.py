"""Topics of a broker as plans and rows: bounds, gaps, transactions, deleted records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.control import build_end_transaction_marker
from pybroker.isolated import fetching
from pybroker.isolated.connection import ConnectionFailed
from pybroker.source.bounds import EARLIEST, LATEST, OFFSET, Bound, Bounds, at_offset, at_time
from pybroker.source.errors import BrokerFailed, DamagedLog, DataLoss, NoSuchTime, UnusableOption
from tests.support.broker_double import PROPERTIES, TOPIC, BrokerDouble, Partition
from tests.support.record_readers import ask

COMMITTED = {**PROPERTIES, "isolation.level": "read_committed"}


def data(*offsets: int, codec: Codec = Codec.NONE, **header: Any) -> bytes:
    """Return a batch with records of these offsets, a second apart."""
    builder = BatchBuilder(offsets[0], codec, **header)
    for offset in offsets:
        builder.append(offset * 1000, None, b"value-%d" % offset, offset=offset)
    return builder.build()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerDouble]:
    """A broker with offsets 10 to 39 in three batches, partly compacted."""
    with BrokerDouble().installed(monkeypatch) as broker:
        batches = [data(*range(10, 20)), data(20, 22, 25, 29, codec=Codec.GZIP), data(*range(30, 40), codec=Codec.LZ4)]
        broker.partitions[0] = Partition(batches, start=10)
        yield broker


THERE = [*range(10, 20), 20, 22, 25, 29, *range(30, 40)]


def read(start: int, end: int, *, fail: bool = True, properties: dict[str, str] = PROPERTIES) -> list[int]:
    """Return the offsets of the rows in a range."""
    wanted = {"topic": TOPIC, "partition": 0, "start": start, "end": end, "properties": properties}
    answer, batches = ask("read_topic", columns=("offset", "value"), fail_on_data_loss=fail, **wanted)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert answer == {"count": len(rows)}
    assert [row["value"] for row in rows] == [b"value-%d" % row["offset"] for row in rows]
    return [row["offset"] for row in rows]


def planned(start: Bounds, end: Bounds, **wanted: Any) -> list[dict[str, Any]]:
    usual = {"properties": PROPERTIES, "topics": [TOPIC], "pattern": None, "assigned": None}
    plan: list[dict[str, Any]] = ask("plan_topics", start=start.to_json(), end=end.to_json(), **{**usual, **wanted})[0]
    return plan


@pytest.mark.parametrize(
    ("start", "end"), [(10, 40), (10, 11), (15, 23), (21, 22), (23, 25), (29, 31), (39, 40), (30, 30)]
)
@pytest.mark.parametrize("fetch_bytes", [1, 200, 1 << 20])
def test_range_is_exact_despite_gaps_and_partial_responses(
    broker: BrokerDouble, start: int, end: int, fetch_bytes: int
) -> None:
    broker.fetch_bytes = fetch_bytes

    assert read(start, end) == [offset for offset in THERE if start <= offset < end]


def test_retriable_fetch_error_is_retried(broker: BrokerDouble) -> None:
    broker.fail(FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ConnectionFailed, ErrorCode.NONE)

    assert read(10, 40) == THERE


def test_next_request_is_sent_before_records_are_parsed(broker: BrokerDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.fetch_bytes = 1
    asked_when_opened = []
    add_entry = fetching.add_entry

    def add(*arguments: Any) -> int:
        asked_when_opened.append(len(broker.asked(FETCH)))
        return add_entry(*arguments)

    monkeypatch.setattr(fetching, "add_entry", add)
    batches = len(broker.partitions[0].batches)

    assert read(10, 40) == THERE
    assert len(broker.asked(FETCH)) == batches
    assert asked_when_opened == [*range(2, batches + 1), batches]


@pytest.mark.parametrize("failure", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ConnectionFailed])
def test_prefetched_response_may_fail(broker: BrokerDouble, failure: ErrorCode | type[ConnectionFailed]) -> None:
    broker.fetch_bytes = 1
    broker.fail(FETCH, ErrorCode.NONE, failure)

    assert read(10, 40) == THERE


def test_deleted_records_are_an_error_or_skipped(broker: BrokerDouble) -> None:
    with pytest.raises(DataLoss, match="orders-0: offset 3"):
        read(3, 40)

    assert read(3, 40, fail=False) == THERE
    assert read(3, 9, fail=False) == []

    broker.partitions[0].start = 14  # within a batch, which is returned as a whole
    assert read(3, 40, fail=False) == THERE[4:]


def test_records_deleted_while_read_are_skipped(broker: BrokerDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention deletes them between two responses."""
    broker.fetch_bytes = 1
    fetch = broker._fetch

    def fetch_then_retain(fields: dict[str, Any], code: int) -> Any:
        answer = fetch(fields, code)
        broker.partitions[0] = Partition(broker.partitions[0].batches[-1:], start=30)
        return answer

    monkeypatch.setattr(broker, "_fetch", fetch_then_retain)

    assert read(10, 40, fail=False) == [*range(10, 20), *range(30, 40)]


def test_log_shorter_than_the_range_fails_or_ends(broker: BrokerDouble) -> None:
    """At its end nothing arrives until the timeout; behind it the broker returns an error."""
    with pytest.raises(DataLoss, match="no records arrive from offset 40"):
        read(35, 50)
    assert read(35, 50, fail=False) == list(range(35, 40))
    assert read(45, 50, fail=False) == []


def test_read_committed_skips_aborted_records(broker: BrokerDouble) -> None:
    def marker(offset: int, *, commit: bool) -> bytes:
        built = bytearray(build_end_transaction_marker(7, 0, commit=commit, coordinator_epoch=0, timestamp_ms=0))
        built[:8] = offset.to_bytes(8, "big")
        return bytes(built)

    of_seven = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    batches = [
        data(0, 1),
        data(2, 3, **of_seven),
        marker(4, commit=False),
        data(5, 6, **of_seven),
        marker(7, commit=True),
        data(8),
    ]
    broker.partitions[0] = Partition(batches, aborted=[(7, 2)])

    assert read(0, 9, properties=COMMITTED) == [0, 1, 5, 6, 8]
    assert read(3, 6, properties=COMMITTED) == [5]
    assert read(0, 9) == [0, 1, 2, 3, 5, 6, 8]
    assert {fields["isolation_level"] for fields in broker.asked(FETCH)} == {0, 1}


def test_damaged_batch_is_named(broker: BrokerDouble) -> None:
    spoiled = bytearray(broker.partitions[0].batches[0])
    spoiled[70] ^= 1
    broker.partitions[0].batches[0] = bytes(spoiled)

    with pytest.raises(DamagedLog, match=r"orders-0.*checksum"):
        read(10, 40)


def test_plan_resolves_bounds_to_offsets(broker: BrokerDouble) -> None:
    [places] = planned(at_offset(EARLIEST), at_offset(LATEST))
    assert places == {"topic": TOPIC, "partition": 0, "earliest": 10, "latest": 40, "start": 10, "end": 40}

    [times] = planned(at_time(21_000), at_time(35_000))
    assert (times["start"], times["end"]) == (22, 35)

    [each] = planned(Bounds(None, {(TOPIC, 0): Bound(OFFSET, 12)}), Bounds(None, {(TOPIC, 0): Bound(OFFSET, LATEST)}))
    assert (each["start"], each["end"]) == (12, 40)


def test_time_behind_all_records_is_the_end_or_an_error(broker: BrokerDouble) -> None:
    [found] = planned(at_time(99_000), at_time(99_000))
    assert (found["start"], found["end"]) == (40, 40)

    with pytest.raises(NoSuchTime, match="99000"):
        planned(at_time(99_000, late_means_latest=False), at_offset(LATEST))


def test_only_assigned_partitions_are_planned(broker: BrokerDouble) -> None:
    broker.partitions += [Partition(), Partition()]

    plan = planned(at_offset(EARLIEST), at_offset(LATEST), topics=None, assigned=[[TOPIC, 2], [TOPIC, 0]])

    assert [each["partition"] for each in plan] == [0, 2]


def test_end_offsets_are_current(broker: BrokerDouble) -> None:
    wanted = {"properties": PROPERTIES, "topics": None, "pattern": "ord.*", "assigned": None}
    assert ask("topic_ends", **wanted)[0] == [[TOPIC, 0, 10, 40]]

    broker.partitions[0].batches.append(data(40))
    assert ask("topic_ends", **wanted)[0] == [[TOPIC, 0, 10, 41]]


def test_unknown_isolation_level_is_rejected(broker: BrokerDouble) -> None:
    with pytest.raises(UnusableOption, match="'snapshot'"):
        read(10, 40, properties={**PROPERTIES, "isolation.level": "snapshot"})


def test_unreachable_broker_is_an_error_after_the_timeout(broker: BrokerDouble) -> None:
    broker.down = {"one"}

    with pytest.raises(BrokerFailed, match="one:9092: refused"):
        read(10, 40)
