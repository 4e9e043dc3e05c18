"""How requests travel between the brokers and the controller of a simulation, and what their ends do with them."""

from __future__ import annotations

from typing import Any, NamedTuple

from replication.lifecycle import LifecycleState, RegistrationRefused
from runtime.deferred import Deferred
from tests.simulation import metadata_fetch
from tests.simulation.active import ActiveController, Answer
from tests.simulation.broker import Process
from tests.simulation.controller import Controller
from tests.simulation.disk import Disk
from tests.simulation.invariants import Invariants
from tests.simulation.network import CONTROLLER, Exchange, Network, Route
from tests.simulation.own_controller import OwnController

OBSERVE, LIFE, ISR, FETCH, OFFSETS, ASSIGN = "observe", "life", "isr", "fetch", "offsets", "assign"
#: Requests of coordinators to other brokers.
MARKERS, VERIFY = "markers", "verify"
ASSIGN_AGAIN_MS = 500
#: The protocols of producers with transactions: before KIP-890, and with an epoch of each transaction.
OLDER, NEWER = 1, 2


class Config(NamedTuple):
    """The constants of a schedule.

    - `two_steps`: kinds of exchanges whose responses are steps of their own.
    - `reads_late`: a leader reads the records of a response when it sends it, after it has checked the request. Its log
      may have changed meanwhile (KAFKA-18723).
    - `transactions`: the protocol of producers with transactions, 1 or 2 (KIP-890); 0 without coordinators. With them
      the last two partitions are those of the coordinators.
    - `own_controller`: pybroker's own controller is active, instead of the reference.
    """

    brokers: int = 3
    min_isr: int = 2
    partitions: int = 1
    in_transactions: bool = False
    two_steps: tuple[str, ...] = ()
    reads_late: bool = False
    transactions: int = 0
    own_controller: bool = False


def _controller_of(config: Config) -> type[ActiveController]:
    return OwnController if config.own_controller else Controller


class Transport:
    """The nodes of a cluster and the exchanges between them."""

    def __init__(self, config: Config, checks: Invariants) -> None:
        self.config = config
        self.now_ms = 0
        self.checks = checks
        self.network = Network()
        self.controller: ActiveController = _controller_of(config)(config.min_isr, self.checks)
        self.disks = {each: Disk(each, self.checks) for each in range(1, config.brokers + 1)}
        self.processes: dict[int, Process] = {}
        self.paused: set[int] = set()
        #: Brokers whose disks do not answer.
        self.stalled: set[int] = set()

    def go(self, source: int, kind: str, target: int) -> bool:
        """Move an exchange on: the request arrives, or the response."""
        route = Route(source, kind, target)
        exchange = self.network.exchanges.get(route)
        if exchange is None or not self.can_go(route, exchange):
            return False
        if exchange.response is None:
            if not self._handle(route, exchange):
                self._fail(route)
                return True
            if kind in self.config.two_steps or not self._may_return(route, exchange):
                return True
        self._return(route, exchange)
        return True

    def can_go(self, route: Route, exchange: Exchange) -> bool:
        """Whether a step would move this exchange."""
        source, _, target = route
        if self.stalled and target != CONTROLLER and not self.stalled.isdisjoint((source, target)):
            return False
        if exchange.response is not None:
            return self._may_return(route, exchange)
        return (source, target) not in self.network.cut and target not in self.paused

    def matters(self, route: Route, each: Exchange) -> bool:
        """Whether something would happen: an idle follower's fetch and an idle observer's wait."""
        if not self.can_go(route, each):
            return False
        if each.response is not None:
            return True
        if route.kind == OBSERVE:
            process, controller = self.processes[route.source], self.controller
            observer = process.observer
            return (
                observer.high_watermark != controller.committed
                or observer.leader_epoch != controller.epoch
                or process.disk.metadata.log_end_offset != controller.log.log_end_offset
            )
        if route.kind == FETCH:
            target = self.processes.get(route.target)
            request = each.request
            return (
                target is None
                or self.network.seen.get(route) != target.leaders.version
                or bool(request.topics)
                or bool(request.forgotten_topics_data)
            )
        return True

    def _may_return(self, route: Route, exchange: Exchange) -> bool:
        return (
            exchange.after <= self.controller.committed
            and (route.target, route.source) not in self.network.cut
            and route.source not in self.paused
        )

    def _end(self, broker_id: int) -> None:
        """A process stops at once, and its files stay as they are."""
        del self.processes[broker_id]
        self.paused.discard(broker_id)
        self.stalled.discard(broker_id)
        self.disks[broker_id].crash(None)
        self.ended(broker_id)

    def ended(self, broker_id: int) -> None:
        for route in self.network.forget(broker_id):
            self._sender_failed(route)

    def _handle(self, route: Route, exchange: Exchange) -> bool:
        """Let the receiver answer. Return whether it was there."""
        kind, request = route.kind, exchange.request
        if route.target == CONTROLLER:
            self._ask_controller(kind, exchange)
            return True
        process = self.processes.get(route.target)
        if process is None or not process.serves:
            return False
        if kind == FETCH:
            exchange.response = process.leaders.fetch(request, self.now_ms)
            self.network.seen[route] = process.leaders.version
        else:
            exchange.response = process.offset_of(*request)
        self._pump(route.target)
        return True

    def _ask_controller(self, kind: str, exchange: Exchange) -> None:
        controller, request = self.controller, exchange.request
        if kind == OBSERVE:
            exchange.response = metadata_fetch.answer(controller, request)
            return
        answer: Answer
        if kind == ISR:
            answer = controller.alter_partition(request)
        elif kind == ASSIGN:
            answer = controller.assign_directories(request)
        elif hasattr(request, "incarnation_id"):
            answer = controller.register(request, self.now_ms)
        else:
            answer = controller.heartbeat(request, self.now_ms)
        if isinstance(answer, Deferred):
            exchange.wait_for(answer)
        else:
            exchange.response, exchange.after = answer, controller.log.log_end_offset

    def _return(self, route: Route, exchange: Exchange) -> None:
        """The response arrives."""
        del self.network.exchanges[route]
        process, response = self.processes[route.source], exchange.response
        kind = route.kind
        if kind == FETCH:
            if self.config.reads_late:
                self._read_again(route.target, process, response)
            process.fetched(route.target, response, self.now_ms)
        elif kind == OBSERVE:
            process.observed(response, self.now_ms)
        elif kind == ISR:
            process.leaders.isr_answered(response, self.now_ms)
        elif kind == ASSIGN:
            process.assignments.answered(response)
            process.assign_due_ms = self.now_ms + ASSIGN_AGAIN_MS
        elif kind == LIFE:
            process.beaten(response, self.now_ms)
            if process.life.state is LifecycleState.ENDED:
                self._stopped(route.source)
                return
        else:
            self._take_offset(process, route, exchange)
        self._pump(route.source)

    def _read_again(self, leader: int, process: Process, response: Any) -> None:
        """Replace the records of a response by those that the leader's log has now at these offsets."""
        for topic in response.responses:
            for data in topic.partitions:
                if data.records:
                    log = self.disks[leader].logs.get((topic.topic_id, data.partition_index))
                    first = max(data.records[0][0], log.base) if log is not None else 0
                    data.records = log.read(first, len(data.records)) or None if log is not None else None

    def _take_offset(self, process: Process, route: Route, exchange: Exchange) -> None:
        key, epoch, _ = exchange.request
        error, offset = exchange.response
        fetcher = process.fetchers[route.target]
        if error:
            fetcher.reset_failed(key, error, self.now_ms)
        else:
            fetcher.reset(key, epoch, offset)

    def _stopped(self, broker_id: int) -> None:
        self.processes.pop(broker_id).stop()
        self.ended(broker_id)

    def _fail(self, route: Route) -> None:
        """The connection broke: the sender gets no response."""
        del self.network.exchanges[route]
        self._sender_failed(route)

    def _sender_failed(self, route: Route) -> None:
        process = self.processes.get(route.source)
        if process is None:
            return  # it has stopped meanwhile
        if route.kind == FETCH:
            process.fetchers[route.target].failed(self.now_ms)
        elif route.kind == OBSERVE:
            process.observer.failed(self.now_ms)
        elif route.kind == ISR:
            process.leaders.isr_changes.failed()
        elif route.kind == ASSIGN:
            process.assignments.failed()
            process.assign_due_ms = self.now_ms + ASSIGN_AGAIN_MS
        elif route.kind == LIFE:
            process.life.failed(self.now_ms)
        else:
            for key, _ in process.fetchers[route.target].resetting():
                process.fetchers[route.target].reset_failed(key, -1, self.now_ms)
        if route.source not in self.paused:
            self._pump(route.source)

    def _pump(self, broker_id: int) -> None:
        """Send each request that a broker has ready."""
        process, exchanges, now_ms = self.processes[broker_id], self.network.exchanges, self.now_ms
        life = process.life
        request: Any
        if process.observe_route not in exchanges and process.observer.due_ms <= now_ms:
            request = process.observer.next_request(now_ms)
            if request is not None:
                self.network.send(process.observe_route, request)
        for leader, fetcher in process.fetchers.items():
            route = process.fetch_routes[leader]
            if route not in exchanges:
                request = fetcher.next_request(now_ms)
                if request is not None:
                    self.network.send(route, request)
            for key, followed in fetcher.resetting():
                route = Route(broker_id, f"{OFFSETS}{key[1]}", leader)
                if route not in exchanges:
                    self.network.send(route, (key, followed.leader_epoch, followed.reset_at_start))
        if life.broker_epoch >= 0:
            request = process.leaders.isr_changes.next_request(life.broker_epoch)
            if request is not None:
                self.network.send(Route(broker_id, ISR, CONTROLLER), request)
            if process.assign_due_ms <= now_ms:
                request = process.assignments.next_request(life.broker_epoch)
                if request is not None:
                    self.network.send(Route(broker_id, ASSIGN, CONTROLLER), request)
        if life.due_ms <= now_ms:
            self._beat(broker_id, process)

    def _beat(self, broker_id: int, process: Process) -> None:
        """Send what is due to the controller; it is answered at once, unless the network is in the way."""
        route = process.life_route
        if process.life.due_ms > self.now_ms or route in self.network.exchanges:
            return
        try:
            request = process.life.next_request(self.now_ms)
        except RegistrationRefused:  # it could not report that a directory has failed
            self._end(broker_id)
            return
        if request is None:
            return
        self.network.send(route, request)
        if LIFE not in self.config.two_steps:
            if not self.network.passes(broker_id, CONTROLLER):
                self._fail(route)
            else:
                self.go(*route)
