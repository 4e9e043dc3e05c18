"""Tiered storage: the same steps at pybroker and at Apache Kafka with LocalTieredStorage give the same answers.

Both have the same segments, which each test makes as small as it needs. Answers are those of clients, files of the
remote storage, and records of `__remote_log_metadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.recorded_answers import RecordedAnswers, plain
from tests.support.settled import settled
from tests.support.tiered_brokers import TIERED
from tests.support.tiered_client import SPECIAL, await_remote, folders, remote_starts
from tests.support.tiered_side import BATCH_BYTES, FULL_BYTES, SECOND_MS, TIME_MS, Side

Script = Callable[[Side], Any]


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Side]]:
    """Return a function that returns the side of a kind, and starts its broker at the first use."""
    sides: dict[str, Side] = {}

    def get(kind: str) -> Side:
        if kind not in sides:
            sides[kind] = Side(TIERED[kind](tmp_path_factory.mktemp(kind), {"remote.fetch.max.wait.ms": "30000"}))
        return sides[kind]

    yield get
    for each in sides.values():
        each.client.close()
        each.broker.kill()


@pytest.fixture
def compare(side: Callable[[str], Side], recorded: RecordedAnswers, name: str) -> Callable[[Script], Any]:
    """Return a function that runs a script at both brokers, whose answers must be equal, and returns them."""

    def run(script: Script) -> Any:
        expected = recorded.of(script.__qualname__, lambda: script(side("kafka")))
        found = plain(script(side("ours")))
        assert found == expected
        return found

    return run


def test_offsets_over_both_tiers(compare: Callable[[Script], Any]) -> None:
    """0-29 remote, 30-49 remote and local, 50-59 local: special times, and each record's time."""

    def script(side: Side) -> Any:
        side.create("offsets", local_retention_bytes="5000")
        before = side.client.offsets("offsets", SPECIAL)
        side.write("offsets", 0, 60)
        side.await_tiers("offsets", 30, 49)
        times = [TIME_MS + half * SECOND_MS // 2 for half in range(-2, 122)]
        return {
            "before": before,
            "special": side.client.offsets("offsets", SPECIAL),
            "committed": side.client.offsets("offsets", SPECIAL, committed=True),
            "times": side.client.offsets("offsets", times),
            "far": side.client.offsets("offsets", [0, TIME_MS * 2]),
        }

    found = compare(script)
    assert [each.split()[0] for each in found["special"]] == ["60", "0", "59", "30", "49", "50"]


def test_offsets_by_time_where_times_go_back(compare: Callable[[Script], Any]) -> None:
    """A record with a late time in the first segment; largest times are those of local segments."""

    def script(side: Side) -> Any:
        side.create("back")
        side.write("back", 0, 4)
        side.client.produce("back", batch(b"z" * 200, b"z" * 100, timestamp=TIME_MS + 1000 * SECOND_MS))
        side.write("back", 6, 40)
        side.await_tiers("back", 30, 29)
        times = [TIME_MS + second * SECOND_MS for second in (0, 3, 4, 5, 10, 29, 30, 39, 40, 999, 1000, 1001, 1002)]
        return [side.client.offsets("back", SPECIAL), side.client.offsets("back", times)]

    compare(script)


def test_fetches_over_both_tiers(compare: Callable[[Script], Any]) -> None:
    """At each offset, with small and large limits: codes, batches, sizes."""

    def script(side: Side) -> Any:
        side.create("fetches", local_retention_bytes="5000")
        side.write("fetches", 0, 60)
        side.await_tiers("fetches", 30, 49)
        fetched = {
            f"{offset} {size}": side.client.fetched("fetches", offset, size=size)
            for offset in range(60)
            for size in (1, 2 * BATCH_BYTES, 2 * BATCH_BYTES + 1, 1 << 20)
        }
        outside = [side.client.fetched("fetches", offset) for offset in (-1, 61, 1000)]
        return [fetched, outside]

    fetched, outside = compare(script)
    assert fetched["13 1"]["batches"] == ["12-13"]
    assert {each["code"] for each in outside} == {ErrorCode.OFFSET_OUT_OF_RANGE}


def test_several_partitions_in_one_fetch(compare: Callable[[Script], Any]) -> None:
    """A remote partition takes its whole limit from the request's: with little left only some are answered."""

    def script(side: Side) -> Any:
        side.create("several", 4)
        for partition in range(4):
            side.write("several", 0, 40, partition)
        for partition in range(4):
            side.await_tiers("several", 30, 29, partition)
        answers = []
        for offsets in ((0, 10, 20, 9), (0, 30, 10, 38), (30, 0, 40, 0), (39, 31, 32, 33), (25, 41, 0, 5)):
            for size, total in ((1 << 20, 50 << 20), (1 << 20, 1 << 20), (1 << 20, 2 << 20), (500, 1100), (1, 1)):
                wanted = [("several", partition, offset, size) for partition, offset in enumerate(offsets)]
                answers.append(side.client.fetch_many(wanted, max_bytes=total))
        return answers

    compare(script)


def test_transactions_over_both_tiers(compare: Callable[[Script], Any]) -> None:
    """Aborted and committed transactions of two producers, some over several segments: aborted lists and records."""

    def script(side: Side) -> Any:
        client = side.client
        side.create("txn")
        side.write_transactions("txn")
        side.write("txn", client.bounds("txn")[1], client.bounds("txn")[1] + 20)
        side.await_tiers("txn", 60, 59)  # the first offset of a transaction that is open
        end = client.bounds("txn")[1]
        return {
            "bounds": client.bounds("txn"),
            "fetched": [client.fetched("txn", offset, committed=True) for offset in range(end)],
            "small": [client.fetched("txn", offset, size=700, committed=True) for offset in range(end)],
            "values": [bytes(value)[:2].decode() for value in client.committed_values("txn")],
            "files": {name: found for name, found in side.files("txn").items() if not name.endswith("timeindex")},
            "events": client.described_events("txn", timed=False),
        }

    found = compare(script)
    assert any(name.endswith("txnindex") for name in found["files"])


def test_records_deleted_by_clients(compare: Callable[[Script], Any]) -> None:
    """In a segment, at its border, in the local tier, and all."""

    def script(side: Side) -> Any:
        side.create("deleted", local_retention_bytes="5000")
        side.write("deleted", 0, 60)
        side.await_tiers("deleted", 30, 49)
        found = []
        for before, starts in ((5, [0, 10, 20, 30, 40]), (20, [20, 30, 40]), (45, [40]), (-1, [])):
            low = side.client.delete_records("deleted", 0, before)
            await_remote(side.remote, "deleted", starts)
            border = [side.client.fetched("deleted", offset) for offset in (low - 1, low)][: 1 if low == 60 else 2]
            found.append([low, border, side.client.special("deleted")])
        return found

    found = compare(script)
    assert [low for low, _, _ in found] == [5, 20, 45, 60]


def test_retention_by_size(compare: Callable[[Script], Any]) -> None:
    """The oldest segments go while those of both tiers are larger; a part of a segment stays whole."""

    def script(side: Side) -> Any:
        side.create("sized")
        side.write("sized", 0, 60)
        side.await_tiers("sized", 50, 49)
        found = []
        for size, starts in ((6 * FULL_BYTES, [0, 10, 20, 30, 40]), (4 * FULL_BYTES + 1, [10, 20, 30, 40]),
                             (4 * FULL_BYTES, [20, 30, 40]), (1, [])):  # fmt: skip
            assert side.configure("sized", retention_bytes=str(size), local_retention_bytes="1") == "NONE None"
            await_remote(side.remote, "sized", starts)
            side.await_start("sized", starts[0] if starts else 50)
            found.append(side.client.special("sized"))
        return [found, side.client.described_events("sized")]

    compare(script)


def test_retention_by_time(compare: Callable[[Script], Any]) -> None:
    """All records are old: the active segment is rolled, copied and removed, too."""

    def script(side: Side) -> Any:
        side.create("timed")
        side.write("timed", 0, 60)
        side.await_tiers("timed", 50, 49)
        assert side.configure("timed", retention_ms="1000", local_retention_ms="1000") == "NONE None"
        side.await_start("timed", 60)
        await_remote(side.remote, "timed", [])
        special = eventually(lambda: side.client.special("timed"), until=lambda found: found[3] == 60)
        fetched = [side.client.fetched("timed", offset) for offset in (0, 59)]
        return [special, fetched, side.client.described_events("timed")]

    compare(script)


def test_remote_storage_is_turned_off(compare: Callable[[Script], Any]) -> None:
    """Refused alone; with delete.on.disable the remote segments go and the log begins with the local ones."""

    def script(side: Side) -> Any:
        side.create("off", local_retention_bytes="5000")
        side.write("off", 0, 60)
        side.await_tiers("off", 30, 49)
        refused = side.configure("off", remote_storage_enable="false")
        accepted = side.configure("off", remote_storage_enable="false", remote_log_delete_on_disable="true")
        await_remote(side.remote, "off", [])
        side.await_start("off", 30)
        fetched = [side.client.fetched("off", offset) for offset in (29, 30, 59)]
        return [refused, accepted, side.client.special("off"), fetched, side.client.described_events("off")]

    compare(script)


def test_copies_are_turned_off(compare: Callable[[Script], Any]) -> None:
    """Remote segments are read and expire; closed ones stay local, until copies are turned on again."""

    def script(side: Side) -> Any:
        side.create("read")
        side.write("read", 0, 40)
        side.await_tiers("read", 30, 29)
        answers = [side.configure("read", remote_log_copy_disable="true")]
        same = {"local_retention_ms": "-2", "local_retention_bytes": "-2"}
        answers.append(side.configure("read", remote_log_copy_disable="true", **same))
        side.write("read", 40, 60)
        fetched = [side.client.fetched("read", offset) for offset in (0, 29, 30, 59)]
        special = side.client.special("read")
        answers.append(side.configure("read", retention_bytes=str(4 * FULL_BYTES)))
        side.await_start("read", 20)
        await_remote(side.remote, "read", [20])
        # Apache Kafka counts a segment twice while it is copied, so it might delete one more
        answers.append(side.configure("read", remote_log_copy_disable="false", retention_bytes="-1"))
        await_remote(side.remote, "read", [20, 30, 40])
        side.await_tiers("read", 30, 49)
        return [answers, fetched, special, side.client.special("read")]

    compare(script)


def test_topic_is_deleted(compare: Callable[[Script], Any]) -> None:
    """Its remote segments go; a new topic of the same name has a folder of its own."""

    def script(side: Side) -> Any:
        side.create("gone")
        side.write("gone", 0, 40)
        side.await_tiers("gone", 30, 29)
        side.client.delete_topic("gone")
        await_remote(side.remote, "gone", [])
        settled(side.broker, lambda: side.create("gone"))
        side.write("gone", 0, 20)
        side.await_tiers("gone", 10, 9)
        used = [path for path in folders(side.remote, "gone") if any(path.iterdir())]
        return [
            len(used),
            remote_starts(side.remote, "gone"),
            side.client.special("gone"),
            side.client.described_events("gone"),
        ]

    compare(script)


def test_all_of_it_after_a_restart(compare: Callable[[Script], Any], tmp_path: Path) -> None:
    """Metadata is read again; segments of two leader epochs, one of them with both; files and metadata at the end."""

    def script(side: Side) -> Any:
        side.create("again")
        side.write("again", 0, 34)
        side.await_tiers("again", 30, 29)
        side.restart()
        settled(side.broker, lambda: side.write("again", 34, 60))
        side.await_tiers("again", 50, 49)
        times = [TIME_MS + second * SECOND_MS for second in range(0, 60, 3)]
        fetched = [side.client.fetched("again", offset) for offset in range(0, 60, 3)]
        low = side.client.delete_records("again", 0, 12)
        await_remote(side.remote, "again", [10, 20, 30, 40])
        side.restart()
        settled(side.broker, lambda: side.await_tiers("again", 50, 49))
        return {
            "low": low,
            "special": side.client.special("again"),
            "times": side.client.offsets("again", times),
            "fetched": fetched,
            "later": [side.client.fetched("again", offset) for offset in range(0, 60, 3)],
            "files": side.files("again"),
            "events": side.client.described_events("again"),
        }

    compare(script)
