"""A worker applies the metadata of the main process."""

from __future__ import annotations

from typing import Any

from broker.automatic_topics import AutomaticTopics
from broker.metadata_cache import MetadataCache
from broker.metadata_publisher import MetadataPublisher
from broker.process.placement import worker_of
from broker.workers.messages import (
    AutoCreate,
    PartitionDirectories,
    Records,
    Verify,
)
from broker.workers.metadata_follower import MetadataFollower, RemoteFeatures
from broker.workers.remote import RemoteController, RemoteVerifier
from metadata.create_topics import NewTopic
from metadata.decision import Refused
from metadata.delete_topics import TopicReference
from metadata.framing import MetadataRecord, decode_record, encode_record
from metadata.image import ResourceType
from metadata.loading import MetadataLoader
from metadata.snapshot import image_records
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from tests.support.controllers import CLUSTER_ID, ControllerHarness, MemoryPartitions
from tests.support.fake_loop import FakeLoop


class MainProcessLink:
    """Records messages."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def send(self, message: Any) -> None:
        self.messages.append(message)

    def ask(self, message: Any) -> Deferred[Any]:
        self.messages.append(message)
        return Deferred()


class Follower:
    """Worker 1 of 2, with the main process's current metadata and all later changes."""

    def __init__(self, owner: ControllerHarness) -> None:
        self.owner = owner
        self.loop = FakeLoop()
        self.link: Any = MainProcessLink()
        self.partitions: Any = MemoryPartitions()
        loader = MetadataLoader()
        for record in image_records(owner.controller.image):
            loader.feed(decode_record(encode_record(record)))
        self.image = loader.image
        self.controller = RemoteController(owner.config, loader.image, self.link)
        self.metadata = MetadataCache(CLUSTER_ID, loader.image)
        self.publisher = MetadataPublisher(
            owner.config, self.metadata, self.partitions, self.controller, {}, self.loop.call_soon, 1
        )
        self.topics = AutomaticTopics(self.metadata, self.publisher, self.controller, self.publisher.when_published)
        self.follower = MetadataFollower(loader.image, self.publisher, 0)
        self.waiting: list[Deferred[None]] = []
        owner.controller.followers = self

    def follow(self, records: list[MetadataRecord]) -> None:
        batch = Records(self.owner.controller.last_offset, tuple(map(encode_record, records)))
        self.waiting.append(self.follower.follow(batch))

    def when_caught_up(self) -> Deferred[None]:
        return self.waiting[-1]


def two_workers(**overrides: str) -> ControllerHarness:
    return ControllerHarness({"num.workers": "2", **overrides})


def parts(topic: str, count: int, worker: int) -> list[tuple[str, int]]:
    return [(topic, index) for index in range(count) if worker_of(topic, index, 2) == worker]


def test_worker_hosts_its_own_partitions() -> None:
    """It also knows partitions of the other worker, and topics created before it started."""
    owner = two_workers().with_topics(NewTopic("before", 4, 1))
    follower = Follower(owner)
    follower.publisher.host_all()
    assert sorted(follower.partitions.hosted) == parts("before", 4, 1)

    made = owner.controller.create_topics([NewTopic("t", 4, 1)])
    follower.loop.settle()
    assert made.done
    for partitions, worker in ((owner.partitions, 0), (follower.partitions, 1)):
        own = parts("before", 4, worker) + parts("t", 4, worker)
        assert sorted(partitions.hosted) == own
        assert partitions.elsewhere == set(parts("before", 4, 1 - worker) + parts("t", 4, 1 - worker))


def test_topic_creation_waits_for_all_workers() -> None:
    """Other workers may need several turns to host its partitions."""
    owner = two_workers()
    follower = Follower(owner)
    made = owner.controller.create_topics([NewTopic("t", 40, 1)])
    assert not made.done
    follower.loop.settle()
    assert made.done
    assert len(follower.partitions.hosted) == 20


def test_producer_id_blocks_do_not_wait_for_workers() -> None:
    """A slow worker must not delay a new producer."""
    owner = two_workers()
    follower = Follower(owner)
    made = owner.controller.create_topics([NewTopic("t", 40, 1)])
    allocated = owner.controller.allocate_producer_ids(1000)
    assert (made.done, allocated.done) == (False, True)
    assert follower.image.next_producer_id == owner.controller.image.next_producer_id == 1000
    follower.loop.settle()
    assert made.done


def test_other_changes_are_applied() -> None:
    """Topic and broker configs, leader epochs, deletions."""
    owner = two_workers().with_topics(NewTopic("t", 2, 1))
    follower = Follower(owner)
    follower.publisher.host_all()
    [(_, own)] = parts("t", 2, 1)
    owner.controller.alter_config(ResourceType.TOPIC, "t", {"max.message.bytes": "77"})
    assert follower.partitions.hosted["t", own].config.max_message_bytes == 77
    assert follower.follower.last_offset == owner.controller.last_offset
    assert follower.image == owner.controller.image

    owner.controller.delete_topics([TopicReference(name="t")])
    assert follower.partitions.hosted == {}
    assert follower.image.topic("t") is None


def test_reports_of_a_worker_go_to_the_main_process() -> None:
    """Directories of partitions, topics to create, transactions that clients write in."""
    follower = Follower(two_workers())
    follower.controller.record_placements([(b"id", 1, b"directory")])
    assert not follower.topics.ensure("used").done
    RemoteVerifier(follower.link).verify("x", [], 12)
    assert follower.link.messages == [
        PartitionDirectories(((b"id", 1, b"directory"),)),
        AutoCreate(("used",)),
        Verify("x", (), 12),
    ]


def test_automatic_topic_creation_counts_to_the_quota() -> None:
    """The worker checks it, as it knows the client and the main process does not."""
    follower = Follower(two_workers())
    asked: list[int] = []

    def admit(partitions: int) -> None:
        asked.append(partitions)
        if len(asked) == 2:
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    follower.controller.auto_create(["a", "b", "__consumer_offsets"], admit)
    assert asked == [1, 1, 50]
    assert follower.link.messages == [AutoCreate(("a", "__consumer_offsets"))]


def test_features_are_those_of_the_image() -> None:
    """With kraft.version, and the offset of the last record."""
    owner = two_workers()
    follower = Follower(owner)
    found = RemoteFeatures(follower.follower, 1).features()
    assert found.levels == {"kraft.version": 1, **owner.controller.image.features}
    assert found.epoch == 0
    assert RemoteFeatures(follower.follower, 0).features().levels == owner.controller.image.features
