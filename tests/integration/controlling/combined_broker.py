"""Broker and controller in one process, and a cluster of it and two members."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.integration.controlling.own_controller import QUIET, SESSION_MS, OwnCluster, SecondMember, ThirdMember
from tests.support.brokers import HOST, OurBroker
from tests.support.ports import free_port


class CombinedBroker(OurBroker):
    """pybroker with both roles, with the keys of Apache Kafka's server.properties. `port` is that for clients."""

    kind = "combined"
    _controller_port: int | None = None

    @property
    def controller_port(self) -> int:
        """The port of the controller listener."""
        if self._controller_port is None:
            self._controller_port = free_port()
        return self._controller_port

    def _own_properties(self) -> dict[str, str]:
        return {
            **super()._own_properties(),
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "broker.session.timeout.ms": str(SESSION_MS),
            "broker.heartbeat.interval.ms": "300",
        }


class CombinedCluster(OwnCluster):
    """Broker 1 is the controller, too. Brokers 2 and 3 are members."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        replication = {"replica.lag.time.max.ms": "2000", **(properties or {})}
        combined = self.controller = CombinedBroker(directory / "1", replication)
        self.members = {1: combined}
        try:
            for kind in (SecondMember, ThirdMember):
                self.members[kind.node_id] = kind(directory / str(kind.node_id), combined.controller_port, replication)
        except BaseException:
            self.close()
            raise
        self.admin = AdminClient({**QUIET, "bootstrap.servers": self.bootstrap})
