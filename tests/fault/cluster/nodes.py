"""A cluster: controllers of Apache Kafka or pybroker's own, and brokers of both kinds, behind links that can be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS
from protocol.messages.metadata import METADATA
from protocol.schema import Struct
from tests.fault.cluster.links import Links
from tests.fault.cluster.small_disks import small_disk
from tests.integration.membership.kafka_nodes import SESSION_MS, Voter, voters_of
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.cluster_keys import controller_keys
from tests.support.eventually import eventually
from tests.support.history_members import sessions
from tests.support.wire import Closed, WireClient

_FIRST_CONTROLLER = 101
_PATIENCE_S = 120
_OF_BROKERS = {
    **sessions(30_000),
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "controlled.shutdown.enable": "true",
    "log.cleaner.enable": "false",  # the replicas of all topics are compared
}


OF_CONTROLLERS = {
    "min.insync.replicas": "2",  # a controller counts eligible replicas by its own value
    "broker.session.timeout.ms": str(SESSION_MS),
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
}


class _Behind:
    """The properties of a broker whose clients and peers reach it through its links.

    `quorum` names the controllers.
    """

    def __init__(self, node_id: int, quorum: Mapping[str, str], links: Links) -> None:
        self.values = {
            **_OF_BROKERS,
            "node.id": str(node_id),
            "process.roles": "broker",
            **quorum,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{links.target}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{links.port}",
        }


class Theirs(KafkaBroker):
    """A broker of Apache Kafka."""

    _format_options = ()

    def __init__(self, directory: Path, node_id: int, quorum: Mapping[str, str], links: Links) -> None:
        self.node_id = node_id
        super().__init__(directory, _Behind(node_id, quorum, links).values, port=links.target)

    def _own_properties(self) -> dict[str, str]:
        return {}


class Ours(MemberBroker):
    """A member. One of its log directories is on a small disk; with an even id it is the only one."""

    def __init__(self, directory: Path, node_id: int, quorum: Mapping[str, str], links: Links) -> None:
        self.node_id = node_id
        self.disk = small_disk(directory / "small")
        values = _Behind(node_id, quorum, links).values
        if self.disk is not None:
            small = str(directory / "small")
            values["log.dirs"] = small if self.has_one_directory else f"{directory}/logs,{small}"
        super().__init__(directory, 0, values, port=links.target)

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if self.disk is not None:
            self.disk.remove()

    @property
    def has_one_directory(self) -> bool:
        """Whether it has no other directory than that on the small disk."""
        return self.node_id % 2 == 0

    def lacks_directories(self) -> bool:
        """Return whether one of its directories is offline."""
        with WireClient(HOST, self.port) as client:
            answer = client.call(DESCRIBE_LOG_DIRS, 4, topics=None)
        return any(each.error_code for each in answer.results)

    def _own_properties(self) -> dict[str, str]:
        return {}

    def _command(self, config: Path) -> list[str]:
        return [*(self.disk.entrance if self.disk else ()), *super()._command(config)]


class OurController(OurBroker):
    """pybroker as the only controller. Brokers reach it through its links."""

    kind = "controller"
    node_id = _FIRST_CONTROLLER

    def __init__(self, directory: Path, links: Links) -> None:
        self._links = links
        super().__init__(directory, OF_CONTROLLERS, port=links.target)

    def _own_properties(self) -> dict[str, str]:
        return {
            **controller_keys(self.node_id, self.port),
            "advertised.listeners": f"CONTROLLER://{HOST}:{self._links.port}",
            "pybroker.cluster.id": CLUSTER_ID,
        }


@dataclass
class Cluster:
    """Running nodes by their ids, and the links in front of each."""

    controllers: Mapping[int, RunningBroker]
    brokers: dict[int, RunningBroker]
    links: dict[int, Links]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.links[each].port}" for each in self.brokers)

    def metadata(self, broker_id: int) -> Struct | None:
        """Return a broker's view of the cluster; None if it does not answer."""
        try:
            with WireClient(HOST, self.brokers[broker_id].port) as client:
                return client.call(METADATA, 12, topics=None)
        except (Closed, OSError):
            return None

    def wait_for_brokers(self) -> None:
        """Wait until each broker knows that all are alive: on a busy machine the first heartbeats may be late."""
        everyone = sorted(self.brokers)

        def alive() -> list[list[int]]:
            answers = [self.metadata(each) for each in everyone]
            return [[] if each is None else sorted(broker.node_id for broker in each.brokers) for each in answers]

        eventually(alive, "all brokers are alive", equal_to=[everyone] * len(everyone), timeout_s=_PATIENCE_S)

    def led_by(self, broker_id: int) -> set[str]:
        """Return the partitions that this broker leads, as the others know."""
        answers = [self.metadata(each) for each in self.brokers if each != broker_id]
        return {
            f"{topic.name}-{each.partition_index}"
            for answer in answers
            if answer is not None
            for topic in answer.topics
            for each in topic.partitions
            if each.leader_id == broker_id
        }

    def out_of_sync(self, *topics: str) -> list[str]:
        """Return the partitions of which a broker does not see all replicas in sync, and topics that it lacks."""
        found = []
        for broker_id in self.brokers:
            metadata = self.metadata(broker_id)
            known = {} if metadata is None else {each.name: each.partitions for each in metadata.topics}
            found += [f"{name} at {broker_id}: unknown" for name in topics if name not in known]
            found += [
                f"{name}-{each.partition_index} at {broker_id}: {each.isr_nodes}"
                for name, partitions in known.items()
                for each in partitions
                if len(each.isr_nodes) < len(self.brokers)
            ]
        return found

    def views(self) -> str:
        """Return leader, leader epoch and ISR of each partition, as each broker answers them now."""
        lines = []
        for broker_id in self.brokers:
            metadata = self.metadata(broker_id)
            for topic in () if metadata is None else metadata.topics:
                parts = [f"{each.leader_id}@{each.leader_epoch} {each.isr_nodes}" for each in topic.partitions]
                lines.append(f"{broker_id}: {topic.name} {', '.join(parts)}")
            if metadata is None:
                lines.append(f"{broker_id}: no answer")
        return "\n".join(lines)

    def wait_for_all_in_sync(self, *topics: str) -> None:
        """Wait until each broker answers, and sees all replicas of all topics in sync, with these topics among them."""
        eventually(lambda: self.out_of_sync(*topics), "all in sync", equal_to=[], timeout_s=_PATIENCE_S, interval_s=0.1)

    def log_dirs(self, broker_id: int) -> list[Path]:
        """Return the log directories of a broker, as they are seen from outside."""
        broker = self.brokers[broker_id]
        small = [broker.disk.path] if isinstance(broker, Ours) and broker.disk else []
        return [broker.log_dir, *small]

    def contents(self, broker_id: int) -> dict[str, str]:
        """Return the checksum of the log of each partition of a broker, over all of its segments."""
        found = {}
        for directory in partitions_in(*self.log_dirs(broker_id)):
            data = b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))
            found[directory.name] = f"{len(data)} {sha256(data).hexdigest()}"
        return found

    def differences(self) -> list[str]:
        """Return the partitions whose replicas are not equal byte by byte."""
        first, *others = (self.contents(each) for each in self.brokers)
        return sorted({name for other in others for name in first | other if first.get(name) != other.get(name)})


def partitions_in(*log_dirs: Path) -> list[Path]:
    """Return the directories of partitions of topics, without deleted ones."""
    found = [each for log_dir in log_dirs for each in log_dir.glob("*-[0-9]*")]
    return [each for each in found if each.name.rpartition("-")[2].isdigit() and "__cluster_metadata" not in each.name]


@contextmanager
def cluster(
    make_directory: Callable[[str], Path], *, controllers: int = 1, theirs: int = 0, ours: int = 0
) -> Iterator[Cluster]:
    """Start a cluster: brokers of Apache Kafka from id 1 on, then members."""
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        ids = range(_FIRST_CONTROLLER, _FIRST_CONTROLLER + controllers)
        links = {each: stack.enter_context(Links()) for each in ids}
        among = {each: links[each].target for each in ids}
        voters = voters_of({each: links[each].port for each in ids})

        def start(node_id: int) -> Voter:
            # a member connects to the address that the controller returns
            behind = {"advertised.listeners": f"CONTROLLER://{HOST}:{links[node_id].port}"}
            return Voter(make_directory("voter"), node_id, among, {**OF_CONTROLLERS, **behind})

        started = pool.map(start, ids)
        running: dict[int, KafkaBroker] = {each.node_id: stack.enter_context(each) for each in started}
        with brokers_of(make_directory, {"controller.quorum.voters": voters}, theirs=theirs, ours=ours) as (
            brokers,
            their_links,
        ):
            made = Cluster(running, brokers, {**links, **their_links})
            made.wait_for_brokers()
            yield made


@contextmanager
def own_cluster(make_directory: Callable[[str], Path], *, theirs: int = 0, ours: int = 3) -> Iterator[Cluster]:
    """Start a cluster under pybroker's own controller: brokers of Apache Kafka from id 1 on, then members."""
    with Links() as links, OurController(make_directory("controller"), links) as controller:
        quorum = {"controller.quorum.bootstrap.servers": f"{HOST}:{links.port}"}
        with brokers_of(make_directory, quorum, theirs=theirs, ours=ours) as (brokers, their_links):
            controllers = {controller.node_id: controller}
            made = Cluster(controllers, brokers, {controller.node_id: links, **their_links})
            made.wait_for_brokers()
            yield made


@contextmanager
def brokers_of(
    make_directory: Callable[[str], Path], quorum: Mapping[str, str], *, theirs: int, ours: int
) -> Iterator[tuple[dict[int, RunningBroker], dict[int, Links]]]:
    """Start the brokers of a cluster whose controllers run, and their links."""
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        ids = range(1, theirs + ours + 1)
        links = {each: stack.enter_context(Links()) for each in ids}

        def start(node_id: int) -> RunningBroker:
            kind = Theirs if node_id <= theirs else Ours
            return kind(make_directory("broker"), node_id, quorum, links[node_id])

        brokers = {each.node_id: stack.enter_context(each) for each in pool.map(start, ids)}
        yield brokers, links
