"""All that clients see of a broker, as plain values: another broker that takes over must show the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.metadata import METADATA
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestGroup
from tests.support.batch_values import BatchValue, comparable_batches
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.settled import settled

TOPIC, BROKER, GROUP = 2, 4, 32
_SET_BY_CLIENTS = (1, 2, 3, 8)  # of a topic, of a broker, of all brokers, of a group

Contents = dict[str, Any]


def contents(broker: RunningBroker, groups: Iterable[str] = ()) -> Contents:
    """Return cluster, features, topics with ids and configuration, all records, and offsets of `groups`."""

    def read() -> Contents:
        with DataClient(HOST, broker.port) as client:
            return _Reader(client, broker).all(groups)

    return settled(broker, read)


class _Reader:
    def __init__(self, client: DataClient, broker: RunningBroker) -> None:
        self._client = client
        self._broker = broker

    def all(self, groups: Iterable[str]) -> Contents:
        client = self._client
        features = client.call(API_VERSIONS, 3, client_software_name="t", client_software_version="1")
        metadata = client.call(METADATA, 12, topics=None)
        found: Contents = {
            "cluster": client.call(DESCRIBE_CLUSTER, 1, endpoint_type=1).cluster_id,
            "features": sorted((each.name, each.max_version_level) for each in features.finalized_features),
            "brokers": [self._configs(BROKER, name) for name in ("", "1")],
            "groups": sorted((each.group_id, each.group_type) for each in client.call(LIST_GROUPS, 5).groups),
            "offsets": {group: self._offsets(group) for group in groups},
        }
        for topic in metadata.topics:
            assert topic.error_code == ErrorCode.NONE, topic
            assert [each.error_code for each in topic.partitions] == [0] * len(topic.partitions)
            found[topic.name] = {
                "id": topic.topic_id,
                "configs": self._configs(TOPIC, topic.name),
                "internal": topic.is_internal,
                "partitions": {
                    each.partition_index: self._partition(topic.name, each.partition_index) for each in topic.partitions
                },
            }
        return found

    def _configs(self, kind: int, name: str) -> dict[str, str]:
        wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        [found] = self._client.call(DESCRIBE_CONFIGS, 4, resources=[wanted]).results
        assert found.error_code == ErrorCode.NONE, found
        return {each.name: each.value for each in found.configs if each.config_source in _SET_BY_CLIENTS}

    def _offsets(self, group: str) -> dict[tuple[str, int], int]:
        wanted = OffsetFetchRequestGroup(group_id=group, topics=None)
        [found] = self._client.call(OFFSET_FETCH, 8, groups=[wanted], require_stable=False).groups
        assert found.error_code == ErrorCode.NONE, found
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in found.topics
            for each in topic.partitions
        }

    def _partition(self, topic: str, index: int) -> Contents:
        offset, end = self._client.bounds(topic, index)
        found: Contents = {"bounds": (offset, end)}
        for committed in (False, True):
            batches: list[BatchValue] = []
            aborted: set[tuple[int, int]] = set()
            while True:
                answer = self._fetch(topic, index, batches[-1].next_offset if batches else offset, committed)
                some = comparable_batches(bytes(answer.records))
                if not some:
                    break
                batches += some
                aborted |= {(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()}
            found["stable"] = answer.last_stable_offset
            found["committed" if committed else "all"] = (batches, aborted)
        return found

    def _fetch(self, topic: str, index: int, offset: int, committed: bool) -> Any:
        wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=topic, partitions=[wanted])]
        fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "isolation_level": int(committed)}
        [answer] = self._client.call(FETCH, 12, topics=topics, **fields).responses[0].partitions
        assert answer.error_code == ErrorCode.NONE, answer
        return answer
