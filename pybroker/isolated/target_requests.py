"""Requests about the target topic of a restore: its state, and a producer id."""

from __future__ import annotations

from typing import Any

from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from pybroker.isolated.cluster import Retriable, check, kept_cluster
from pybroker.isolated.connection import Connection
from pybroker.isolated.serving import Exchange
from pybroker.isolated.topic_requests import ends
from pybroker.isolated.topic_writer import request_producer

#: Metadata with the cluster id and topic names; DescribeConfigs without synonyms.
_METADATA_VERSION, _DESCRIBE_CONFIGS_VERSION = 9, 1
_TOPIC_RESOURCE = 2
_SETTINGS = ("message.timestamp.type", "retention.ms", "cleanup.policy")


def describe(exchange: Exchange) -> dict[str, Any]:
    """Return the cluster id, each partition with its first and its end offset, and the configs that the user may see.

    Request: `properties`, and `topics` with one topic. Errors: UnknownPartition, BrokerFailed.
    """
    wanted = exchange.wanted
    [topic] = wanted["topics"]
    partitions = [[partition, earliest, latest] for _, partition, earliest, latest in ends(exchange)]
    with kept_cluster(wanted["properties"]) as cluster:
        cluster_id = cluster.at_any(lambda connection: _cluster_id(connection, topic))
        settings = cluster.at_any(lambda connection: _settings(connection, topic))
    return {"cluster": cluster_id, "partitions": partitions, "settings": settings}


def new_producer(exchange: Exchange) -> list[int]:
    """Return the id and epoch of an idempotent producer. Request: `properties`. Errors: BrokerFailed."""
    with kept_cluster(exchange.wanted["properties"]) as cluster:
        return list(cluster.at_any(request_producer))


def _cluster_id(connection: Connection, topic: str) -> str | None:
    answer, _ = connection.call(
        METADATA, _METADATA_VERSION, topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    found: str | None = answer.cluster_id
    return found


def _settings(connection: Connection, topic: str) -> dict[str, str | None]:
    """Return the topic's configs that matter to a restore; none if the user may not see them."""
    asked = DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(_SETTINGS)
    )
    answer, _ = connection.call(DESCRIBE_CONFIGS, _DESCRIBE_CONFIGS_VERSION, resources=[asked])
    result = answer.results[0]
    try:
        check(result.error_code, topic)
    except Retriable:
        raise
    except Exception:
        return {}
    return {each.name: each.value for each in result.configs}
