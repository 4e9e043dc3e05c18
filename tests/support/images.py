"""Images of small clusters, and strategies for requests of clients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from metadata.create_partitions import MorePartitions
from metadata.create_topics import NewTopic, NewTopicResult, TopicDefaults, create_topics
from metadata.decision import Decision
from metadata.delete_topics import TopicReference
from metadata.image import MetadataImage
from metadata.loading import MetadataLoader
from metadata.registration import (
    NodeIdentity,
    bootstrap_records,
    feature_records,
    register_broker,
    unfence_broker,
)
from metadata.replay import replay_all

DIRECTORY = b"directory-id-16b"


def cluster(brokers: int = 1, fenced: int = 0, log_directories: tuple[bytes, ...] = (DIRECTORY,)) -> MetadataImage:
    """Return the image of a formatted cluster with brokers 1..n, the last ones of which are fenced."""
    loader = MetadataLoader()
    for record in bootstrap_records(feature_records()):
        loader.feed(record)
    image = loader.image
    for broker_id in range(1, brokers + 1):
        node = NodeIdentity(broker_id, broker_id.to_bytes(16, "big"))
        replay_all(image, register_broker(image, node, broker_id, [], None, log_directories))
        if broker_id <= brokers - fenced:
            replay_all(image, unfence_broker(image, broker_id))
    return image


def no_problem(_: Mapping[str, str]) -> None:
    """Find no problem in any configuration."""


def decide_topics(
    image: MetadataImage, *topics: NewTopic, check_config: Callable[[Mapping[str, str]], None] = no_problem
) -> Decision[NewTopicResult]:
    """Decide with one partition and one replica as defaults."""
    last = max((int.from_bytes(id_, "big") for id_ in image.topics_by_id), default=999)
    numbers = itertools.count(last + 1)
    return create_topics(
        image,
        topics,
        defaults=TopicDefaults(1, 1),
        check_config=check_config,
        new_topic_id=lambda: next(numbers).to_bytes(16, "big"),
        random_below=lambda _: 0,
    )


def with_topics(image: MetadataImage, *topics: NewTopic) -> MetadataImage:
    """Return the image after these topics were created."""
    decision = decide_topics(image, *topics)
    assert all(not result.error_code for result in decision.results), decision.results
    replay_all(image, decision.records)
    return image


names = st.sampled_from(["orders", "audit", "a.b", "a_b", "bad name", "", "__consumer_offsets"])
configs = st.dictionaries(st.sampled_from(["retention.ms", "min.insync.replicas"]), st.sampled_from(["1", "2"]))
new_topics = st.lists(
    st.builds(
        NewTopic, name=names, num_partitions=st.integers(-2, 3), replication_factor=st.integers(-2, 2), configs=configs
    ),
    max_size=4,
)
more_partitions = st.lists(st.builds(MorePartitions, name=names, count=st.integers(-1, 5)), max_size=3)
references = st.lists(st.builds(TopicReference, name=names), max_size=3)
config_changes = st.dictionaries(
    st.sampled_from(["retention.ms", "min.insync.replicas"]), st.none() | st.sampled_from(["1", "2"]), max_size=2
)
