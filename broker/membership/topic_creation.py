"""CreateTopics requests of a member for topics that are created on first use: Kafka's AutoTopicCreationManager."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from broker.automatic_topics import AutomaticTopics
from controller.auto_topic_creation import creatable_topic
from metadata.create_topics import USE_DEFAULT, NewTopic, NewTopicResult
from metadata.decision import Admit, unlimited
from metadata.image import NO_CONFIGS
from protocol.error_codes import ErrorCode
from protocol.framing import SIZE_BYTES
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages.create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog

if TYPE_CHECKING:
    from broker.automatic_topics import TopicCreator
    from broker.membership.forwarding import EnvelopeForwarder
    from broker.metadata_cache import MetadataCache
    from broker.metadata_publisher import MetadataPublisher
    from broker.requests.context import ClientConnection
    from config import BrokerConfig
    from protocol.schema import Struct

log = logging.getLogger(__name__)
_unreachable_log = LimitedLog(log, lines=1, seconds=30)  # while no controller answers, all topics fail
automatic_log = LimitedLog(log)  # a client may request a topic that cannot be created any number of times


def automatic_topic(config: BrokerConfig, name: str, configs: Mapping[str, str] = NO_CONFIGS) -> NewTopic:
    """Return a topic as Kafka creates it. In a cluster the factors of internal topics are those of their keys."""
    topic = creatable_topic(config, name, sys.maxsize)
    partitions, factor = topic.num_partitions, topic.replication_factor
    if partitions == USE_DEFAULT:
        partitions = default_of_broker(config, "num.partitions")
    if factor == USE_DEFAULT:
        factor = default_of_broker(config, "default.replication.factor")
    return NewTopic(name, partitions, factor, (), {**topic.configs, **configs})


def default_of_broker(config: BrokerConfig, key: str) -> int:
    """Return the value that this broker's own file sets, else USE_DEFAULT: then that of the controller counts."""
    return config.get_int(key) if config.is_set(key) else USE_DEFAULT


def create_topics_request(topics: Iterable[NewTopic]) -> Struct:
    """Return a CreateTopics request."""
    return CREATE_TOPICS.request(topics=[_creatable(each) for each in topics])


def results_of(response: Struct) -> list[NewTopicResult]:
    """Return the results of a CreateTopics response."""
    return [
        NewTopicResult(
            each.name,
            ErrorCode.of_peer(each.error_code),
            each.error_message,
            each.topic_id,
            each.num_partitions,
            each.replication_factor,
        )
        for each in response.topics
    ]


def log_automatic(created: Deferred[list[NewTopicResult]]) -> None:
    """Log failures: no client waits for the result."""
    try:
        results = created.result()
    except Exception as error:
        _unreachable_log.warning("Cannot create a topic automatically: %s", error)
        return
    for result in results:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            automatic_log.warning("Cannot create topic %s automatically: %s", result.name, result.error_message)


class MemberTopics(AutomaticTopics):
    """Topics that clients use first are created with the rights and the quotas of the client."""

    def __init__(
        self,
        config: BrokerConfig,
        cache: MetadataCache,
        publisher: MetadataPublisher,
        creator: TopicCreator,
        forwarder: EnvelopeForwarder,
    ) -> None:
        super().__init__(cache, publisher, creator, publisher.when_published)
        self._config = config
        self._forwarder = forwarder

    def create(self, names: Iterable[str], admit: Admit = unlimited, client: ClientConnection | None = None) -> None:
        wanted = [automatic_topic(self._config, name) for name in names]
        if client is None:
            super().create(names, admit)
        elif wanted:
            version = self._forwarder.newest(CREATE_TOPICS)
            header = encode_request_header(CREATE_TOPICS, version, 0, None)
            request = header + CREATE_TOPICS.request.encode(version, create_topics_request(wanted))
            answered = self._forwarder.forward(client, request, throttles=False)
            answered.then(lambda frame: _results(frame, version)).add_done_callback(log_automatic)


def _results(frame: bytes, version: int) -> list[NewTopicResult]:
    body = memoryview(frame)[SIZE_BYTES:]
    position = decode_response_header(CREATE_TOPICS, version, body)[1]
    return results_of(CREATE_TOPICS.response.decode(version, body, position)[0])


def _creatable(topic: NewTopic) -> Struct:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids)) for index, ids in topic.assignments
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )
