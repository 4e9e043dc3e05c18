"""Three brokers of one cluster, each of which Apache Kafka and pybroker run in turn on the same directory and port."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self, TypeAlias

from confluent_kafka.admin import AdminClient

from tests.integration.membership.kafka_nodes import QUIET, SECURED, KafkaController, OtherBroker
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, KafkaBroker, RunningBroker
from tests.support.eventually import eventually
from tests.support.history_members import sessions
from tests.support.ports import free_port

IDS = (1, 2, 3)
SESSION_MS = 10_000
#: The metadata.version of the cluster is that of this release.
FIRST_RELEASE = "4.2"
_SHARES = "share.coordinator.state.topic"
_REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    f"{_SHARES}.num.partitions": "3",
    f"{_SHARES}.replication.factor": "3",
    f"{_SHARES}.min.isr": "2",
    "broker.heartbeat.interval.ms": "300",
    "controlled.shutdown.enable": "true",
    "replica.lag.time.max.ms": "10000",
    **sessions(SESSION_MS),
}


class _Controller(KafkaController):
    """A controller that a release before the present one formatted."""

    _format_options = ("--release-version", FIRST_RELEASE, "--standalone")


class _Kafka(OtherBroker):
    """Apache Kafka as a broker alone."""

    def __init__(self, directory: Path, node_id: int, controller_port: int, port: int) -> None:
        self.node_id = node_id
        self._controller_port = controller_port
        KafkaBroker.__init__(self, directory, _REPLICATED, port=port)


class _Ours(MemberBroker):
    """pybroker as a member."""

    def __init__(self, directory: Path, node_id: int, controller_port: int, port: int) -> None:
        self.node_id = node_id
        super().__init__(directory, controller_port, {**SECURED, **_REPLICATED}, port=port)


_KINDS: Mapping[str, type[_Kafka | _Ours]] = {"kafka": _Kafka, "ours": _Ours}
Kind: TypeAlias = str


class ReplacedBrokers:
    """A controller of Apache Kafka and brokers 1, 2, 3, first of the kinds given."""

    def __init__(self, home: Path, kinds: Mapping[int, Kind]) -> None:
        self._home = home
        self._ports = {node_id: free_port() for node_id in IDS}
        self.controller = _Controller(home / "controller", {"broker.session.timeout.ms": "9000"})
        self.brokers: dict[int, RunningBroker] = {}
        for node_id, kind in kinds.items():
            self._start(node_id, kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.brokers.values(), self.controller):
            node.kill()

    @property
    def bootstrap(self) -> str:
        """Return the addresses for bootstrap.servers."""
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def replace(self, node_id: int, kind: Kind, *, killed: bool = False) -> None:
        """Stop or kill a broker, start the other kind on its directory, and wait until its replicas are in sync."""
        replaced = self.brokers[node_id]
        if killed:
            replaced.kill()
        else:
            assert replaced.stop() == (143 if replaced.kind == "kafka" else 0), replaced.output
        self._start(node_id, kind)
        self.wait_for_replicas()

    def _start(self, node_id: int, kind: Kind) -> None:
        place = self._home / str(node_id), node_id, self.controller.port, self._ports[node_id]
        self.brokers[node_id] = _KINDS[kind](*place)

    def wait_for_replicas(self) -> None:
        """Wait until each broker knows that all replicas of all partitions are in sync."""
        for broker in self.brokers.values():
            admin = AdminClient({**QUIET, "bootstrap.servers": broker.bootstrap})
            eventually(lambda admin=admin: _behind(admin), equal_to={}, timeout_s=120, interval_s=0.1)  # type: ignore[misc]

    def partitions(self) -> set[str]:
        """Return the directories of all partitions of topics."""
        return {each.name for each in self.brokers[1].log_dir.glob("*-*") if not each.name.startswith("__cluster")}

    def log(self, node_id: int, partition: str) -> bytes:
        """Return all batches of a replica, of all its segments."""
        segments = sorted((self.brokers[node_id].log_dir / partition).glob("*.log"))
        return b"".join(each.read_bytes() for each in segments)


def _behind(admin: AdminClient) -> dict[str, list[int]]:
    """Return the partitions with replicas that are not in sync, by topic."""
    topics = admin.list_topics(timeout=10).topics
    found = {
        name: sorted(index for index, each in topic.partitions.items() if sorted(each.isrs) != [*IDS])
        for name, topic in topics.items()
    }
    return {name: indexes for name, indexes in found.items() if indexes}
