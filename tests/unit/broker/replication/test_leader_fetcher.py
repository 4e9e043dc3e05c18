"""A follower copies its leader's log: the requests, truncation, resets, and what it does without an answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from protocol.client_session import PendingRequest, Response
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchableTopicResponse, PartitionData
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from protocol.schema import Api, Struct
from replication.following import Phase
from runtime.deferred import Deferred
from storage.log.partition_log import PartitionLog
from tests.support.producing import batch
from tests.unit.broker.replication.leading_broker import REGISTERED
from tests.unit.broker.replication.replica_pair import KEY, ReplicaPair, content


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ReplicaPair]:
    made = ReplicaPair(tmp_path)
    yield made
    made.close()


def answered(api: Api, **fields: object) -> Deferred[Response]:
    return Deferred.resolved(Response(PendingRequest(api, 17, 1), api.response(**fields), b"", 0, 0))


def produce(pair: ReplicaPair, batches: int = 1, **fields: int) -> None:
    for _ in range(batches):
        pair.leader.produce(batch(3, value=b"v" * 100, **fields), acks=1)


def test_a_follower_gets_the_same_bytes(pair: ReplicaPair) -> None:
    """Over several segments, of which the follower rolls its own; acks=all is answered by its next fetch."""
    produce(pair, 20)
    pair.follow()
    assert pair.is_equal()
    assert len(pair.log.segments) > 1
    reply = pair.leader.produce()
    pair.run()
    assert reply.done
    assert pair.leader.code(reply) == ErrorCode.NONE
    assert pair.is_equal()


def test_a_dead_leader_is_few_lines(pair: ReplicaPair, caplog: pytest.LogCaptureFixture) -> None:
    """Its follower asks each second."""
    caplog.set_level(logging.INFO, "broker.replication.leader_fetcher")
    pair.follow()
    pair.client.cut = True
    for _ in range(40):
        pair.run(1000)
    assert pair.fetcher.failures >= 30
    pair.client.cut = False
    for _ in range(2):
        pair.run(1000)  # the first Fetch waits for records
    first, second, last = [each.getMessage() for each in caplog.records if each.name.endswith("leader_fetcher")]
    assert first.startswith("Fetches from leader 1 fail: cut. They are retried. If broker 1 has ended")
    assert second.startswith("Fetches from leader 1 have failed for 3")
    assert last.startswith("Fetches from leader 1 succeed again after ")


def test_copied_bytes_are_no_traffic_of_clients(pair: ReplicaPair) -> None:
    """ReplicationBytesIn of the follower is ReplicationBytesOut of the leader; BytesIn and BytesOut have neither."""
    produce(pair, 20)
    leader = pair.leader.partition
    size = leader.log.size_bytes
    pair.follow()
    pair.run(500)
    assert pair.is_equal()
    assert (pair.counts.bytes_in, leader.counts.bytes_out) == (size, size)
    assert pair.log.appended == (0, 0)
    assert (leader.log.fetched_bytes, leader.log.appended) == (0, (60, size))
    pair.run(500)
    assert pair.followed.leader_high_watermark == 60
    pair.followed.truncate(60)
    assert pair.log.appended == (0, 0)


@pytest.mark.parametrize("added", [(), (2,), (3,)])
def test_bytes_of_replicas_that_a_reassignment_adds(pair: ReplicaPair, added: tuple[int, ...]) -> None:
    """They count at the leader and at the follower, as long as the reassignment goes on."""
    leader = pair.leader.partition
    leader.change(REGISTERED._replace(partition_epoch=9, adding_replicas=added))
    pair.followed.is_added = 2 in added
    produce(pair, 3)
    pair.follow()
    size = pair.log.size_bytes if 2 in added else 0
    assert (pair.counts.added_bytes_in, leader.counts.added_bytes_out) == (size, size)
    leader.change(REGISTERED._replace(partition_epoch=10))
    produce(pair)
    pair.run(500)
    assert leader.counts.added_bytes_out == size
    assert pair.is_equal()


def test_high_watermark_follows_with_the_next_records(pair: ReplicaPair) -> None:
    pair.follow()
    produce(pair)
    pair.run()
    assert pair.leader.partition.high_watermark == 3
    assert pair.log.high_watermark == 0
    pair.run(500)
    assert pair.log.high_watermark == 3
    assert pair.advanced == [3]


def test_an_idle_follower_asks_for_nothing_by_name(pair: ReplicaPair) -> None:
    """Its session has the partition; a request waits 500 ms at the leader."""
    pair.follow()
    pair.run(500)
    asked = len(pair.client.asked)
    pair.run(500)
    assert len(pair.client.asked) == asked + 1
    assert pair.client.asked[-1].topics == []
    assert pair.client.asked[-1].session_id


def test_records_that_the_leader_lacks_are_truncated(pair: ReplicaPair) -> None:
    """KIP-101: the follower was leader in epoch 3 and wrote what nobody else has."""
    produce(pair, 2)
    pair.follow()
    pair.fetcher.remove(KEY)
    pair.run(500)
    log = pair.log
    log.append(batch(2), 5, pair.follower.clock.now_ms())
    pair.leader.partition.lead_again(REGISTERED._replace(leader_epoch=6, partition_epoch=9, isr=(1, 2)))
    produce(pair, 1)
    pair.follow(leader_epoch=6)
    assert pair.is_equal()
    assert log.log_end_offset == 9


def test_a_leader_of_another_epoch_is_asked_again_later(pair: ReplicaPair) -> None:
    """The follower heard of the epoch first (UNKNOWN_LEADER_EPOCH)."""
    produce(pair)
    pair.follow(leader_epoch=5)
    followed = pair.fetcher.followed(KEY)
    assert followed is not None
    assert (followed.phase, followed.last_error) == (Phase.DELAYED, ErrorCode.UNKNOWN_LEADER_EPOCH)
    pair.leader.partition.lead_again(REGISTERED._replace(leader_epoch=5, partition_epoch=9, isr=(1, 2)))
    produce(pair)
    pair.run(999)
    assert pair.log.log_end_offset == 0
    pair.run(1)
    assert pair.is_equal()


@pytest.mark.parametrize("start", [33, 34, 35])
def test_a_follower_behind_the_leaders_start_begins_there(pair: ReplicaPair, start: int) -> None:
    """KAFKA-7414: never an error. The start may be in the middle of a batch, which the follower gets as a whole."""
    produce(pair, 20)
    log = pair.leader.partition.log
    pair.leader.keep(1, partition_epoch=9)
    pair.leader.partition.delete_records(start)
    assert log.log_start_offset == start
    pair.follow()
    assert (pair.log.log_start_offset, pair.log.log_end_offset) == (start, 60)
    assert pair.is_equal()


def test_a_follower_beyond_the_leaders_end_is_cut(pair: ReplicaPair) -> None:
    """After an unclean election, of an epoch that both know."""
    produce(pair)
    pair.follow()
    pair.fetcher.remove(KEY)
    pair.run(500)
    pair.log.append(batch(5), 4, pair.follower.clock.now_ms())
    pair.follow()
    assert pair.is_equal()


def test_a_raised_start_comes_along(pair: ReplicaPair) -> None:
    produce(pair, 5)
    pair.follow()
    pair.leader.partition.delete_records(6)
    produce(pair)
    pair.run()
    assert pair.log.log_start_offset == 6


def test_a_leader_that_does_not_answer_is_asked_again(pair: ReplicaPair) -> None:
    produce(pair)
    pair.client.cut = True
    pair.follow()
    assert pair.fetcher.failures == 1
    pair.run(500)
    assert len(pair.client.asked) == 1
    pair.client.cut = False
    pair.run(500)
    assert pair.is_equal()


def test_a_cut_during_a_reset_is_tried_again(pair: ReplicaPair) -> None:
    produce(pair, 20)
    pair.leader.keep(1, partition_epoch=9)
    pair.leader.partition.delete_records(33)
    request = pair.client.request

    def cut_after(api: object, asked: object) -> object:
        pair.client.cut = len(pair.client.asked) == 1
        return request(api, asked)  # type: ignore[arg-type]

    pair.client.request = cut_after  # type: ignore[assignment, method-assign]
    pair.follow()
    assert pair.log.log_end_offset == 0
    pair.run(1000)
    assert pair.is_equal()


def test_a_leader_without_an_offset_removes_nothing(pair: ReplicaPair) -> None:
    """-1 is no offset to truncate to, although the answer has no error."""
    produce(pair, 4)
    pair.follow()
    before, request = content(pair.log), pair.client.request

    def answer(api: Api, asked: Struct) -> Deferred[Response]:
        if api.key == FETCH.key:
            part = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
            topics = [FetchableTopicResponse(topic_id=KEY[0], partitions=[part])]
            return answered(FETCH, responses=topics)
        part = ListOffsetsPartitionResponse(partition_index=0, offset=-1)
        return answered(LIST_OFFSETS, topics=[ListOffsetsTopicResponse(name="t", partitions=[part])])

    pair.client.request = answer  # type: ignore[assignment, method-assign]
    pair.run(1000)
    followed = pair.fetcher.followed(KEY)
    assert followed is not None
    assert (followed.phase, followed.last_error) == (Phase.DELAYED, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert content(pair.log) == before
    pair.client.request = request  # type: ignore[method-assign]
    produce(pair)
    pair.run(1000)
    assert pair.is_equal()


def test_a_closed_fetcher_asks_for_nothing(pair: ReplicaPair) -> None:
    pair.follow()
    pair.fetcher.close()
    asked = len(pair.client.asked)
    produce(pair)
    pair.run(2000)
    assert (len(pair.client.asked), pair.client.closed) == (asked, True)
    assert pair.log.log_end_offset == 0


def test_a_failed_directory_fails_its_partitions_alone(pair: ReplicaPair) -> None:
    pair.follow()
    pair.log.directory.fail(OSError(5, "Input/output error"))
    produce(pair)
    pair.run()
    followed = pair.fetcher.followed(KEY)
    assert followed is not None
    assert followed.phase is Phase.FAILED


def test_a_defect_does_not_end_the_fetcher(
    pair: ReplicaPair, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition is fetched again in the next epoch, and others all the time."""
    produce(pair)
    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "append_replicated", Mock(side_effect=KeyError("defect")))
        pair.follow()
    followed = pair.fetcher.followed(KEY)
    assert followed is not None
    assert followed.phase is Phase.FAILED
    assert "t-0 is not followed any more in this epoch" in caplog.text
    pair.leader.partition.lead_again(REGISTERED._replace(leader_epoch=5, partition_epoch=9, isr=(1, 2)))
    produce(pair)
    pair.follow(leader_epoch=5)
    pair.run(500)
    assert pair.is_equal()
