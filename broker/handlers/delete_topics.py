"""DeleteTopics v0-v6: delete topics with all their records.

Versions: v1 throttle time; v3 TOPIC_DELETION_DISABLED (KIP-322), before INVALID_REQUEST; v4 flexible; v5 error messages
(KIP-599); v6 topics by id as well as by name (KIP-516). Kafka 4 has dropped v0. The answer is sent once the deletion is
on disk; the files are removed file.delete.delay.ms later.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.access.quotas.mutations import admit
from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import RequestTimedOut
from broker.requests.served_api import Reply, handles
from metadata.delete_topics import DeletedTopic, TopicReference
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DELETE_TOPICS, DeletableTopicResult
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

if TYPE_CHECKING:
    from config import BrokerConfig
    from controller.controller import Controller

TOPIC_IDS_VERSION = 6


@handles(DELETE_TOPICS)
def delete_topics(ctx: RequestContext, request: Struct, *, config: BrokerConfig, controller: Controller) -> Reply:
    if ctx.api_version >= TOPIC_IDS_VERSION:
        references = [TopicReference(topic.name, topic.topic_id) for topic in request.topics]
    else:
        references = [TopicReference(name) for name in request.topic_names]
    if not config.get_bool("delete.topic.enable"):
        disabled = ErrorCode.TOPIC_DELETION_DISABLED if ctx.api_version >= 3 else ErrorCode.INVALID_REQUEST
        return _reply(
            [DeletedTopic(each.name, each.topic_id, disabled, "Topic deletion is disabled.") for each in references]
        )
    if request.timeout_ms <= 0 and _any_sound(references):
        raise RequestTimedOut
    return controller.delete_topics(references, admit(ctx, strict_from=5)).then(_reply)


def _any_sound(references: list[TopicReference]) -> bool:
    """Whether there is a valid reference: a topic that is named once, by its name or by its id."""
    named = Counter(each for each in references if (each.name is None) != (each.topic_id == ZERO_UUID))
    return 1 in named.values()


def _reply(results: list[DeletedTopic]) -> Struct:
    return DELETE_TOPICS.response(
        responses=[
            DeletableTopicResult(
                name=result.name,
                topic_id=result.topic_id,
                error_code=result.error_code,
                error_message=result.error_message,
            )
            for result in results
        ]
    )
