"""Ask the broker, without Spark, for topics and the ends of their partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, OffsetSpec

from pybroker.pipeline.spec import Kafka

_TIMEOUT_S = 10

# Properties with another name in librdkafka, which reads these files only in PEM format
_RENAMED = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
}
_SAME = ("security.protocol", "sasl.mechanism", "ssl.key.password", "ssl.endpoint.identification.algorithm")

_LOGIN = re.compile(r'(username|password)="([^"]*)"')

_NOT_FOR_US = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


class ClusterError(Exception):
    """The broker does not respond, or returns an error."""


def client_properties(kafka: Kafka) -> dict[str, str]:
    """Translate the Java client's properties of the specification into librdkafka's.

    Properties that only affect Spark's reads and writes are left out.
    """
    properties = {"bootstrap.servers": kafka.bootstrap}
    for name, value in kafka.options.items():
        if name in _SAME or name.startswith("socket."):
            properties[name] = value or "none"
        elif name in _RENAMED:
            properties[_RENAMED[name]] = value
        elif name == "sasl.jaas.config":
            properties |= {f"sasl.{word}": said for word, said in _LOGIN.findall(value)}
    return properties


class Cluster:
    """A client of the broker. All methods raise ClusterError."""

    def __init__(self, kafka: Kafka) -> None:
        self._where = kafka.bootstrap
        try:
            self._client = AdminClient({**client_properties(kafka), "log_level": 0})
        except KafkaException as error:
            raise self._failed(error) from error

    def partitions(self) -> dict[str, list[int]]:
        """Return all topics and their partitions."""
        return {name: sorted(topic.partitions) for name, topic in self._metadata().topics.items()}

    def settings(self, topic: str | None = None) -> Mapping[str, str | None]:
        """Return the settings of a topic or of a broker; empty when this client may not describe them."""
        if topic is None:
            resource = ConfigResource(ConfigResource.Type.BROKER, str(min(self._metadata().brokers)))
        else:
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        [answer] = self._client.describe_configs([resource], request_timeout=_TIMEOUT_S).values()
        try:
            return {name: entry.value for name, entry in answer.result().items()}
        except KafkaException as error:
            if error.args[0].code() in _NOT_FOR_US:
                return {}
            raise self._failed(error) from error

    def ends(self, partitions: Iterable[tuple[str, int]], *, committed: bool) -> Mapping[tuple[str, int], int]:
        """Return the end offsets of partitions.

        `committed`: return the last stable offset instead, which open transactions hold back.
        """
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        wanted = {TopicPartition(*one): OffsetSpec.latest() for one in partitions}  # type: ignore[no-untyped-call]
        if not wanted:
            return {}
        answers = self._client.list_offsets(wanted, isolation_level=level, request_timeout=_TIMEOUT_S)
        ends = {}
        for asked, answer in answers.items():
            try:
                ends[asked.topic, asked.partition] = answer.result().offset
            except KafkaException as error:
                raise self._failed(error) from error
        return ends

    def _metadata(self) -> ClusterMetadata:
        try:
            return self._client.list_topics(timeout=_TIMEOUT_S)
        except KafkaException as error:
            raise self._failed(error) from error

    def _failed(self, error: KafkaException) -> ClusterError:
        return ClusterError(f"the broker {self._where}: {error.args[0].str()}")
