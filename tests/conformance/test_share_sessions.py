"""Sessions of share groups with several partitions (KIP-932): when an answer names which partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.share_fetch import SHARE_FETCH
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient, batch
from tests.support.pairs import Pair
from tests.support.settled import settled
from tests.support.share_client import SHARE_PROPERTIES, ShareClient, member_of
from tests.support.share_requests import NOTHING, acknowledge, fetch, fetch_of

_OTHER = b"some other topic"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"), SHARE_PROPERTIES)
    yield made
    made.close()


@pytest.fixture(params=["ours", "kafka"])
def broker(request: pytest.FixtureRequest, pair: Pair) -> RunningBroker:
    """Run against one broker, then the other."""
    return pair.ours if request.param == "ours" else pair.kafka


@contextmanager
def in_session(broker: RunningBroker, name: str) -> Iterator[ShareClient]:
    """Return a member that has acquired the five records of partition 0; partition 1 has none; its epoch is 2.

    Kafka reads the states of share-partitions after it has answered: only then an answer names them.
    """
    with member_of(broker, name, partitions=2) as client:
        client.join(name)

        def opened() -> None:
            told = fetch(client, 0, {client.topic_id: {0: [], 1: []}}, max_wait_ms=100)
            assert told == "NONE ['own-0 NONE NONE []', 'own-1 NONE NONE []']", told

        settled(broker, opened)
        client.produce(name, batch(*[b"v"] * 5))
        assert fetch(client, 1, {}) == "NONE ['own-0 NONE NONE [(0, 4, 1)]']"
        yield client


def same(pair: Pair, play: Callable[[RunningBroker], list[str]]) -> None:
    ours, kafka = pair.each(play)
    for number, (one, other) in enumerate(zip(ours, kafka, strict=True)):
        assert one == other, f"step {number}"


def test_partitions_without_acknowledgements_are_answered(pair: Pair, name: str) -> None:
    """Missing partitions are reported; overlapping ranges are rejected, after unknown topics."""

    def play(broker: RunningBroker) -> list[str]:
        with in_session(broker, name) as client:
            own = client.topic_id
            return [
                acknowledge(client, 2, {own: {0: [(0, 2, [1]), (1, 1, [1])]}}),
                acknowledge(client, 3, {own: {0: [(0, 0, [1])], 1: []}}),
                acknowledge(client, 4, {own: {0: [], 1: []}}),
                acknowledge(client, 5, {own: {0: [], 7: []}, _OTHER: {0: []}}),
                acknowledge(client, 6, {own: {0: [(5, 1, [1])], 1: []}, _OTHER: {0: [(5, 1, [1])]}}),
                acknowledge(client, 7, {own: {7: [(5, 1, [1])]}}),
                fetch(client, 8, {own: {0: [(1, 1, [1])], 1: []}}),
                fetch(client, -1, {own: {0: [(2, 2, [1])], 7: []}}),
            ]

    same(pair, play)


def test_an_impossible_request_counts_for_the_session(pair: Pair, name: str) -> None:
    """A session may begin with a renewal of nothing; an invalid mode matters only for a fetch."""

    def play(broker: RunningBroker) -> list[str]:
        with in_session(broker, name) as client:
            own = client.topic_id
            return [
                fetch(client, 2, {}, share_acquire_mode=9),
                fetch(client, 2, {}),
                fetch(client, 3, {}, is_renew_ack=True),
                fetch(client, 3, {}, is_renew_ack=True, share_acquire_mode=9, **NOTHING),
                fetch(client, 4, {}, [0, 1], share_acquire_mode=9),
                fetch(client, -1, {own: {0: [(0, 0, [1])]}}, share_acquire_mode=9),
                fetch(client, 0, {own: {0: [(1, 1, [1])]}}, is_renew_ack=True, **NOTHING),
                fetch(client, 0, {own: {0: []}}, is_renew_ack=True, **NOTHING),
                fetch(client, 1, {}, share_acquire_mode=9, max_records=0),
                fetch(client, 1, {}, max_records=0),
                fetch(client, 2, {}, max_records=0),
            ]

    same(pair, play)


def test_partitions_that_are_new_to_a_session_are_named_once(pair: Pair, name: str) -> None:
    """A response names a new partition of the session once, even without records."""

    def play(broker: RunningBroker) -> list[str]:
        with in_session(broker, name) as client:
            return [
                fetch(client, 2, {}, [0, 1]),
                fetch(client, 3, {client.topic_id: {1: []}}),
                fetch(client, 4, {client.topic_id: {1: []}}),
                fetch(client, 5, {client.topic_id: {0: []}}, [1]),
                fetch(client, 6, {}),
            ]

    same(pair, play)


def test_who_asks_for_no_bytes_does_not_wait(broker: RunningBroker, name: str) -> None:
    with in_session(broker, name) as client:
        client.socket.settimeout(60)
        assert fetch(client, 2, {}, min_bytes=0, max_wait_ms=600_000) == "NONE []"


def test_errors_of_one_partition_do_not_end_the_wait_for_others(broker: RunningBroker, name: str) -> None:
    """The client gets them with the next records, or when the wait is over."""
    with in_session(broker, name) as client, DataClient(HOST, broker.port) as producer:
        asked = {client.topic_id: {9: []}}
        client.send(SHARE_FETCH, 2, **fetch_of(client, 2, asked, max_wait_ms=600_000))
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        client.socket.settimeout(60)
        producer.produce(name, batch(b"v"))
        [topic] = client.receive().responses
        told = {each.partition_index: (each.error_code, len(each.acquired_records)) for each in topic.partitions}
        assert told == {0: (ErrorCode.NONE, 1), 9: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)}
        assert fetch(client, 3, {}, [0, 1], max_wait_ms=600_000) == "NONE ['own-9 UNKNOWN_TOPIC_OR_PARTITION NONE []']"


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_a_member_without_a_session_slot_is_rejected_late(start_broker: StartBroker, kind: str, name: str) -> None:
    """group.share.max.share.sessions. Otherwise it would retry at once."""
    broker = start_broker(
        kind, {**SHARE_PROPERTIES, "group.share.max.size": "10", "group.share.max.share.sessions": "100"}
    )
    with member_of(broker, name) as client:
        asked = {client.topic_id: {0: []}}
        for number in range(100):
            client.member = f"member-{number}"
            assert fetch(client, 0, asked, max_wait_ms=0).startswith("NONE")
        client.member = "one-more"
        began = time.monotonic()
        assert fetch(client, 0, asked, max_wait_ms=400) == "SHARE_SESSION_LIMIT_REACHED []"
        assert time.monotonic() - began > 0.39  # a loop's time is that of its last turn


def test_records_between_stored_ones_were_not_acquired(pair: Pair, name: str) -> None:
    """After a restart they are past the acquired records, until a member acquires them."""

    def play(broker: RunningBroker) -> list[str]:
        with member_of(broker, name) as client:
            for _ in range(3):
                client.produce(name, batch(*[b"v"] * 5))
            client.join(name)
            settled(broker, lambda: _is_initialized(client))
            state_epoch = int(client.summarize().split()[1])
            steps = [client.write(state_epoch, 0, 0, (3, 4, 0, 1), (8, 9, 0, 1))]

            def acquired() -> None:
                told = fetch(client, 0, {client.topic_id: {0: []}}, share_acquire_mode=1, max_records=1)
                assert "(0, 0, 1)" in told, told

            settled(broker, acquired)
            ranges = [(first, last) for first in range(11) for last in range(10, first - 1, -1)]
            epochs = count(1)
            for first, last in ranges:
                acknowledged = acknowledge(client, next(epochs), {client.topic_id: {0: [(first, last, [2])]}})
                steps.append(f"{first}-{last} {acknowledged}")
            return [*steps, fetch(client, next(epochs), {})]

    same(pair, play)


def _is_initialized(client: ShareClient) -> None:
    code, state_epoch, *_ = client.summarize().split()
    assert (code, state_epoch == "-1") == ("NONE", False)
