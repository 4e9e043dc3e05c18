"""Dead-letter queues of share groups (KIP-1191): states, records, and what is refused."""

from __future__ import annotations

import logging

import pytest

from broker.coordinators.share.dead_letter_records import build_batch, read_originals
from broker.coordinators.share.dead_letters import DeadLetters, LetterCounts
from metadata.delete_topics import TopicReference
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.records.batch import iter_batches
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from tests.support.share_broker import SETTINGS, ShareBroker, ShareMemberClient
from tests.support.txn_broker import Crash

ENABLED = {"errors.deadletterqueue.group.enable": "true"}
QUEUE = "dlq.t"
REJECT, RELEASE = [3], [2]


@pytest.fixture
def broker(broker: ShareBroker) -> ShareBroker:
    broker.controller.image.features["share.version"] = 2
    return broker


def use_queue(member: ShareMemberClient, topic: str = QUEUE, *, copy: bool = False) -> None:
    configs = {
        "errors.deadletterqueue.topic.name": topic,
        "errors.deadletterqueue.copy.record.enable": str(copy).lower(),
        "share.auto.offset.reset": "earliest",
        "share.delivery.count.limit": "2",
    }
    member.broker.controller.alter_config(ResourceType.GROUP, member.group, configs)
    member.broker.settle()


def reject_first(broker: ShareBroker, member: ShareMemberClient) -> None:
    member.acknowledge((0, 0, REJECT))
    work(broker)


def work(broker: ShareBroker) -> None:
    """Let the writer have its turns."""
    for _ in range(4):
        broker.advance(1)
        broker.settle()


def letters(broker: ShareBroker, topic: str = QUEUE, index: int = 0) -> list[tuple[str, ...]]:
    """Return the offset, the count and the message of each dead letter."""
    found = []
    for record in broker.records(topic, index):
        headers = dict(record.headers)
        found.append(tuple((headers[f"__dlq.errors.{name}"] or b"").decode() for name in WANTED))
    return found


WANTED = ("offset", "delivery.count", "message")
REJECTED, EXHAUSTED = "Offset rejected by client.", "Offset delivery count exceeded the threshold."


def test_rejected_records_are_archived_after_their_letters(broker, member):
    broker.create(QUEUE, 1, **ENABLED)
    use_queue(member, copy=True)
    broker.fill(3)
    assert member.acquire() == [(0, 2, 1)]
    assert member.acknowledge((0, 0, [1]), (1, 2, REJECT)) == "NONE ['0 NONE None']"
    assert member.read().endswith("[(0, 0, 2, 1), (1, 2, 3, 1)]")
    assert member.summarize().endswith(" 0 1"), "archiving records do not count as complete"
    work(broker)
    assert member.read().endswith("[(1, 2, 4, 1)]")
    found = broker.records(QUEUE)
    assert [(record.key, record.value) for record in found] == [(None, b"v")] * 2
    assert found[0].headers == (
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"1"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", REJECTED.encode()),
    )
    part = broker.partition(QUEUE).log.read(0, 1 << 20, 9)
    [(_, header)] = iter_batches(part if isinstance(part, bytes) else part.read())
    assert (header.codec, header.producer_id, header.record_count) == (Codec.NONE, -1, 2)


@pytest.mark.parametrize("may_create", [False, True])
def test_queue_that_is_deleted_before_the_write(broker, member, monkeypatch, may_create):
    """No write has failed, as in Kafka. The letter is written if the topic may be created again; Kafka drops it."""
    broker.create(QUEUE, 1, **ENABLED)
    use_queue(member)
    key = "errors.deadletterqueue.auto.create.topics.enable"
    broker.controller.alter_config(ResourceType.BROKER, "", {key: str(may_create).lower()})
    broker.settle()
    broker.fill(1)
    member.acquire()
    ensure, deleted = broker.topics.ensure, []

    def delete_first(name, configs):
        ensured = ensure(name, configs)
        if not deleted:
            deleted.append(name)
            broker.controller.delete_topics([TopicReference(name)])
        return ensured

    monkeypatch.setattr(broker.topics, "ensure", delete_first)
    member.acknowledge((0, 0, REJECT))
    work(broker)
    assert deleted == [QUEUE]
    assert member.read().endswith("[(0, 0, 4, 1)]"), "the record is archived"
    counts = broker.dead_letter_counts.get("g", LetterCounts())
    assert counts == LetterCounts(records=int(may_create), requests=int(may_create))


def test_letters_without_copies_have_only_headers(broker, member):
    broker.create(QUEUE, 1, **ENABLED)
    use_queue(member)
    broker.fill(1)
    member.acquire()
    member.acknowledge((0, 0, REJECT))
    work(broker)
    [record] = broker.records(QUEUE)
    assert (record.key, record.value, len(record.headers)) == (None, None, 6)


def test_records_whose_deliveries_are_used_up(broker, member):
    """Whether a member releases them or their lock expires."""
    broker.create(QUEUE, 1, **ENABLED)
    use_queue(member)
    broker.fill(2)
    assert member.acquire() == [(0, 1, 1)]
    member.acknowledge((0, 1, RELEASE))
    work(broker)
    assert member.acquire(mode=1, most=1) == [(0, 0, 2)]
    member.acknowledge((0, 0, RELEASE))
    work(broker)
    assert member.acquire(mode=1, most=1) == [(1, 1, 2)]
    broker.advance(30_001)
    work(broker)
    assert letters(broker) == [("0", "2", EXHAUSTED), ("1", "2", EXHAUSTED)]


@pytest.mark.parametrize(("level", "queue"), [(1, QUEUE), (2, "")])
def test_without_level_or_queue_no_writer_is_made(broker, member, level, queue):
    broker.controller.image.features["share.version"] = level
    broker.create(QUEUE, 1, **ENABLED)
    use_queue(member, queue)
    broker.fill(1)
    member.acquire()
    member.acknowledge((0, 0, REJECT))
    assert member.read().endswith("[(0, 0, 4, 1)]")
    work(broker)
    assert broker.records(QUEUE) == []
    assert broker.share_partitions._letter_writer is None


@pytest.mark.parametrize("appends", [1, 2])
def test_crash_while_archiving_writes_the_letter_again(broker, member, appends):
    """State 3 is in the log; the letter is not, or state 4 is not: at least once."""
    broker.create(QUEUE, 1, **ENABLED)
    use_queue(member)
    broker.fill(1)
    member.acquire()
    broker.crash_after = 0 if appends == 1 else 1
    with pytest.raises(Crash):
        reject_first(broker, member)
    broker.restart()
    again = broker.member("second").enter()
    assert again.acquire(wait_ms=0) == []
    work(broker)
    assert again.read(leader_epoch=1).startswith("NONE")
    assert "(0, 0, 3, " not in again.read(leader_epoch=1)
    assert letters(broker) == [("0", "1", REJECTED)] * appends


@pytest.mark.parametrize(
    ("topic", "settings", "reason"),
    [
        ("dlq.none", {}, "does not exist"),
        ("__dlq", {}, "begins with __"),
        ("dlq.plain", {}, "does not have errors.deadletterqueue.group.enable=true"),
        ("other", ENABLED, "does not begin with"),
    ],
)
def test_refused_topics_lose_the_letter_but_not_the_group(broker, member, caplog, topic, settings, reason):
    """As in Kafka, most is not checked when the group is configured."""
    if topic in ("dlq.plain", "other"):
        broker.create(topic, 1, **settings)
    use_queue(member, topic)
    broker.fill(1)
    member.acquire()
    with caplog.at_level(logging.ERROR):
        member.acknowledge((0, 0, REJECT))
        work(broker)
    assert reason in caplog.text
    assert member.read().endswith("[(0, 0, 4, 1)]")


@pytest.mark.broker(ShareBroker, {**SETTINGS, "errors.deadletterqueue.auto.create.topics.enable": "true"})
def test_queue_is_created_when_it_is_due(broker, member):
    use_queue(member)
    broker.fill(1)
    member.acquire()
    member.acknowledge((0, 0, REJECT))
    work(broker)
    assert letters(broker) == [("0", "1", REJECTED)]
    assert broker.controller.image.topic_config(QUEUE) == ENABLED | {"message.timestamp.type": "CreateTime"}


def test_retries_end_after_five_attempts(broker, member, monkeypatch, caplog):
    """The records are archived then; the letters of other groups do not wait."""
    broker.create(QUEUE, 1, **ENABLED)
    use_queue(member)
    broker.fill(2)
    member.acquire()
    codes = []

    class Away:
        def append(self, topic, index, records):
            codes.append(broker.clock.now_ms())
            return ErrorCode.NOT_LEADER_OR_FOLLOWER

    writer = broker.share_partitions._letter_writer = broker.dead_letters()
    writer._services = writer._services._replace(appends=Away())
    member.acknowledge((0, 1, REJECT))
    for _ in range(60):
        broker.advance(1_000)
        broker.settle()
    assert len(codes) == 5
    assert broker.dead_letter_counts == {"g": LetterCounts(records=0, requests=5, failures=1)}
    assert "Records 0 to 1 of t-0 are archived for share group g without dead letters" in caplog.text
    assert member.read().endswith("[(0, 1, 4, 1)]")


LETTERS = DeadLetters("g", "t", 0, 0, 9, 1, REJECTED)


def test_batches_end_at_the_size_limit():
    """A record that is larger than the limit has a batch of its own, which the topic refuses."""
    batch, last = build_batch(LETTERS, 0, 9, {}, 77, 500)
    size = len(batch)
    assert size <= 500
    assert last == len(list(iter_records(batch))) - 1 < 9
    assert {record.timestamp for record in iter_records(batch)} == {77}
    assert build_batch(LETTERS, 4, 9, {}, 77, 1)[1] == 4
    assert build_batch(LETTERS, 0, 9, {}, 77, 1 << 20)[1] == 9


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_originals_are_read_in_portions(broker, codec):
    """Records that do not fit are left for the next batch; a record that can never fit has no copy."""
    builder = BatchBuilder(codec=codec)
    for size in (100, 100, 1000, 100):
        builder.append(1, b"k", b"v" * size)
    broker.member().produce("t", builder.build())
    source = broker.partition("t")
    found = read_originals(source, 0, 3, 1 << 20)
    assert (sorted(found.records), found.resolved) == ([0, 1, 2, 3], 3)
    assert sorted(read_originals(source, 1, 2, 1 << 20).records) == [1, 2]
    if codec == Codec.NONE:
        found = read_originals(source, 0, 3, 250)
        assert (sorted(found.records), found.resolved) == ([0, 1], 2)
    else:
        found = read_originals(source, 0, 3, 250)
        assert (sorted(found.records), found.resolved) == ([], 3)


def test_originals_that_retention_has_removed(broker):
    broker.fill(2, 2)
    source = broker.partition("t")
    source.delete_records(2)
    found = read_originals(source, 0, 3, 1 << 20)
    assert (sorted(found.records), found.resolved) == ([2, 3], 3)
    found = read_originals(source, 0, 3, 1 << 20, is_batch=True)
    assert (found.records, found.resolved) == ({}, 3)
    source.delete_records(4)
    found = read_originals(source, 1, 3, 1 << 20)
    assert (found.records, found.resolved) == ({}, 3)


@pytest.mark.parametrize(("first", "values"), [(0, [None] * 4), (1, [None, b"v", b"v"])])
def test_letters_of_acquired_records_that_the_log_has_lost(broker, member, first, values):
    """As in Kafka, a letter of such a record has neither key nor value; nor have the others of a whole batch."""
    broker.create(QUEUE, 1, **ENABLED)
    use_queue(member, copy=True)
    broker.fill(2, 2)
    assert member.acquire() == [(0, 3, 1)]
    broker.partition("t").delete_records(2)
    member.acknowledge((first, 3, REJECT))
    work(broker)
    assert [record.value for record in broker.records(QUEUE)] == values
    assert member.read().endswith(f"[({first}, 3, 4, 1)]")


def test_available_records_that_the_log_has_lost_get_no_letters(broker, member):
    """As in Kafka, the next fetch moves the start offset over them, and over those that are acquired."""
    broker.create(QUEUE, 1, **ENABLED)
    use_queue(member)
    broker.fill(2, 2)
    member.acquire()
    member.acknowledge((0, 0, RELEASE))
    broker.partition("t").delete_records(2)
    assert member.acquire(wait_ms=0) == []
    member.acknowledge((1, 2, REJECT))
    work(broker)
    assert letters(broker) == [("2", "1", REJECTED)]
    assert member.read().endswith(" 2 [(2, 2, 4, 1)]")


def test_changes_of_levels_settings_and_topics_are_seen(broker, member):
    """The writer keeps nothing of the metadata between two letters."""
    use_queue(member)
    broker.fill(6)
    assert member.acquire() == [(0, 5, 1)]

    def reject(offset):
        member.acknowledge((offset, offset, REJECT))
        work(broker)

    reject(0)  # there is no topic
    broker.create(QUEUE, 1, **ENABLED)
    reject(1)
    broker.controller.alter_config(ResourceType.TOPIC, QUEUE, {"errors.deadletterqueue.group.enable": "false"})
    broker.settle()
    reject(2)
    broker.create("dlq.other", 1, **ENABLED)
    use_queue(member, "dlq.other", copy=True)
    reject(3)
    broker.controller.image.features["share.version"] = 1
    reject(4)
    broker.controller.image.features["share.version"] = 2
    reject(5)
    assert letters(broker) == [("1", "1", REJECTED)]
    assert letters(broker, "dlq.other") == [("3", "1", REJECTED), ("5", "1", REJECTED)]
    assert [record.value for record in broker.records("dlq.other")] == [b"v", b"v"]
    assert broker.dead_letter_counts == {"g": LetterCounts(records=3, requests=3)}
