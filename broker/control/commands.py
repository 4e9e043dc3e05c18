"""The commands of a test for a broker: those of every node (`node_commands.py`), producers, and background work.

Each public method is a command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.control.clock import AdjustableClock
from broker.control.faults import FaultyDispatcher
from broker.control.fencing import fence
from broker.control.links import Links
from broker.control.node_commands import NodeCommands, NodeParts, Refused
from broker.maintenance.log_cleaner import CannotClean
from broker.replicas.partition import Partition
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred, settled
from storage.errors import LogOffline

if TYPE_CHECKING:
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from broker.coordinators.transaction.producer_ids import ProducerIds
    from broker.maintenance.log_cleaner import Cleaner
    from broker.maintenance.log_scheduler import Background
    from broker.replicas.partitions import Partitions
    from storage.log_manager import LogManager


class CommandedParts(NodeParts, frozen=True, kw_only=True):
    """The parts of a broker that commands act on."""

    logs: LogManager
    partitions: Partitions
    background: Background
    cleaner: Cleaner
    producer_ids: ProducerIds
    transactions: TransactionCoordinator


class Commands(NodeCommands):
    """The commands, for one broker."""

    def __init__(
        self,
        broker: CommandedParts,
        clock: AdjustableClock,
        dispatcher: FaultyDispatcher,
        links: Links,
        controller: NodeParts | None = None,
    ) -> None:
        super().__init__(broker, clock, dispatcher, links, controller)
        self._broker = broker

    def fence(self, transactional_id: str) -> Deferred[None]:
        """Fence the current producer of a transactional id, and abort its transaction."""

        broker = self._broker

        def check(code: ErrorCode) -> None:
            if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise Refused(f"no producer has used the transactional id {transactional_id}")
            if code is not ErrorCode.NONE:
                raise Refused(f"{transactional_id} is not fenced: {code.name}")

        return fence(broker.transactions, broker.producer_ids, broker.timers, transactional_id).then(check)

    # -- background work, now ------------------------------------------------------------------------------------------

    def run_retention(self) -> Deferred[None]:
        """Remove expired segments from all logs."""
        for key in list(self._broker.logs.unopened):
            with suppress(LogOffline):
                self._broker.logs.open(*key)
        return self._broker.background.retain()

    def roll(self, topic: str, partition: int | None = None) -> dict[str, int]:
        """Roll the active segment. Return, by partition, the base offset of the new one."""
        return {str(each): self._roll(each) for each in self._partitions(topic, partition)}

    def clean(self, topic: str) -> Deferred[None]:
        """Roll the log, and compact all that min.compaction.lag.ms allows, however little of it is dirty."""
        partitions = list(self._partitions(topic, None))
        if not partitions[0].log_config.compacted:
            raise Refused(f"{topic} is not compacted: its cleanup.policy is delete")
        for each in partitions:
            self._roll(each)
        cleaned = [self._broker.cleaner.clean_now(each.log) for each in partitions]

        def check(_: None) -> None:
            for each in cleaned:
                try:
                    each.result()
                except CannotClean as error:
                    raise Refused(str(error)) from None

        return settled(cleaned).then(check)

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _partitions(self, topic: str, partition: int | None) -> Iterator[Partition]:
        of_topic = self._broker.partitions.of_topic(topic)
        wanted = of_topic if partition is None else {partition} & of_topic.keys()
        if not wanted:
            raise Refused(f"there is no {topic}" if partition is None else f"there is no {topic}-{partition}")
        return (of_topic[index] for index in sorted(wanted))

    def _roll(self, partition: Partition) -> int:
        log = partition.find_log()
        if log is None:
            raise Refused(f"{partition} is offline")
        try:
            return log.roll(log.log_end_offset, self._clock.now_ms()).base_offset
        except LogOffline as error:
            raise Refused(str(error)) from None
        except OSError as error:
            raise Refused(str(log.directory.fail(error))) from None
