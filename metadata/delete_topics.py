"""Decisions about deleting topics, by name or by id (KIP-516)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from metadata.decision import Admit, Decision, Refused, unlimited
from metadata.framing import new_record
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import RemoveTopicRecord

NO_ID = bytes(16)


class TopicReference(msgspec.Struct, frozen=True):
    """A topic by its name, or by its id with a name of None."""

    name: str | None
    topic_id: bytes = NO_ID


class DeletedTopic(msgspec.Struct, frozen=True):
    """The result for a topic. The id is set if it is known, and the name of a deleted topic, too."""

    name: str | None
    topic_id: bytes
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


def delete_topics(
    image: MetadataImage, references: Sequence[TopicReference], admit: Admit = unlimited
) -> Decision[DeletedTopic]:
    """Decide for each topic. A topic that is given twice, by name or by id, is rejected."""
    decision: Decision[DeletedTopic] = Decision()
    by_name, by_id = _sort_out(references, decision)
    going: dict[bytes, str] = {}
    for topic_id, times in by_id.items():
        if times > 1:
            decision.results.append(_invalid(None, topic_id, "Duplicate topic id."))
        elif (topic := image.topic_by_id(topic_id)) is None:
            message = "This server does not host this topic ID."
            decision.results.append(DeletedTopic(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, message))
        else:
            going[topic_id] = topic.name
    for name, times in by_name.items():
        if times > 1:
            decision.results.append(_invalid(name, NO_ID, "Duplicate topic name."))
        elif (topic := image.topic(name)) is None:
            message = "This server does not host this topic-partition."
            decision.results.append(DeletedTopic(name, NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
        elif topic.topic_id in by_id:
            going.pop(topic.topic_id, None)
            message = "The provided topic name maps to an ID that was already supplied."
            decision.results.append(_invalid(name, topic.topic_id, message))
        else:
            going[topic.topic_id] = name
    for topic_id, name in going.items():
        try:
            admit(len(image.topics_by_id[topic_id].partitions))
        except Refused as refusal:
            decision.results.append(DeletedTopic(name, topic_id, refusal.error_code, refusal.message))
            continue
        decision.records.append(new_record(image.metadata_version, RemoveTopicRecord, topic_id=topic_id))
        decision.results.append(DeletedTopic(name, topic_id))
    return decision


def _sort_out(
    references: Sequence[TopicReference], decision: Decision[DeletedTopic]
) -> tuple[Counter[str], Counter[bytes]]:
    """Count how often each name and each id was given. Items with neither or both are rejected here."""
    by_name: Counter[str] = Counter()
    by_id: Counter[bytes] = Counter()
    for reference in references:
        if reference.name is None and reference.topic_id == NO_ID:
            decision.results.append(_invalid(None, NO_ID, "Neither topic name nor id were specified."))
        elif reference.name is None:
            by_id[reference.topic_id] += 1
        elif reference.topic_id == NO_ID:
            by_name[reference.name] += 1
        else:
            message = "You may not specify both topic name and topic id."
            decision.results.append(_invalid(reference.name, reference.topic_id, message))
    return by_name, by_id


def _invalid(name: str | None, topic_id: bytes, message: str) -> DeletedTopic:
    return DeletedTopic(name, topic_id, ErrorCode.INVALID_REQUEST, message)
