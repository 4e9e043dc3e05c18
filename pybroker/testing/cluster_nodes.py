"""The nodes of a cluster: the controller and the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pybroker.testing.broker import Broker
from pybroker.testing.errors import BrokerError
from pybroker.testing.network import Network
from pybroker.testing.node import NOTHING, Node
from pybroker.testing.partitions import View, view


class ClusterNode(Node):
    """A node that other nodes talk to. A test can cut it off from them, as a network that loses packets does.

    Requests and responses wait, and arrive after `reconnect`. No connection is seen to end, and no new one answers.
    """

    _network: Network

    @property
    def is_cut_off(self) -> bool:
        """Return whether `cut_off` cut it off."""
        return self._network.is_cut_off(self)

    def cut_off(self, *, clients: bool = True) -> None:
        """Cut it off from all other nodes, and from clients, until `reconnect`.

        Args:
            clients: False cuts it off from other nodes only, so that clients still reach it.
        """
        self._network.cut_off(self, clients=clients)

    def reconnect(self) -> None:
        """Connect it again, also where `Cluster.cut_link` cut its links."""
        self._network.reconnect(self)

    def resume(self) -> None:
        """Let a suspended process go on (SIGCONT)."""
        super().resume()
        self._network.update()

    def _spawn(self) -> None:
        super()._spawn()
        self._network.begin(self)


class Controller(ClusterNode):
    """The controller of a cluster, which elects leaders. Brokers serve and replicate while it is down."""

    _noun = "controller"

    def __init__(
        self, config: Mapping[str, object], network: Network, *, directory: Path, start_timeout_s: float = 60
    ) -> None:
        super().__init__(config, directory, start_timeout_s)
        self._network = network


class ClusterBroker(ClusterNode, Broker):
    """A broker of a cluster. `stop` and `kill` keep its data, for the next `start` on the same port.

    Attributes:
        node_id: its `node.id`, and its index in `Cluster.brokers`.
        rack: its `broker.rack`; None without one.

    Without `controller` it is the controller, too.
    """

    def __init__(
        self,
        node_id: int,
        config: Mapping[str, object],
        network: Network,
        controller: ClusterNode | None,
        *,
        directory: Path,
        start_timeout_s: float = 60,
    ) -> None:
        Broker.__init__(self, {**config, "node.id": node_id}, directory=directory, start_timeout_s=start_timeout_s)
        self.node_id = node_id
        self.rack = self._config.get("broker.rack")
        self._network = network
        self._controller = controller or self

    def restart(self) -> None:
        """Shut it down cleanly, and start it again with the same data and ports."""
        self._check_network()
        super().restart()

    def fork(self, config: Mapping[str, object] = NOTHING) -> Broker:
        """Raise BrokerError: a copy would be another broker with the same id."""
        raise BrokerError("a broker of a cluster cannot be forked")

    def view(self, topic: str | None = None) -> View:
        """Return what this broker knows of the cluster and of a topic. Raises BrokerError if it does not respond."""
        self._running()
        try:
            return view(self._address, topic)
        except OSError as error:
            raise BrokerError(f"broker {self.node_id} does not respond: {error}") from None

    # ---- internals

    @property
    def _is_current(self) -> bool:
        """Return whether it runs, and knows what running brokers can know."""
        is_linked = self._network.are_linked(self, self._controller)
        follows = is_linked or (self._controller.is_cut_off and not self.is_cut_off)
        return self.is_running and not self.is_suspended and follows

    def _check_network(self) -> None:
        if not self._network.are_linked(self, self._controller):
            raise BrokerError(f"broker {self.node_id} cannot start: it is cut off from the controller")

    def _spawn(self) -> None:
        self._check_network()
        super()._spawn()
