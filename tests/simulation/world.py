"""A simulated cluster and the steps that may happen in it. All chance is in the choice of the steps (schedule.py)."""

from __future__ import annotations

from typing import Any

from protocol.error_codes import ErrorCode
from replication.followed_log import LogFailed
from replication.following import Phase
from replication.lifecycle import LifecycleState
from tests.simulation.broker import Process
from tests.simulation.client import Write
from tests.simulation.invariants import Invariants
from tests.simulation.metadata import TOPIC
from tests.simulation.network import CONTROLLER, Exchange, Route
from tests.simulation.transport import Config, Transport

Step = tuple[Any, ...]


class World(Transport):
    """Brokers, the controller, and the network between them. Each public method that is in STEPS is a step."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, self._new_checks(config))
        self.writes: list[Write] = []
        self._incarnations = 0

    def _new_checks(self, config: Config) -> Invariants:
        return Invariants(self)

    def _began(self, process: Process) -> None:
        """A process has started; it hosts nothing yet."""

    # -- steps: the network ------------------------------------------------------------------------------------------

    def lose(self, source: int, kind: str, target: int, how: str) -> bool:
        """Break a connection: the request is lost, stays in limbo, or is carried out and its response is lost."""
        route = Route(source, kind, target)
        exchange = self.network.exchanges.get(route)
        if exchange is None or source in self.paused:
            return False
        if exchange.response is None:
            if how == "limbo":
                self.network.limbo.append((route, exchange.request))
            elif how == "response" and self.can_go(route, exchange):
                self._handle(route, exchange)
        self._fail(route)
        return True

    def limbo(self, index: int) -> bool:
        """Carry out a request whose sender has given it up."""
        if index >= len(self.network.limbo):
            return False
        route, request = self.network.limbo[index]
        if route.target in self.paused or not self.network.passes(route.source, route.target):
            return False
        del self.network.limbo[index]
        self._handle(route, Exchange(request))
        return True

    def cut(self, source: int, target: int) -> bool:
        """Nothing passes from one node to another; 0 is the controller."""
        self.network.cut.add((source, target))
        return True

    def heal(self) -> bool:
        """All links work."""
        was_cut = bool(self.network.cut)
        self.network.cut.clear()
        return was_cut

    # -- steps: clients ----------------------------------------------------------------------------------------------

    def write(self, broker_id: int, partition: int, acks: str) -> bool:
        """A client writes a record at a broker that may lead."""
        process = self.processes.get(broker_id)
        if process is None or not process.serves or broker_id in self.paused or broker_id in self.stalled:
            return False
        write = Write(len(self.writes), acks == "all")
        try:
            error = process.leaders.produce((TOPIC, partition), write, self.now_ms)
        except LogFailed:
            self.kill(broker_id)
            return True
        if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return False
        self.writes.append(write)
        if error:
            write.outcome = "failed"
        return True

    def trim(self, broker_id: int, partition: int, offset: int) -> bool:
        """DeleteRecords up to an offset."""
        process = self.processes.get(broker_id)
        if process is None or (TOPIC, partition) not in process.leaders.partitions:
            return False
        process.leaders.delete_records((TOPIC, partition), offset)
        return True

    # -- steps: brokers ----------------------------------------------------------------------------------------------

    def start(self, broker_id: int) -> bool:
        """Start a broker on its disk."""
        disk = self.disks[broker_id]
        if broker_id in self.processes or not (disk.online or disk.repaired):
            return False
        self._incarnations += 1
        process = Process(disk, self._incarnations, self.config.min_isr, self.checks, self.now_ms)
        self.processes[broker_id] = process
        self._began(process)
        self._pump(broker_id)
        return True

    def kill(self, broker_id: int, kept: int | None = None) -> bool:
        """kill -9; or with `kept` a power failure, which leaves that many of the records that were not flushed.

        The power may also fail where no broker runs.
        """
        was_running = self.processes.pop(broker_id, None) is not None
        self.paused.discard(broker_id)
        self.stalled.discard(broker_id)
        self.disks[broker_id].crash(kept)
        if was_running:
            self.ended(broker_id)
        return was_running or kept is not None

    def stop(self, broker_id: int) -> bool:
        """Begin a controlled shutdown."""
        process = self.processes.get(broker_id)
        if process is None or process.life.state is not LifecycleState.RUNNING or broker_id in self.paused:
            return False
        process.life.leave(self.now_ms)
        self._pump(broker_id)
        return True

    def pause(self, broker_id: int) -> bool:
        """SIGSTOP, or a slow disk."""
        if broker_id not in self.processes or broker_id in self.paused:
            return False
        self.paused.add(broker_id)
        return True

    def resume(self, broker_id: int) -> bool:
        """SIGCONT."""
        if broker_id not in self.paused:
            return False
        self.paused.discard(broker_id)
        self._pump(broker_id)
        return True

    def flush(self, broker_id: int) -> bool:
        """The operating system writes out a broker's logs."""
        for log in self.disks[broker_id].logs.values():
            log.flush()
        return broker_id in self.processes

    def checkpoint(self, broker_id: int) -> bool:
        """A broker writes its high watermarks."""
        for log in self.disks[broker_id].logs.values():
            log.write_checkpoint()
        return broker_id in self.processes

    def fill(self, broker_id: int, partition: int) -> bool:
        """The disk is full: a leader stops, a follower gives the partition up until its next start."""
        log = self.disks[broker_id].logs.get((TOPIC, partition))
        if log is None or log.broken or broker_id not in self.processes:
            return False
        log.broken = True
        return True

    def fail_dir(self, broker_id: int, index: int) -> bool:
        """A log directory fails. A broker without one that works stops."""
        disk = self.disks[broker_id]
        directory = disk.directories[index]
        if directory in disk.failed:
            return False
        disk.failed.add(directory)
        process = self.processes.get(broker_id)
        if process is not None and not disk.online:
            self.kill(broker_id)
        elif process is not None:
            process.directory_failed(directory, self.now_ms)
            if broker_id not in self.paused:
                self._pump(broker_id)
        return True

    def repair(self, broker_id: int) -> bool:
        """The directories of a broker work again from its next start on."""
        disk = self.disks[broker_id]
        disk.repair()
        return bool(disk.repaired)

    def move(self, broker_id: int, partition: int) -> bool:
        """AlterReplicaLogDirs: a replica moves to the other directory of its broker."""
        process, key = self.processes.get(broker_id), (TOPIC, partition)
        place = self.disks[broker_id].places.get(key)
        if process is None or key in process.moves or key not in process.hosted or broker_id in self.paused:
            return False
        others = [each for each in self.disks[broker_id].online if each != place]
        if place is None or place in self.disks[broker_id].failed or not others:
            return False
        process.move(key, others[0])
        self._pump(broker_id)
        return True

    def stall(self, broker_id: int) -> bool:
        """The disks of a broker answer nothing for a while: it sends heartbeats, but neither reads nor writes."""
        if broker_id not in self.processes or broker_id in self.stalled:
            return False
        self.stalled.add(broker_id)
        return True

    def unstall(self, broker_id: int) -> bool:
        """The disks of a broker work on."""
        was_stalled = broker_id in self.stalled
        self.stalled.discard(broker_id)
        return was_stalled

    # -- steps: time and the controller ------------------------------------------------------------------------------

    def tick(self, ms: int) -> bool:
        """Time passes: heartbeats, ends of sessions, and checks of lag."""
        self.now_ms += ms
        self.network.seen.clear()  # followers' long polls end
        for broker_id, process in list(self.processes.items()):
            if self.processes.get(broker_id) is process and broker_id not in self.paused:
                self._beat(broker_id, process)
        self.controller.end_sessions(self.now_ms)
        for broker_id, process in list(self.processes.items()):
            if self.processes.get(broker_id) is process and broker_id not in self.paused:
                process.leaders.check_lag(self.now_ms)
                self._pump(broker_id)
        return True

    def settle(self, rounds: int) -> bool:
        """Let everything arrive, and time pass."""
        for _ in range(rounds):
            for _ in range(4):
                has_moved = False
                for route in list(self.network.exchanges):
                    exchange = self.network.exchanges.get(route)
                    if exchange is not None and self.matters(route, exchange):
                        has_moved = self.go(*route) or has_moved
                if not has_moved:
                    break
            self.tick(500)
        return True

    def hold(self) -> bool:
        """The quorum commits nothing from now on."""
        held, self.controller.holds = self.controller.holds, True
        return not held

    def commit(self) -> bool:
        """The quorum commits all that it has, and goes on doing so."""
        held, self.controller.holds = self.controller.holds, False
        self.controller.commit()
        return held

    def failover(self, kept: int) -> bool:
        """Another controller becomes active."""
        for route in list(self.network.exchanges):
            if route.target == CONTROLLER and route in self.network.exchanges:
                self._fail(route)
        self.controller.fail_over(kept, self.now_ms)
        return True

    def snapshot(self) -> bool:
        """The controller makes a snapshot of what is committed and drops the records before it."""
        controller = self.controller
        if controller.committed <= controller.log.start:
            return False
        controller.log.trim(controller.committed)
        return True

    def elect(self, partition: int, broker_id: int) -> bool:
        """A broker becomes the preferred replica, and the leader, if it may."""
        return self.controller.prefer((TOPIC, partition), broker_id)

    def reassign(self, partition: int, *replicas: int) -> bool:
        """AlterPartitionReassignments, also while another one is in progress."""
        return self.controller.reassign((TOPIC, partition), replicas)

    def cancel(self, partition: int) -> bool:
        """Cancel a reassignment."""
        return self.controller.reassign((TOPIC, partition), None)

    def unclean(self) -> bool:
        """unclean.leader.election.enable, from now on."""
        self.controller.allow_unclean()
        return True

    def attach(self) -> None:
        """Make what cannot be copied with a cluster that runs."""
        self.controller.start()

    def detach(self) -> None:
        """Drop what `attach` makes."""
        self.controller.stop()

    # -- the end of all faults ---------------------------------------------------------------------------------------

    def finish_clients(self) -> None:
        """Let clients end what they have begun."""

    def open_transaction(self) -> str | None:
        """Return what is not ended, or None."""
        return None

    @property
    def failed_disks(self) -> list[int]:
        """The brokers that miss a partition, or a directory, until their next start."""
        return [
            broker_id
            for broker_id, process in self.processes.items()
            if self.disks[broker_id].failed
            or any(
                each.phase is Phase.FAILED
                for fetcher in process.fetchers.values()
                for each in fetcher.partitions.values()
            )
        ]


#: The names of steps and the methods that carry them out.
STEPS = frozenset(
    {"go", "lose", "limbo", "cut", "heal", "write", "trim", "start", "kill", "stop", "pause", "resume", "flush"}
    | {"checkpoint", "fill", "tick", "hold", "commit", "failover", "snapshot", "elect", "unclean"}
    | {"reassign", "cancel", "fail_dir", "repair", "move", "stall", "unstall", "settle", "client", "clock"}
)


def carry_out(world: World, step: Step) -> bool:
    """Carry out a step. Return whether it was possible; one that is not changes nothing."""
    assert step[0] in STEPS
    return bool(getattr(world, step[0])(*step[1:]))
