"""Topics that the broker creates automatically: the coordinators' own, and missing ones that clients use."""

from __future__ import annotations

from config import BrokerConfig
from metadata.create_topics import NewTopic
from metadata.topic_names import CONSUMER_OFFSETS, REMOTE_LOG_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE


def creatable_topic(config: BrokerConfig, name: str, brokers: int) -> NewTopic:
    """Return the topic as Kafka would create it: internal topics by their own keys, others by the defaults.

    `brokers`: the number of brokers, which limits replication factors that are not set.
    """
    if name == CONSUMER_OFFSETS:
        return NewTopic(
            name,
            config.get_int("offsets.topic.num.partitions"),
            config.internal_topic_value("offsets.topic.replication.factor", brokers),
            configs={
                "compression.type": "producer",
                "cleanup.policy": "compact",
                "segment.bytes": str(config.get_int("offsets.topic.segment.bytes")),
            },
        )
    if name == TRANSACTION_STATE:
        return NewTopic(
            name,
            config.get_int("transaction.state.log.num.partitions"),
            config.internal_topic_value("transaction.state.log.replication.factor", brokers),
            configs={
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.internal_topic_value("transaction.state.log.min.isr", brokers)),
                "segment.bytes": str(config.get_int("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_GROUP_STATE:
        return NewTopic(
            name,
            config.get_int("share.coordinator.state.topic.num.partitions"),
            config.internal_topic_value("share.coordinator.state.topic.replication.factor", brokers),
            configs={
                "compression.type": "producer",
                "cleanup.policy": "delete",
                "min.insync.replicas": str(
                    config.internal_topic_value("share.coordinator.state.topic.min.isr", brokers)
                ),
                "segment.bytes": str(config.get_int("share.coordinator.state.topic.segment.bytes")),
                "retention.ms": "-1",
            },
        )
    if name == REMOTE_LOG_METADATA and config.get_bool("remote.log.storage.system.enable"):
        return _remote_log_metadata(config, brokers)
    return NewTopic(name)


def _remote_log_metadata(config: BrokerConfig, brokers: int) -> NewTopic:
    """Return the topic that Kafka's TopicBasedRemoteLogMetadataManager creates, by the keys of that class."""
    from config.tiering import metadata_topic  # most brokers have no remote storage

    topic = metadata_topic(config, brokers)
    return NewTopic(
        REMOTE_LOG_METADATA,
        topic.partitions,
        topic.replication_factor,
        configs={
            "cleanup.policy": "delete",
            "retention.ms": str(topic.retention_ms),
            "remote.storage.enable": "false",
            "min.insync.replicas": str(topic.min_isr),
        },
    )
