"""Several brokers under one controller, each a process of its own, started and stopped by a test."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from pybroker.testing.cluster_nodes import ClusterBroker, ClusterNode, Controller
from pybroker.testing.errors import BrokerError
from pybroker.testing.leadership import elect_preferred, order_replicas
from pybroker.testing.network import Network
from pybroker.testing.node import NOTHING
from pybroker.testing.partitions import Partition

_HOST = "127.0.0.1"
_CONTROLLER_ID = 1000
_LISTENER = "CONTROLLER"
#: Keys that describe a broker's listeners, which a controller has not.
_OF_BROKERS = frozenset({"listeners", "advertised.listeners", "inter.broker.listener.name"})
_INTERVAL_S = 0.02

T = TypeVar("T")

#: A broker that ends without a word is noticed within two seconds, and so is a follower that does not follow.
_QUICK: Mapping[str, object] = {
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 200,
    "replica.lag.time.max.ms": 2_000,
    "pybroker.shutdown.timeout.ms": 10_000,
}


class Cluster:
    """A controller and brokers. `with` starts and stops it, or call `start` and `stop`.

    Args:
        brokers: how many. Their node ids begin with 0: `cluster.brokers[2]` has `node.id=2`.
        config: keys of server.properties for all nodes. They override defaults that suit tests.
        racks: `broker.rack` of each broker in turn; fewer racks than brokers are used again.
        directory: for the data and the logs of all nodes, which `stop` keeps. By default, a temporary directory that
            `stop` removes.
        start_timeout_s: how long a start may take, in seconds.
        combined: the first broker is the controller, too: `cluster.controller is cluster.brokers[0]`.

    Topics have up to three replicas, and need two in sync where there are three or more brokers.
    """

    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, object] = NOTHING,
        *,
        racks: Sequence[str] = (),
        directory: Path | str | None = None,
        start_timeout_s: float = 60,
        combined: bool = False,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        self._kept = directory is not None
        self._directory = Path(directory) if directory is not None else Path(tempfile.mkdtemp(prefix="pybroker-"))
        self._replication = min(3, brokers)
        self._start_timeout_s = start_timeout_s
        self._reserved = [_reserved_port() for _ in range(brokers + 1)]
        ports = [each.getsockname()[1] for each in self._reserved]
        shared = {**_QUICK, **_replicated(self._replication), **config}
        to_controller = {
            "controller.listener.names": _LISTENER,
            "controller.quorum.bootstrap.servers": f"{_HOST}:{ports[-1]}",
        }
        self._network = network = Network()
        listener = f"{_LISTENER}://{_HOST}:{ports[-1]}"
        controller = None
        if not combined:
            controller = Controller(
                {
                    **{key: value for key, value in shared.items() if key not in _OF_BROKERS},
                    **to_controller,
                    "process.roles": "controller",
                    "node.id": _CONTROLLER_ID,
                    "listeners": listener,
                },
                network,
                directory=self._directory / "controller",
                start_timeout_s=start_timeout_s,
            )

        def new_broker(number: int, controller: ClusterNode | None) -> ClusterBroker:
            config = {
                "listeners": f"PLAINTEXT://{_HOST}:{ports[number]}",
                **({"broker.rack": racks[number % len(racks)]} if racks else {}),
                **shared,
                **to_controller,
                "process.roles": "broker" if controller is not None else "broker,controller",
            }
            if controller is None:
                config["listeners"] = f"{config['listeners']},{listener}"
            return ClusterBroker(
                number,
                config,
                network,
                controller,
                directory=self._directory / f"broker-{number}",
                start_timeout_s=start_timeout_s,
            )

        first = new_broker(0, controller)
        self.controller: ClusterNode = controller or first
        self.brokers: tuple[ClusterBroker, ...] = (
            first,
            *(new_broker(number, self.controller) for number in range(1, brokers)),
        )
        network.nodes = self._nodes

    # ---- properties

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of all brokers for clients: of their first listeners."""
        return ",".join(each.bootstrap_servers for each in self.brokers)

    @property
    def directory(self) -> Path:
        """Return the directory of all nodes: `controller`, `broker-0`, and so on."""
        return self._directory

    @property
    def log(self) -> str:
        """Return what all nodes have logged, one after the other."""
        return "".join(f"--- {each.directory.name}\n{each.log}" for each in self._nodes)

    # ---- start and stop

    def start(self) -> Cluster:
        """Start all nodes that do not run, resume suspended ones, end all cuts of the network.

        Return once all brokers know each other.

        Raises BrokerError with the reason if a node does not start; all nodes are ended then.
        """
        try:
            self._network.reconnect()
            for node in self._nodes:
                if node.is_suspended:
                    node.resume()
            stopped = [each for each in self._nodes if not each.is_running]
            for node in stopped:
                node._spawn()
            for node in stopped:
                node._wait_until_ready()
            everyone = {each.node_id for each in self.brokers}
            self._wait(
                lambda: all(each.view().brokers == everyone for each in self.brokers),
                lambda: "the brokers do not know each other",
                self._start_timeout_s,
            )
        except BaseException:
            self._kill()
            raise
        return self

    def stop(self) -> None:
        """End all nodes. A chosen directory is kept, and its nodes shut down cleanly; a temporary one is removed."""
        if self._kept:
            with suppress(BrokerError):  # a node that does not respond is killed below
                self._network.reconnect()
            others = [each for each in self.brokers if each is not self.controller]
            for broker in others:  # before the controller, which moves their leadership
                broker._ask_to_end()
            for node in (*others, self.controller):
                node.stop()
        self._kill()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- network

    def cut_link(self, one: ClusterNode, other: ClusterNode, *, one_way: bool = False) -> None:
        """Cut the link between two nodes until `reconnect`; clients and all other nodes still reach both.

        Args:
            one_way: cut what `one` sends to `other`, and let pass what `other` sends.
        """
        self._network.cut_link(one, other, one_way=one_way)

    def reconnect(self) -> None:
        """Connect all nodes that were cut off, and all links."""
        self._network.reconnect()

    # ---- topics

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] = NOTHING, *, replicas: int | None = None
    ) -> None:
        """Create a topic, and return once all running brokers serve it and all of its replicas are in sync.

        Args:
            replicas: of each partition; 3 by default, or as many as there are brokers.

        The first listener must be PLAINTEXT, as for the methods below. Raises BrokerError.
        """
        self._any_broker()._create_topic(name, partitions, replicas or self._replication, config)
        self.wait_until_in_sync(name)

    def wait_until_in_sync(self, topic: str, timeout_s: float = 60) -> None:
        """Return once all replicas of all partitions are in sync, and all running brokers know it.

        Raises BrokerError with the partitions that lack replicas after `timeout_s` seconds.
        """

        def lacking() -> list[Partition]:
            partitions = self._any_broker().view(topic).partitions
            return [each for each in partitions if each.in_sync != set(each.replicas)]

        def is_in_sync() -> bool:
            views = [each.view(topic).partitions for each in self._responding()]
            return all(
                found and all(each.leader >= 0 and each.in_sync == set(each.replicas) for each in found)
                for found in views
            )

        self._wait(is_in_sync, lambda: f"topic {topic} is not in sync: {lacking()}", timeout_s)

    def leader_of(self, topic: str, partition: int = 0, timeout_s: float = 60) -> ClusterBroker:
        """Return the broker that leads a partition. After a failure of the leader, wait until another is elected.

        Raises BrokerError if no running broker leads it after `timeout_s` seconds, or the partition does not exist.
        """
        return self._wait(
            lambda: self._leader(topic, partition),
            lambda: f"no running broker leads {topic}-{partition}",
            timeout_s,
        )

    def move_leader(
        self, topic: str, partition: int = 0, to: ClusterBroker | None = None, timeout_s: float = 60
    ) -> ClusterBroker:
        """Let another replica in sync lead a partition, and return it once all running brokers know it.

        Args:
            to: the new leader; by default, the next replica in sync.

        The new leader becomes the preferred one. Raises BrokerError if it has no replica in sync.
        """
        address = self._any_broker()._address
        found = self._partition(topic, partition)
        if to is None:
            others = [each for each in found.replicas if each != found.leader and each in found.in_sync]
            if not others:
                raise BrokerError(f"{topic}-{partition} has no other replica in sync")
            to = self.brokers[others[0]]
        if to.node_id not in found.replicas:
            raise BrokerError(f"broker {to.node_id} has no replica of {topic}-{partition}: {list(found.replicas)} have")
        order = [to.node_id, *(each for each in found.replicas if each != to.node_id)]
        problem = order_replicas(address, topic, partition, order) or elect_preferred(address, topic, partition)
        if problem is not None:
            raise BrokerError(f"broker {to.node_id} does not lead {topic}-{partition}: {problem}")
        return self._wait(
            lambda: to if self._leader(topic, partition) is to else None,
            lambda: f"broker {to.node_id} does not lead {topic}-{partition}",
            timeout_s,
        )

    # ---- internals

    @property
    def _nodes(self) -> tuple[ClusterNode, ...]:
        return (self.controller, *(each for each in self.brokers if each is not self.controller))

    def _responding(self) -> list[ClusterBroker]:
        """Return the brokers that run and are not cut off: those that can know the state of the cluster."""
        return [each for each in self.brokers if each._is_current]

    def _any_broker(self) -> ClusterBroker:
        responding = self._responding()
        if not responding:
            raise BrokerError("no broker of the cluster is running")
        return responding[0]

    def _partition(self, topic: str, partition: int) -> Partition:
        for each in self._any_broker().view(topic).partitions:
            if each.index == partition:
                return each
        raise BrokerError(f"there is no {topic}-{partition}")

    def _leader(self, topic: str, partition: int) -> ClusterBroker | None:
        """Return the leader on which all running brokers agree, if it runs itself."""
        responding = self._responding()
        known = {
            next((each.leader for each in broker.view(topic).partitions if each.index == partition), -1)
            for broker in responding
        }
        return next((each for each in responding if known == {each.node_id}), None)

    def _wait(self, probe: Callable[[], T | None], lacking: Callable[[], str], timeout_s: float) -> T:
        """Return what `probe` returns once that is true. Raises BrokerError with what is lacking."""
        deadline = time.monotonic() + timeout_s
        while not (found := probe()):
            if time.monotonic() > deadline:
                raise BrokerError(f"{lacking()} after {timeout_s:g} s")
            time.sleep(_INTERVAL_S)
        return found

    def _kill(self) -> None:
        for node in self._nodes:
            node.kill()
        if not self._kept:
            shutil.rmtree(self._directory, ignore_errors=True)


def _replicated(replicas: int) -> Mapping[str, object]:
    """Return the replication of new topics and of internal ones."""
    in_sync = 2 if replicas > 2 else 1
    internal = ("transaction.state.log", "share.coordinator.state.topic")
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        **{f"{each}.replication.factor": replicas for each in internal},
        **{f"{each}.min.isr": in_sync for each in internal},
    }


def _reserved_port() -> socket.socket:
    """Return a socket with a free port of loopback. A node can listen on it, and no other program gets it meanwhile.

    Without the reservation, a broker that connects to a killed node may get that node's port as its own.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((_HOST, 0))
    return reserved
