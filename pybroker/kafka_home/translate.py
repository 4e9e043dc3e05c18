"""Translate command lines of Apache Kafka's console tools into command lines of pybroker.

Each translation returns the commands to run, or raises CannotTranslate. `--zookeeper` is dropped, so the command talks
to the broker on localhost:9092.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.kafka_home.acls import acls
from pybroker.kafka_home.common_options import (
    BadCommandLine,
    CannotTranslate,
    Command,
    connection_words,
    tool_parser,
)
from pybroker.kafka_home.configs import configs
from pybroker.kafka_home.consoles import console_consumer, console_producer
from pybroker.kafka_home.groups import consumer_groups, share_groups, streams_groups
from pybroker.kafka_home.perf_tools import consumer_perf_test, producer_perf_test
from pybroker.kafka_home.replicas import leader_election, metadata_quorum, reassign_partitions, replica_verification
from pybroker.kafka_home.topics import topics

#: Actions of kafka-cluster, and of `pybroker cluster`.
_CLUSTER = {
    "cluster-id": "id",
    "list-endpoints": "describe",
    "api-versions": "api-versions",
    "unregister": "unregister",
    "unregister-controller": "unregister-controller",
}


def _client_metrics(arguments: Sequence[str]) -> list[Command]:
    options, rest = tool_parser("kafka-client-metrics").parse_known_args(arguments)
    return [Command("client-metrics", [*rest, *connection_words(options)])]


def _cluster(arguments: Sequence[str]) -> list[Command]:
    parser = tool_parser("kafka-cluster")
    parser.add_argument("-b", dest="bootstrap")
    parser.add_argument("-C", dest="bootstrap_controller")
    parser.add_argument("-c", "--config", dest="config")  # the older name of --command-config
    parser.add_argument("-i", "--id", type=int)
    parser.add_argument("--include-fenced-brokers", action="store_true")
    options, rest = parser.parse_known_args(arguments)
    connection = connection_words(options)
    if len(rest) != 1 or rest[0] not in _CLUSTER:
        raise CannotTranslate(f"kafka-cluster supports {', '.join(_CLUSTER)}")
    (action,) = rest
    if action.startswith("unregister") != (options.id is not None):
        raise BadCommandLine(f"{action}: --id belongs to unregister and unregister-controller, which require it")
    words = [] if options.id is None else ["--id", str(options.id)]
    if options.include_fenced_brokers:
        if action != "list-endpoints":
            raise BadCommandLine(f"{action}: --include-fenced-brokers belongs to list-endpoints")
        words = ["--include-fenced-brokers"]
    return [Command("cluster", [_CLUSTER[action], *words, *connection])]


def _api_versions(arguments: Sequence[str]) -> list[Command]:
    options = tool_parser("kafka-broker-api-versions").parse_args(arguments)
    return [Command("cluster", ["api-versions", *connection_words(options)])]


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
    "kafka-leader-election": leader_election,
    "kafka-metadata-quorum": metadata_quorum,
    "kafka-producer-perf-test": producer_perf_test,
    "kafka-reassign-partitions": reassign_partitions,
    "kafka-replica-verification": replica_verification,
    "kafka-share-groups": share_groups,
    "kafka-streams-groups": streams_groups,
    "kafka-topics": topics,
}
"""The translation of each tool; all raise CannotTranslate."""
