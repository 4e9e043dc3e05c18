"""CreateTopics v0-v7: create topics, or only validate the request.

Versions: v1 error messages, validate only; v2 throttle time; v4 defaults for -1 partitions and replicas (KIP-464); v5
flexible, returns the new topic's numbers and configuration (KIP-525); v6 quota errors (KIP-599); v7 topic ids
(KIP-516). Kafka 4 has dropped v0 and v1. The answer is sent once the topics are on disk and can be written to. That is
quicker than any timeout_ms above 0.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.access.quotas.mutations import admit
from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import RequestTimedOut
from broker.requests.served_api import Reply, handles
from config.describe import topic_entries
from metadata.create_topics import NewTopic, NewTopicResult
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopicConfigs, CreatableTopicResult
from protocol.schema import Struct

if TYPE_CHECKING:
    from config import BrokerConfig
    from controller.controller import Controller


@handles(CREATE_TOPICS)
def create_topics(ctx: RequestContext, request: Struct, *, config: BrokerConfig, controller: Controller) -> Reply:
    if request.timeout_ms <= 0 and 1 in Counter(topic.name for topic in request.topics).values():
        raise RequestTimedOut  # topics that are named twice are refused anyway
    created = controller.create_topics(
        [_wanted(topic) for topic in request.topics],
        validate_only=request.validate_only,
        admit=admit(ctx, strict_from=6),
    )
    return created.then(lambda results: CREATE_TOPICS.response(topics=[_result(config, result) for result in results]))


def _wanted(topic: Struct) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        configs={each.name: each.value for each in topic.configs},
    )


def _result(config: BrokerConfig, result: NewTopicResult) -> Struct:
    if result.error_code is not ErrorCode.NONE:
        return CreatableTopicResult(
            name=result.name, error_code=result.error_code, error_message=result.error_message, configs=[]
        )
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in sorted(topic_entries(config, result.configs), key=lambda entry: entry.name)
        ],
    )
