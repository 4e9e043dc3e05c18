"""The hash of a group's topics equals Kafka's, bit for bit."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest

from coordinator.group.cluster import NoTopics, Topic
from coordinator.group.consumer.metadata_hash import metadata_hash, topic_hash
from tests.support.consumer_groups import Topics


class Recorded(NoTopics):
    """The topics in a directory of Kafka; each has one partition."""

    IDS = {"codec-gzip": "l2V1EjUTQjG30FWQW00lNQ", "plain": "WwYOpKZ6Qm6r1SIpRGOh9Q"}

    def topic(self, name: str) -> Topic | None:
        uuid = self.IDS.get(name)
        return None if uuid is None else Topic(name, urlsafe_b64decode(f"{uuid}=="), 1)


def test_hash_is_that_of_a_recorded_group() -> None:
    """`g-new` in tests/data: missing topics and the order do not matter."""
    expected = -3331782113340436174
    assert metadata_hash(Recorded(), ["plain", "nowhere", "codec-gzip"]) == expected
    assert metadata_hash(Recorded(), ["codec-gzip", "plain"]) == expected


def test_no_topics_are_zero() -> None:
    assert metadata_hash(Recorded(), ["nowhere"]) == metadata_hash(Recorded(), []) == 0


@pytest.mark.parametrize(
    "changed",
    [
        Topic("t", b"j" * 16, 2),
        Topic("u", b"i" * 16, 2),
        Topic("t", b"i" * 16, 3),
        Topic("t", b"i" * 16, 2, (("a",), ())),
        Topic("t", b"i" * 16, 2, ((), ("a",))),
    ],
)
def test_all_inputs_of_assignments_change_the_hash(changed: Topic) -> None:
    assert topic_hash(changed) != topic_hash(Topic("t", b"i" * 16, 2))


def test_added_partitions_change_the_hash() -> None:
    topics = Topics({"t": 1})
    before = metadata_hash(topics, ["t"])
    topics.put("t", 2)
    assert metadata_hash(topics, ["t"]) != before
