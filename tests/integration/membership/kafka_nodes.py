"""Apache Kafka's nodes around a member: a controller alone, and a broker alone; and both kinds of brokers together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, KafkaBroker
from tests.support.cluster_keys import controller_keys
from tests.support.ports import free_port

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: The controller listener needs a login, and all nodes have an authorizer.
SECURED = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} username="node" password="n" user_node="n";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:ANONYMOUS",
}
#: For clients of librdkafka: otherwise they write to the output of later tests that their brokers are gone.
QUIET = {"log_level": 0}
#: The controller forgets a broker without heartbeats after this time.
SESSION_MS = 3000


class KafkaController(KafkaBroker):
    """Apache Kafka as a controller alone. Its port is that of the controller listener."""

    kind = "controller"
    node_id = 100
    _format_options = (*KafkaBroker._format_options, "--standalone")

    def _own_properties(self) -> dict[str, str]:
        return {
            **controller_keys(self.node_id, self.port),
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.port}",
            "broker.session.timeout.ms": str(SESSION_MS),
            **SECURED,
        }


def voters_of(ports: Mapping[int, int]) -> str:
    """Return the value of controller.quorum.voters, from the ports of the voters by their ids."""
    return ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in ports.items())


class Voter(KafkaBroker):
    """A controller of Apache Kafka, one of the voters that the configuration names (kraft.version 0)."""

    kind = "controller"
    _format_options = ()

    def __init__(
        self, directory: Path, node_id: int, voters: Mapping[int, int], properties: Mapping[str, str] | None = None
    ) -> None:
        self.node_id = node_id
        self._voters = voters_of(voters)
        super().__init__(directory, properties, port=voters[node_id])

    def _own_properties(self) -> dict[str, str]:
        return {**controller_keys(self.node_id, self.port), "controller.quorum.voters": self._voters}


class OtherBroker(KafkaBroker):
    """Apache Kafka as a broker alone."""

    node_id = 2

    def __init__(
        self,
        directory: Path,
        controller_port: int,
        properties: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
    ) -> None:
        self._controller_port = controller_port
        super().__init__(directory, {"broker.heartbeat.interval.ms": "300", **(properties or {})}, port=port)

    def _own_properties(self) -> dict[str, str]:
        return {
            "node.id": str(self.node_id),
            "process.roles": "broker",
            "controller.quorum.bootstrap.servers": f"{HOST}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            **SECURED,
        }


class Pair(NamedTuple):
    """A cluster of one controller, a member and a broker of Apache Kafka."""

    controller: KafkaController
    member: MemberBroker
    other: OtherBroker

    @property
    def bootstrap(self) -> str:
        return f"{self.member.bootstrap},{self.other.bootstrap}"


@contextmanager
def brokers_of_both_kinds(
    make_directory: Callable[[str], Path],
    properties: Mapping[str, str],
    of_other: Mapping[str, str] | None = None,
) -> Iterator[Pair]:
    """Start the cluster. `properties` are those of the member, `of_other` those of the broker of Apache Kafka."""
    port = free_port()
    of_member = {**SECURED, "listeners": f"PLAINTEXT://{HOST}:{port}", **properties}
    with (
        KafkaController(make_directory("controller")) as controller,
        MemberBroker(make_directory("member"), controller.port, of_member, port=port) as member,
        OtherBroker(make_directory("other"), controller.port, of_other) as other,
    ):
        yield Pair(controller, member, other)
