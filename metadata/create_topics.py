"""Decisions about new topics (KIP-4; configurations in the response: KIP-525).

Error codes, and the order of the checks, are those of Apache Kafka's controller: name, existing topic, null values,
configurations, then counts or assignments. A request for more than 10,000 partitions is rejected as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import field

from metadata.configs import alter_config
from metadata.decision import MAX_PARTITIONS_PER_REQUEST, TOO_MANY_PARTITIONS, Admit, Decision, Refused, unlimited
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage, ResourceType
from metadata.replica_placement import check_manual, new_partition, place_replicas
from metadata.striped_placer import RandomBelow
from metadata.topic_names import CLUSTER_METADATA, collision_key, collision_problem, may_collide, name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import TopicRecord

USE_DEFAULT = -1

ConfigCheck = Callable[[Mapping[str, str]], str | None]
"""Returns why a topic's configuration is invalid, or None."""


class NewTopic(msgspec.Struct, frozen=True):
    """A requested topic. -1: use the default, or derive the number from the manual assignments."""

    name: str
    num_partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()  # (partition index, broker ids)
    configs: Mapping[str, str | None] = field(default_factory=dict)


class TopicDefaults(msgspec.Struct, frozen=True):
    """The defaults of a new topic: num.partitions and default.replication.factor."""

    num_partitions: int
    replication_factor: int


class NewTopicResult(msgspec.Struct, frozen=True):
    """A new topic, or why it was not created. With an error only the name and the message are valid."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topic_id: bytes = bytes(16)
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


def create_topics(
    image: MetadataImage,
    topics: Sequence[NewTopic],
    *,
    defaults: TopicDefaults,
    check_config: ConfigCheck,
    new_topic_id: Callable[[], bytes],
    random_below: RandomBelow,
    admit: Admit = unlimited,
) -> Decision[NewTopicResult]:
    """Decide for each topic. As in Kafka, a name that is given twice is rejected once, at the end."""
    if _total_partitions(topics, defaults) > MAX_PARTITIONS_PER_REQUEST:
        refusal = Refused(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
        return Decision(results=[_refused(topic.name, refusal) for topic in topics])
    decision: Decision[NewTopicResult] = Decision()
    late: list[NewTopicResult] = []
    times = Counter(topic.name for topic in topics)
    for topic in topics:
        name = topic.name
        if times[name] > 1:
            duplicate = _refused(name, Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            if duplicate not in late:
                late.append(duplicate)
        elif name == CLUSTER_METADATA:
            message = f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
            late.append(_refused(name, Refused(ErrorCode.INVALID_REQUEST, message)))
        else:
            try:
                records, result = _create_topic(image, topic, defaults, check_config, new_topic_id(), random_below)
                admit(result.num_partitions)
            except Refused as refusal:
                decision.results.append(_refused(name, refusal))
            else:
                decision.records.extend(records)
                decision.results.append(result)
    decision.results.extend(late)
    return decision


def _total_partitions(topics: Sequence[NewTopic], defaults: TopicDefaults) -> int:
    return sum(
        len(topic.assignments)
        or (defaults.num_partitions if topic.num_partitions == USE_DEFAULT else max(topic.num_partitions, 0))
        for topic in topics
    )


def _refused(name: str, refusal: Refused) -> NewTopicResult:
    return NewTopicResult(name, refusal.error_code, refusal.message)


def _create_topic(
    image: MetadataImage,
    topic: NewTopic,
    defaults: TopicDefaults,
    check_config: ConfigCheck,
    topic_id: bytes,
    random_below: RandomBelow,
) -> tuple[list[MetadataRecord], NewTopicResult]:
    _check_name(image, topic.name)
    configs = _check_configs(topic, check_config)
    partitions = _partitions(image, topic, topic_id, defaults, random_below)
    records = [
        new_record(image.metadata_version, TopicRecord, name=topic.name, topic_id=topic_id),
        *alter_config(image, ResourceType.TOPIC, topic.name, configs),
        *partitions,
    ]
    factor = len(partitions[0].value.replicas)
    return records, NewTopicResult(
        topic.name,
        topic_id=topic_id,
        num_partitions=len(partitions),
        replication_factor=factor,
        configs=configs,
    )


def _check_name(image: MetadataImage, name: str) -> None:
    if name in image.topics_by_name:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    problem = name_problem(name)
    if problem is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if may_collide(name) and (others := image.colliding_names.get(collision_key(name))):
        problem = collision_problem(name, others)
        assert problem is not None
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _check_configs(topic: NewTopic, check_config: ConfigCheck) -> dict[str, str]:
    nulls = [key for key, value in topic.configs.items() if value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise Refused(ErrorCode.INVALID_CONFIG, message)
    configs = {key: value for key, value in topic.configs.items() if value is not None}
    problem = check_config(configs)
    if problem is not None:
        raise Refused(ErrorCode.INVALID_CONFIG, problem)
    return configs


def _partitions(
    image: MetadataImage, topic: NewTopic, topic_id: bytes, defaults: TopicDefaults, random_below: RandomBelow
) -> list[MetadataRecord]:
    if topic.assignments:
        return _assigned_partitions(image, topic, topic_id)
    if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.num_partitions < USE_DEFAULT or topic.num_partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise Refused(ErrorCode.INVALID_PARTITIONS, message)
    count = defaults.num_partitions if topic.num_partitions == USE_DEFAULT else topic.num_partitions
    factor = defaults.replication_factor if topic.replication_factor == USE_DEFAULT else topic.replication_factor
    try:
        replicas = place_replicas(image, count, factor, random_below)
    except Refused as refused:
        message = f"Unable to replicate the partition {factor} time(s): {refused.message}"
        raise Refused(refused.error_code, message) from None
    return [new_partition(image, topic_id, index, each, manual=False) for index, each in enumerate(replicas)]


def _assigned_partitions(image: MetadataImage, topic: NewTopic, topic_id: bytes) -> list[MetadataRecord]:
    prefix = "A manual partition assignment was specified, but "
    if topic.replication_factor != USE_DEFAULT:
        raise Refused(ErrorCode.INVALID_REQUEST, prefix + "replication factor was not set to -1.")
    if topic.num_partitions != USE_DEFAULT:
        raise Refused(ErrorCode.INVALID_REQUEST, prefix + "numPartitions was not set to -1.")
    made: dict[int, MetadataRecord] = {}
    factor: int | None = None
    for index, replicas in topic.assignments:
        if index in made:
            message = f"Found multiple manual partition assignments for partition {index}"
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        check_manual(image, replicas, factor)
        factor = len(replicas)
        made[index] = new_partition(image, topic_id, index, replicas, manual=True)
    if sorted(made) != list(range(len(made))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [made[index] for index in sorted(made)]
