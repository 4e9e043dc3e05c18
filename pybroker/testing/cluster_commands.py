"""The commands of a cluster for programs in other languages (`pybroker serve --brokers N --control`).

    {"id": 1, "command": "kill", "arguments": {"node": 2}}                     the broker with node.id=2
    {"id": 2, "command": "suspend", "arguments": {"node": "controller"}}
    {"id": 3, "command": "fail_next", "arguments": {"node": 0, "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}}

Commands that are not of a cluster go to the node, with the other arguments (broker/control/).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pybroker.testing.errors import BrokerError

if TYPE_CHECKING:
    from pybroker.testing.cluster import Cluster
    from pybroker.testing.cluster_nodes import ClusterBroker, ClusterNode

_CONTROLLER = "controller"


class ClusterCommands:
    """Each public method is a command, with the method's arguments, but for `answer`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def answer(self, line: bytes) -> dict[str, object]:
        """Carry out a command, a line of JSON. Return its answer, with the reason if it is refused."""
        number: object = None
        try:
            asked = json.loads(line)
            if not isinstance(asked, Mapping):
                raise BrokerError('a line is an object such as {"id": 1, "command": "kill", "arguments": {"node": 2}}')
            number = asked.get("id")
            return {"id": number, "result": self._carry_out(asked.get("command"), asked.get("arguments", {}))}
        except BrokerError as error:
            return {"id": number, "error": str(error)}
        except ValueError as error:
            return {"id": number, "error": f"not JSON: {error}"}

    def _carry_out(self, command: object, arguments: object) -> object:
        if not isinstance(command, str) or not isinstance(arguments, Mapping):
            raise BrokerError(f"a command has a name and an object of arguments, not {command!r} and {arguments!r}")
        method = None if command.startswith("_") or command == "answer" else getattr(self, command, None)
        if method is None:
            return self._at_node(command, dict(arguments))
        try:
            bound = inspect.signature(method).bind(**arguments)
        except TypeError as error:
            raise BrokerError(f"{command}: {error}") from None
        try:
            return method(*bound.args, **bound.kwargs)
        except (TypeError, AttributeError, OSError) as error:  # an argument of a wrong type, or a lost connection
            raise BrokerError(f"{command}: {error}") from None

    def _at_node(self, command: str, arguments: dict[str, Any]) -> object:
        if "node" not in arguments:
            own = [name for name in vars(type(self)) if not name.startswith("_") and name != "answer"]
            raise BrokerError(
                f"{command} is no command of a cluster ({', '.join(own)}); those of a node have the argument node"
            )
        return self._node(arguments.pop("node"))._ask(command, **arguments)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def kill(self, node: object) -> None:
        """Kill a node, as a crash would."""
        self._node(node).kill()

    def stop(self, node: object) -> None:
        """Shut a node down cleanly, and keep its data."""
        self._node(node).pause()

    def start(self, node: object) -> None:
        """Start a node again, with its data, on the same port."""
        self._node(node).start()

    def restart(self, node: object) -> None:
        """Stop a node, and start it again."""
        self._node(node).restart()

    def suspend(self, node: object) -> None:
        """Stop the process of a node until `resume`: connections stay open, and nothing responds."""
        self._node(node).suspend()

    def resume(self, node: object) -> None:
        """Let a suspended node go on."""
        self._node(node).resume()

    # -- network -------------------------------------------------------------------------------------------------------

    def cut_off(self, node: object, clients: bool = True) -> None:
        """Cut a node off from all others, and from clients, until `reconnect`."""
        self._node(node).cut_off(clients=clients)

    def cut_link(self, one: object, other: object, one_way: bool = False) -> None:
        """Cut the link between two nodes, or only what the first sends to the second."""
        self._cluster.cut_link(self._node(one), self._node(other), one_way=one_way)

    def reconnect(self, node: object = None) -> None:
        """Connect a node again, and its links; without `node` all of them."""
        (self._cluster if node is None else self._node(node)).reconnect()

    # -- topics --------------------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None, replicas: int | None = None
    ) -> None:
        """Create a topic, and answer once all of its replicas are in sync."""
        self._cluster.create_topic(name, partitions, config or {}, replicas=replicas)

    def wait_until_in_sync(self, topic: str, timeout_s: float = 60) -> None:
        """Answer once all replicas of a topic are in sync."""
        self._cluster.wait_until_in_sync(topic, timeout_s)

    def leader_of(self, topic: str, partition: int = 0, timeout_s: float = 60) -> int:
        """Return the broker that leads a partition."""
        return self._cluster.leader_of(topic, partition, timeout_s).node_id

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None, timeout_s: float = 60) -> int:
        """Let another replica lead a partition, and return its broker."""
        wanted = None if to is None else self._broker(to)
        return self._cluster.move_leader(topic, partition, wanted, timeout_s).node_id

    # -- internals -----------------------------------------------------------------------------------------------------

    def _node(self, node: object) -> ClusterNode:
        return self._cluster.controller if node == _CONTROLLER else self._broker(node)

    def _broker(self, node: object) -> ClusterBroker:
        for broker in self._cluster.brokers:
            if broker.node_id == node and not isinstance(node, bool):
                return broker
        last = len(self._cluster.brokers) - 1
        raise BrokerError(f'there is no node {node!r}: brokers are 0 to {last}, or "controller"')
