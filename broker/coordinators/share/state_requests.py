"""The common part of the share coordinator's five APIs: a group, its topics by id, a result for each partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from broker.coordinators.share.states import ShareStates
from broker.metadata_cache import MetadataCache
from broker.requests.served_api import Reply
from coordinator.group.refused import Refused
from coordinator.share.decisions import check_partition
from coordinator.share.state import ShareKey
from protocol.error_codes import ErrorCode
from protocol.schema import Api, Struct, StructType

#: Serves one partition of a request, and fills in its result. Raises Refused.
Serve: TypeAlias = Callable[[ShareKey, Struct, Struct], None]

#: Errors of the coordinator as a whole. Their texts name the operation.
_OF_THE_COORDINATOR = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


def answer_states(
    states: ShareStates,
    api: Api,
    request: Struct,
    verb: str,
    topic: StructType,
    partition: StructType,
    serve: Serve,
) -> Reply:
    """Answer with a `topic` for each topic, with a `partition` for each partition. Without a group it is empty."""
    if not request.group_id:
        return api.response()

    def answer(serve: Serve) -> Struct:
        def one(topic_id: bytes, asked: Struct) -> Struct:
            answered = partition(partition=asked.partition)
            try:
                serve(ShareKey(request.group_id, topic_id, asked.partition), asked, answered)
            except Refused as refusal:
                message = refusal.message
                if refusal.code in _OF_THE_COORDINATOR:
                    message = f"Unable to {verb}: {message}"
                return partition(partition=asked.partition, error_code=refusal.code, error_message=message)
            return answered

        results = [
            topic(topic_id=each.topic_id, partitions=[one(each.topic_id, asked) for asked in each.partitions])
            for each in request.topics
            if each.partitions
        ]
        return api.response(results=results)

    def fail(code: ErrorCode) -> Struct:
        def refuse(share: ShareKey, asked: Struct, answered: Struct) -> None:
            raise Refused(code, code.text)

        return answer(refuse)

    keys = (
        ShareKey(request.group_id, each.topic_id, asked.partition).coordinator_key
        for each in request.topics
        for asked in each.partitions
    )
    return states.after_commit(keys, answer(serve), fail)


def check_exists(metadata: MetadataCache, share: ShareKey) -> None:
    """Check that the partition exists. Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST."""
    check_partition(share)
    topic = metadata.image.topic_by_id(share.topic_id)
    if topic is None or share.partition not in topic.partitions:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise Refused(code, code.text)
