"""Apache Kafka and pybroker in turn in one directory, with the same server.properties.

`contents` returns all that clients see of a broker: the other one must show the same.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from protocol.messages.describe_configs import DESCRIBE_CONFIGS
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.metadata import METADATA
from protocol.messages.offset_fetch import OFFSET_FETCH
from tests.support.batch_values import BatchValue, comparable_batches
from tests.support.brokers import HOST, KafkaBroker, RunningBroker
from tests.support.data_client import DataClient
from tests.support.java import QUICK, java_command, kafka_classpath
from tests.support.settled import settled

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
#: A complaint, and the exception of the line below it.
_LOG_LINE = re.compile(r"^\S+ .* (WARN|ERROR|FATAL) (.*(?:\n\S+Exception: .*)?)$", re.MULTILINE)


class KafkaOnFormatted(KafkaBroker):
    """Apache Kafka that also prints warnings. Its directory is formatted beforehand."""

    def _own_properties(self) -> dict[str, str]:
        return {}

    def _command(self, config: Path) -> list[str]:
        options = (*QUICK, "-Xmx512m", "-Dlog4j2.level=WARN")
        return java_command("kafka.Kafka", [str(config)], self._classpaths(), options=options)

    def _classpaths(self) -> list[Path]:
        return [kafka_classpath()]


class OursOnFormatted(KafkaOnFormatted):
    kind = "ours"
    start_timeout_s = 60

    def _command(self, config: Path) -> list[str]:
        return [sys.executable, "-m", "pybroker", str(config)]


class OneDirectory:
    """`start(kind)` starts a broker of that kind, a class in `kinds`; only one runs at a time.

    `standalone`: the log names the voters, the configuration does not. `formatted`: Apache Kafka's tool formats the
    directory, with the voters in the log (kraft.version 1) or in the configuration; otherwise the first broker that
    starts formats it: ours.
    """

    kinds: Mapping[str, type[RunningBroker]] = {"kafka": KafkaOnFormatted, "ours": OursOnFormatted}

    def __init__(
        self,
        directory: Path,
        port: int,
        quorum_port: int,
        *,
        standalone: bool,
        formatted: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.log_dir = directory / "logs"
        self._port = port
        quorum = f"{HOST}:{quorum_port}"
        voters = {"controller.quorum.bootstrap.servers": quorum} if standalone else {}
        self._properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            **(voters or {"controller.quorum.voters": f"1@{quorum}"}),
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{quorum}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.num.partitions": "2",
            "log.cleaner.backoff.ms": "100",
            "log.initial.task.delay.ms": "4000",  # earlier, Kafka fails on logs that are still being opened
            "log.flush.start.offset.checkpoint.interval.ms": "100",
            "producer.id.expiration.ms": str(2**31 - 1),
            "metadata.log.max.record.bytes.between.snapshots": "3000",
            "metadata.max.retention.bytes": "20000",
            "internal.metadata.log.segment.bytes": "4096",
            **(properties or {}),
        }
        directory.mkdir(parents=True)
        if formatted:
            self._format(["--standalone"] if standalone else [])
        self.running: RunningBroker | None = None

    def _format(self, arguments: Sequence[str]) -> None:
        config = self.directory / "format.properties"
        properties = {**self._properties, "log.dirs": str(self.log_dir)}
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        tool = ["format", "--cluster-id", CLUSTER_ID, "--config", str(config), *arguments]
        command = java_command("kafka.tools.StorageTool", tool, [kafka_classpath()], options=QUICK)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, kind: str) -> RunningBroker:
        """Start a broker on the data of the previous one."""
        before = self._config_text()
        broker_class = self.kinds[kind]
        (self.directory / "output.txt").write_text("")
        self.running = broker_class(self.directory, self._properties, port=self._port)
        assert before in (None, self._config_text()), "another server.properties"
        return self.running

    def _config_text(self) -> str | None:
        path = self.directory / "server.properties"
        return path.read_text() if path.exists() else None

    def end(self, *, killed: bool) -> None:
        """Stop the broker cleanly, or kill it."""
        assert self.running is not None
        if killed:
            self.running.kill()
        else:
            assert self.running.stop() in (0, 143)

    def complaints(self) -> list[str]:
        """Return the warnings of the current or last broker, without those that differ each time."""
        assert self.running is not None
        found = (match[2] for match in _LOG_LINE.finditer(self.running.output))
        found = (line for line in found if not line.startswith("broker.observability.loop_watch"))  # a busy machine
        return [re.sub(r"[\w-]{22}|\d+", "#", line) for line in found]


def properties_of(path: Path) -> Mapping[str, str]:
    """Return the values of a properties file."""
    lines = (line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {key: value for key, _, value in lines}


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
        wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        [found] = self._client.call(DESCRIBE_CONFIGS, 4, resources=[wanted]).results
        assert found.error_code == ErrorCode.NONE, found
        return {each.name: each.value for each in found.configs if each.config_source in _SET_BY_CLIENTS}

    def _offsets(self, group: str) -> dict[tuple[str, int], int]:
        wanted = {"group_id": group, "topics": None}
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
                at = batches[-1].next_offset if batches else offset
                answer = self._client.fetch(topic, at, index, isolation_level=int(committed))
                some = comparable_batches(bytes(answer.records))
                if not some:
                    break
                batches += some
                aborted |= {(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()}
            found["stable"] = answer.last_stable_offset
            found["committed" if committed else "all"] = (batches, aborted)
        return found
