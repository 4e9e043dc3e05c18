"""ShareFetch and ShareAcknowledge of several partitions and topics; a test compares answers as short texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from protocol.error_codes import ErrorCode
from protocol.messages import share_acknowledge, share_fetch
from tests.support.share_client import Acknowledgement, ShareClient

#: topic id -> partition -> acknowledgements of its records
Asked: TypeAlias = "Mapping[bytes, Mapping[int, Sequence[Acknowledgement]]]"

_FETCH: dict[str, Any] = {
    "max_wait_ms": 500,
    "min_bytes": 1,
    "max_bytes": 1 << 20,
    "max_records": 500,
    "batch_size": 500,
}
#: the limits of a fetch that only renews
NOTHING: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


def fetch_of(
    client: ShareClient, epoch: int, asked: Asked, forgotten: Sequence[int] = (), **fields: Any
) -> dict[str, Any]:
    """Return the fields of a ShareFetch; `forgotten` partitions belong to the client's topic."""
    topics = [
        share_fetch.FetchTopic(
            topic_id=topic_id,
            partitions=[
                share_fetch.FetchPartition(
                    partition_index=partition,
                    acknowledgement_batches=[share_fetch.AcknowledgementBatch(**_batch(each)) for each in acknowledged],
                )
                for partition, acknowledged in partitions.items()
            ],
        )
        for topic_id, partitions in asked.items()
    ]
    gone = [share_fetch.ForgottenTopic(topic_id=client.topic_id, partitions=list(forgotten))] if forgotten else []
    own = {"group_id": client.group, "member_id": client.member, "share_session_epoch": epoch}
    return {**own, **_FETCH, "topics": topics, "forgotten_topics_data": gone, **fields}


def fetch(client: ShareClient, epoch: int, asked: Asked, forgotten: Sequence[int] = (), **fields: Any) -> str:
    """Send a ShareFetch: code, and by partition its code, that of acknowledgements, and the acquired records."""
    answer = client.call(share_fetch.SHARE_FETCH, 2, **fetch_of(client, epoch, asked, forgotten, **fields))
    found = sorted(
        f"{_topic(client, topic.topic_id)}-{each.partition_index} {_code(each.error_code)} "
        f"{_code(each.acknowledge_error_code)} "
        f"{[(a.first_offset, a.last_offset, a.delivery_count) for a in each.acquired_records]}"
        for topic in answer.responses
        for each in topic.partitions
    )
    return f"{_code(answer.error_code)} {found}"


def acknowledge(client: ShareClient, epoch: int, asked: Asked) -> str:
    """Send a ShareAcknowledge: code, and that of each partition."""
    topics = [
        share_acknowledge.AcknowledgeTopic(
            topic_id=topic_id,
            partitions=[
                share_acknowledge.AcknowledgePartition(
                    partition_index=partition,
                    acknowledgement_batches=[
                        share_acknowledge.AcknowledgementBatch(**_batch(each)) for each in acknowledged
                    ],
                )
                for partition, acknowledged in partitions.items()
            ],
        )
        for topic_id, partitions in asked.items()
    ]
    answer = client.call(
        share_acknowledge.SHARE_ACKNOWLEDGE,
        2,
        group_id=client.group,
        member_id=client.member,
        share_session_epoch=epoch,
        topics=topics,
    )
    found = sorted(
        f"{_topic(client, topic.topic_id)}-{each.partition_index} {_code(each.error_code)}"
        for topic in answer.responses
        for each in topic.partitions
    )
    return f"{_code(answer.error_code)} {found}"


def _batch(acknowledged: Acknowledgement) -> dict[str, Any]:
    first, last, types = acknowledged
    return {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}


def _topic(client: ShareClient, topic_id: bytes) -> str:
    return "own" if topic_id == client.topic_id else "other"


def _code(code: int) -> str:
    return ErrorCode(code).name
