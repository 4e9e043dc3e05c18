"""Translate command lines of Apache Kafka's console tools into command lines of pybroker.

Each translation returns the commands to run, or raises CannotTranslate. `--zookeeper` is dropped, so the command talks
to the broker on localhost:9092.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.kafka_home.acls import acls
from pybroker.kafka_home.common_options import CannotTranslate, Command, connection_words, tool_parser
from pybroker.kafka_home.configs import configs
from pybroker.kafka_home.consoles import console_consumer, console_producer
from pybroker.kafka_home.perf_tools import consumer_perf_test, producer_perf_test
from pybroker.kafka_home.topics import consumer_groups, topics


def _client_metrics(arguments: Sequence[str]) -> list[Command]:
    options, rest = tool_parser("kafka-client-metrics").parse_known_args(arguments)
    return [Command("client-metrics", [*rest, *connection_words(options)])]


def _cluster(arguments: Sequence[str]) -> list[Command]:
    parser = tool_parser("kafka-cluster")
    parser.add_argument("-b", dest="bootstrap")
    parser.add_argument("-c", "--config", dest="config")
    options, rest = parser.parse_known_args(arguments)
    if rest not in (["cluster-id"], ["list-endpoints"]):
        raise CannotTranslate("kafka-cluster supports cluster-id and list-endpoints")
    return [Command("cluster", ["id" if rest == ["cluster-id"] else "describe", *connection_words(options)])]


def _api_versions(arguments: Sequence[str]) -> list[Command]:
    options = tool_parser("kafka-broker-api-versions").parse_args(arguments)
    return [Command("cluster", ["describe", *connection_words(options)])]


TRANSLATIONS: dict[str, Callable[[Sequence[str]], list[Command]]] = {
    "kafka-acls": acls,
    "kafka-broker-api-versions": _api_versions,
    "kafka-client-metrics": _client_metrics,
    "kafka-cluster": _cluster,
    "kafka-configs": configs,
    "kafka-console-consumer": console_consumer,
    "kafka-console-producer": console_producer,
    "kafka-consumer-groups": consumer_groups,
    "kafka-consumer-perf-test": consumer_perf_test,
    "kafka-producer-perf-test": producer_perf_test,
    "kafka-topics": topics,
}
"""The translation of each tool; all raise CannotTranslate."""
