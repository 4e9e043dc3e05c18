"""Controllers whose voters the metadata log names, so that they can be changed while the cluster runs (KIP-853)."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from protocol.error_codes import ErrorCode
from protocol.messages.add_raft_voter import ADD_RAFT_VOTER, Listener
from protocol.messages.describe_quorum import DESCRIBE_QUORUM, RequestPartitionData, RequestTopicData
from protocol.messages.remove_raft_voter import REMOVE_RAFT_VOTER
from tests.fault.cluster.nodes import OF_CONTROLLERS, Cluster, brokers_of
from tests.support.brokers import HOST, KafkaBroker
from tests.support.cluster_keys import controller_keys
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.wire import WireClient

_PATIENCE_S = 120
_TIMEOUT_MS = 30_000
#: The answers while a former change is not complete, or a new controller has not caught up.
_PASSING = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER)


class ChangingController(KafkaBroker):
    """A controller of Apache Kafka: the first voter, or one that is no voter yet."""

    kind = "controller"

    def __init__(self, directory: Path, node_id: int, ports: dict[int, int], *, first: bool) -> None:
        self.node_id = node_id
        self._bootstrap = ",".join(f"{HOST}:{port}" for port in ports.values())
        role = "--standalone" if first else "--no-initial-controllers"
        self._format_options = (*KafkaBroker._format_options, role)
        super().__init__(directory, OF_CONTROLLERS, port=ports[node_id])

    @property
    def directory_id(self) -> bytes:
        """Return the id of its log directory, which is a part of a voter's identity."""
        lines = (self.log_dir / "meta.properties").read_text().splitlines()
        value = next(each.partition("=")[2] for each in lines if each.startswith("directory.id="))
        return urlsafe_b64decode(value.replace("\\", "") + "==")

    def _own_properties(self) -> dict[str, str]:
        return {
            **controller_keys(self.node_id, self.port),
            "controller.quorum.bootstrap.servers": self._bootstrap,
            "advertised.listeners": f"CONTROLLER://{HOST}:{self.port}",
        }


class ChangingCluster(Cluster):
    """A cluster whose brokers are asked to change its voters."""

    def voters(self, at: int) -> list[int]:
        """Return the voters that the leader of the quorum answers through a broker."""
        asked = [
            RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
        ]
        with WireClient(HOST, self.brokers[at].port) as client:
            answer = client.call(DESCRIBE_QUORUM, 2, topics=asked)
        partitions = answer.topics[0].partitions if answer.topics else []
        return sorted(each.replica_id for each in partitions[0].current_voters) if partitions else []

    def add_voter(self, node_id: int, at: int) -> None:
        """Make a controller a voter, through a broker."""
        added = self.controllers[node_id]
        assert isinstance(added, ChangingController)
        listener = Listener(name="CONTROLLER", host=HOST, port=added.port)
        voter = {"voter_id": node_id, "voter_directory_id": added.directory_id, "listeners": [listener]}

        def asked() -> ErrorCode:
            with WireClient(HOST, self.brokers[at].port) as client:
                answer = client.call(ADD_RAFT_VOTER, 1, voter, cluster_id=None, timeout_ms=_TIMEOUT_MS)
            return ErrorCode(answer.error_code)

        eventually(asked, until=_is_done(ErrorCode.DUPLICATE_VOTER), timeout_s=_PATIENCE_S, interval_s=0.5)
        self._wait_for_voters(at, lambda found: node_id in found)

    def remove_voter(self, node_id: int, at: int) -> None:
        """Let a controller vote no longer, through a broker."""
        removed = self.controllers[node_id]
        assert isinstance(removed, ChangingController)

        def asked() -> ErrorCode:
            with WireClient(HOST, self.brokers[at].port) as client:
                answer = client.call(
                    REMOVE_RAFT_VOTER, 0, cluster_id=None, voter_id=node_id, voter_directory_id=removed.directory_id
                )
            return ErrorCode(answer.error_code)

        eventually(asked, until=_is_done(ErrorCode.VOTER_NOT_FOUND), timeout_s=_PATIENCE_S, interval_s=0.5)
        self._wait_for_voters(at, lambda found: node_id not in found)

    def _wait_for_voters(self, at: int, until: Callable[[list[int]], bool]) -> None:
        eventually(lambda: self.voters(at), until=lambda found: bool(found) and until(found), timeout_s=_PATIENCE_S)


def _is_done(by_former_try: ErrorCode) -> Callable[[ErrorCode], bool]:
    """Return a check of answers: passing errors are retried, and another try may have succeeded meanwhile."""

    def check(code: ErrorCode) -> bool:
        assert code in (ErrorCode.NONE, by_former_try, *_PASSING), code.name
        return code not in _PASSING

    return check


@contextmanager
def changing_cluster(
    make_directory: Callable[[str], Path], controllers: tuple[int, ...], *, known: int, theirs: int, ours: int
) -> Iterator[ChangingCluster]:
    """Start controllers, of which the first is the only voter, and brokers.

    The brokers know the addresses of the first controllers, as many as `known`, and learn those of others.
    """
    ports = {node_id: free_port() for node_id in controllers}
    addresses = ",".join(f"{HOST}:{ports[each]}" for each in controllers[:known])
    with ExitStack() as stack:
        running: dict[int, KafkaBroker] = {}
        for each in controllers:
            started = ChangingController(make_directory("voter"), each, ports, first=each == controllers[0])
            running[each] = stack.enter_context(started)
        with brokers_of(
            make_directory, {"controller.quorum.bootstrap.servers": addresses}, theirs=theirs, ours=ours
        ) as (brokers, links):
            cluster = ChangingCluster(running, brokers, links)
            cluster.wait_for_brokers()
            yield cluster
