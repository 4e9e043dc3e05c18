"""Rules of APIs about topics that need more than a table row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.access.authorization.rule import (
    Handle,
    Question,
    changed,
    each,
    joined,
    kafka_text,
    split,
    then,
    to_named,
    to_topic,
    visible_items,
)
from broker.requests.context import CloseConnection
from broker.requests.served_api import Reply
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import METADATA, MetadataResponseTopic
from protocol.primitives import ZERO_UUID
from protocol.records.batch import is_transactional
from protocol.schema import Struct
from security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from broker.access.authorization.access import Access

_TOPIC = ResourceType.TOPIC
_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_UNKNOWN = -1

_write_each = each("topic_data", to_topic(Operation.WRITE))
_create_each = each("topics", to_topic(Operation.CREATE), lambda _: "Authorization failed.")
_describe_each = each("topics", to_topic(Operation.DESCRIBE))
_describe_visible = visible_items("topics", to_named(Operation.DESCRIBE, _TOPIC, "name"))


def produce(access: Access, request: Struct, handle: Handle) -> Reply:
    """WRITE on the transactional id if there are transactional records, then on each topic.

    With acks=0 nothing is answered: a refusal closes the connection.
    """
    transactional_id = request.transactional_id
    if _has_transactional_records(request) and (
        transactional_id is None or not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        reply: Reply = access.refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    else:
        if request.acks:
            return _write_each(access, request, handle)
        allowed, refused = split(access, request.topic_data, to_topic(Operation.WRITE))
        reply = handle(changed(request, topic_data=allowed)) if allowed else None
        if not refused:
            return reply
    if request.acks == 0:
        raise CloseConnection("Produce with acks=0 is refused: not authorised")
    return reply


def _has_transactional_records(request: Struct) -> bool:
    return any(is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data)


def metadata(access: Access, request: Struct, handle: Handle) -> Reply:
    """DESCRIBE on each topic. Automatic creation needs CREATE."""
    if request.topics is None or (not request.topics and access.version == 0):
        return _describe_visible(access, request, handle)
    allowed, hidden, uncreatable = [], [], []
    creates = request.allow_auto_topic_creation and access.creates_topics
    for topic in request.topics:
        if topic.topic_id != ZERO_UUID and access.version < _FIRST_METADATA_BY_ID:
            return handle(request)  # the handler answers INVALID_REQUEST
        name = access.topic_name(topic)
        if name is not None and not access.may(Operation.DESCRIBE, _TOPIC, name):
            hidden.append(topic)
        elif name is not None and creates and not _exists_or_may_be_created(access, name):
            uncreatable.append(topic)
        else:
            allowed.append(topic)
    refused = [
        MetadataResponseTopic(
            error_code=_FAILED, name=topic.name if topic.topic_id == ZERO_UUID else None, topic_id=topic.topic_id
        )
        for topic in (*uncreatable, *hidden)
    ]
    if not refused:
        return handle(request)
    if allowed or access.version > 0:
        reply = handle(changed(request, topics=allowed))
    else:  # in v0 an empty list means all topics, and creates none
        reply = then(handle(changed(request, topics=[])), lambda answer: changed(answer, topics=[]))
    return then(reply, lambda answer: joined([answer, METADATA.response(topics=refused)]))


_FIRST_METADATA_BY_ID = 12


def _exists_or_may_be_created(access: Access, name: str) -> bool:
    """Whether the topic exists, or the client may create it."""
    return (
        access.has_topic(name)
        or access.may_cluster(Operation.CREATE, log_if_denied=False)
        or access.may(Operation.CREATE, _TOPIC, name)
    )


def create_topics(access: Access, request: Struct, handle: Handle) -> Reply:
    """CREATE on the cluster or on each topic. The answer needs DESCRIBE_CONFIGS to show the configuration."""

    def hide(reply: Struct) -> Struct:
        for topic in reply.topics:
            if not topic.error_code and not access.may(
                Operation.DESCRIBE_CONFIGS, _TOPIC, topic.name, log_if_denied=False
            ):
                topic.topic_config_error_code = _FAILED
                topic.num_partitions = topic.replication_factor = _UNKNOWN
                topic.configs = []
        return reply

    def create_allowed(allowed: Struct) -> Reply:
        return then(handle(allowed), hide)

    if access.may_cluster(Operation.CREATE, log_if_denied=False):
        return create_allowed(request)
    return _create_each(access, request, create_allowed)


def delete_topics(access: Access, request: Struct, handle: Handle) -> Reply:
    """Check each topic. A topic that is given by its id has its name in the answer only with DESCRIBE."""
    if access.may_cluster(Operation.DELETE, log_if_denied=False):
        return handle(request)
    if access.version < _FIRST_VERSION_WITH_IDS:
        return each("topic_names", _to_delete, kafka_text)(access, request, handle)

    def name(reply: Struct) -> Struct:
        for result in reply.responses:
            if result.error_code == _FAILED and result.topic_id != ZERO_UUID:
                found = access.topic_name(result)
                visible = found is not None and access.may(Operation.DESCRIBE, _TOPIC, found, log_if_denied=False)
                result.name = found if visible else None
        return reply

    return then(each("topics", _to_delete, kafka_text)(access, request, handle), name)


_FIRST_VERSION_WITH_IDS = 6


def _to_delete(access: Access, item: str | Struct) -> Question | None:
    """DELETE. A missing topic is reported only to clients that may describe it. The handler refuses unknown ids."""
    name = item if isinstance(item, str) else access.topic_name(item)
    if name is None:
        return None
    return Question(Operation.DELETE if access.has_topic(name) else Operation.DESCRIBE, _TOPIC, name)


def offset_for_leader_epoch(access: Access, request: Struct, handle: Handle) -> Reply:
    """Allow brokers; other clients need DESCRIBE on each topic."""
    if access.may_cluster(Operation.CLUSTER_ACTION, log_if_denied=False):
        return handle(request)
    return _describe_each(access, request, handle)
