"""A simulated cluster whose brokers have coordinators, and clients of them."""

from __future__ import annotations

from typing import Any

from metadata.partition_registration import NO_LEADER
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.simulation.broker import Process
from tests.simulation.coordination.checks import TransactionChecks, stable_offset
from tests.simulation.coordination.clients import CommittingClient, Request, TransactionalClient
from tests.simulation.coordination.image import Places
from tests.simulation.coordination.member import Asked, Member
from tests.simulation.coordination.problems import raise_problems, watch
from tests.simulation.invariants import Invariants
from tests.simulation.leaders import Leader
from tests.simulation.log import Entry, ReplicaLog
from tests.simulation.metadata import TOPIC, ChangePartition
from tests.simulation.network import Exchange, Route
from tests.simulation.transport import MARKERS, OBSERVE, OLDER, VERIFY, Config
from tests.simulation.world import World

#: The nodes of clients have higher numbers than brokers.
FIRST_CLIENT = 11
CONSUMER = 14


class CoordinatedInvariants(Invariants):
    """The checks of replication, and those of transactions and groups."""

    def __init__(self, world: CoordinatedWorld, config: Config) -> None:
        super().__init__(world)
        self.transactions = TransactionChecks(Places(config.partitions))

    def appended(self, log: ReplicaLog, offset: int, epoch: int, value: Any, before: int | None) -> None:
        super().appended(log, offset, epoch, value, before)
        if isinstance(value, bytes):
            self.transactions.appended(log, offset, epoch, value)

    def became_committed(self, leader: Leader, offset: int, entry: Entry) -> None:
        self.transactions.became_committed(leader.key, offset, entry)

    def committed(self, leader: Leader, broker_id: int, before: int) -> None:
        super().committed(leader, broker_id, before)
        self.transactions.moved(leader)

    def leader_began(self, leader: Leader, broker_id: int) -> None:
        super().leader_began(leader, broker_id)
        leader.log.producers.checked = 0
        self.transactions.moved(leader)

    def partition_changed(self, record: ChangePartition, before: Any) -> None:
        super().partition_changed(record, before)
        self.transactions.is_void = self.transactions.is_void or record.unclean


class CoordinatedWorld(World):
    """Partitions of clients, one of `__transaction_state` and one of `__consumer_offsets`.

    Two producers have the same transactional id: each fences the other.
    """

    checks: CoordinatedInvariants

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        checks, protocol = self.checks.transactions, config.transactions
        producers: list[Any] = [
            TransactionalClient(FIRST_CLIENT + index, name, protocol, checks) for index, name in enumerate("xxy")
        ]
        self.clients: dict[int, Any] = {each.id: each for each in (*producers, CommittingClient(CONSUMER, checks))}
        self.wall_ms: dict[int, int] = {}
        self._sent: dict[Route, Asked] = {}
        watch()
        self._ids = 0

    def _new_checks(self, config: Config) -> Invariants:
        return CoordinatedInvariants(self, config)

    def attach(self) -> None:
        """Give the brokers that run their coordinators."""
        super().attach()
        watch()
        for process in self.processes.values():
            self._began(process)
        for broker_id in list(self.processes):
            self._pump(broker_id)

    def detach(self) -> None:
        super().detach()
        for process in self.processes.values():
            process.leaders.member = None

    def _began(self, process: Process) -> None:
        config = self.config
        member = process.leaders.member = Member(
            process,
            Places(config.partitions),
            config.transactions,
            self.now_ms,
            self.wall_ms.get(process.id, 0),
            self._next_block,
        )
        for leader in process.leaders.partitions.values():
            member.led(leader)

    def _next_block(self, count: int) -> int:
        first = self._ids
        self._ids += count
        return first

    # -- steps -------------------------------------------------------------------------------------------------------

    def client(self, client_id: int, verb: str, broker_id: int, argument: Any = None) -> bool:
        """A client sends a request to a broker, or restarts."""
        client = self.clients[client_id]
        request: Request | None = client.act(verb, argument, 1_700_000_000_000 + self.now_ms)
        if request is None:
            return verb == "restart"
        self.network.send(Route(client_id, request.kind, broker_id), request[1:])
        return True

    def clock(self, broker_id: int, ms: int, direction: str) -> bool:
        """The wall clock of a broker is set forwards or back."""
        step = ms if direction == "forwards" else -ms
        self.wall_ms[broker_id] = self.wall_ms.get(broker_id, 0) + step
        process = self.processes.get(broker_id)
        if process is not None:
            process.leaders.member.clock._now_ms += step
        return True

    def lose(self, source: int, kind: str, target: int, how: str) -> bool:
        if how == "limbo" and not self._may_be_late(kind):
            how = "request"
        return super().lose(source, kind, target, how)

    def _may_be_late(self, kind: str) -> bool:
        """In the older protocol a late end, or marker, ends the next transaction, as in Apache Kafka (KIP-890)."""
        return self.config.transactions != OLDER or not kind.startswith((MARKERS, "end", "join", "init"))

    def ended(self, broker_id: int) -> None:
        super().ended(broker_id)
        self.network.limbo = [each for each in self.network.limbo if self._may_be_late(each[0].kind)]

    # -- requests ----------------------------------------------------------------------------------------------------

    def _handle(self, route: Route, exchange: Exchange) -> bool:
        if not _is_coordinated(route):
            return super()._handle(route, exchange)
        process = self.processes.get(route.target)
        if process is None or not process.serves:
            return False
        leader = process.leaders.partitions.get((TOPIC, Places(self.config.partitions).offsets))
        exchange.epoch = leader.state.leader_epoch if leader is not None else -1
        exchange.response = process.leaders.member.serve(*exchange.request)
        self._pump(route.target)
        return True

    def _may_return(self, route: Route, exchange: Exchange) -> bool:
        response = exchange.response
        if isinstance(response, Deferred) and not response.done:
            return False
        return super()._may_return(route, exchange)

    def _return(self, route: Route, exchange: Exchange) -> None:
        if not _is_coordinated(route):
            super()._return(route, exchange)
            if route.kind == OBSERVE:
                process = self.processes.get(route.source)
                if process is not None:
                    process.leaders.member.metadata_changed()
                    self._pump(route.source)
            return
        del self.network.exchanges[route]
        try:
            answer = exchange.response.result() if isinstance(exchange.response, Deferred) else exchange.response
        except Exception:  # the broker closes the connection
            answer = None
        self._take(route, answer, exchange.epoch)

    def _take(self, route: Route, answer: Struct | None, epoch: int = -1) -> None:
        client = self.clients.get(route.source)
        if client is None:
            asked = self._sent.pop(route, None)
            if asked is not None:
                Member.take(asked, answer)
            if route.source in self.processes and route.source not in self.paused:
                self._pump(route.source)
        elif answer is None:
            client.failed(route.kind)
        else:
            client.answered(route.kind, answer, epoch)

    def _sender_failed(self, route: Route) -> None:
        if _is_coordinated(route):
            self._take(route, None)
        else:
            super()._sender_failed(route)

    def _pump(self, broker_id: int) -> None:
        member: Member = self.processes[broker_id].leaders.member
        if broker_id not in self.stalled:
            member.advance(self.now_ms)
        rest = []
        for each in member.asked:
            if each.route in self.network.exchanges:
                rest.append(each)
            else:
                self._sent[each.route] = each
                self.network.send(each.route, (each.api, each.api.versions.max, each.request))
        member.asked = rest
        raise_problems()
        super()._pump(broker_id)

    # -- the end of all faults ---------------------------------------------------------------------------------------

    def finish_clients(self) -> None:
        """Set the clocks right, and let producers end their transactions."""
        for broker_id, ms in self.wall_ms.items():
            if broker_id in self.processes:
                self.processes[broker_id].leaders.member.clock._now_ms -= ms
        self.wall_ms.clear()
        state = self.controller.image.partitions[TOPIC, Places(self.config.partitions).transactions]
        for client_id, client in self.clients.items():
            if isinstance(client, TransactionalClient) and client.producer is not None and state.leader != NO_LEADER:
                self.client(client_id, "end", state.leader, "commit" if client.may_commit else "abort")

    def open_transaction(self) -> str | None:
        """T3: no transaction is left open."""
        if self.checks.transactions.is_void:
            return None
        for key, state in self.controller.image.partitions.items():
            log = self.disks[state.leader].logs[key]
            if stable_offset(log) != log.high_watermark:
                return f"partition {key[1]} has an open transaction: {log.producers.state.transactions}"
        return None


def _is_coordinated(route: Route) -> bool:
    return route.source >= FIRST_CLIENT or route.kind in (MARKERS, VERIFY)
