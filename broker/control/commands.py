"""The commands of a test: each public method of `Commands` is one, with the method's arguments.

A command that takes time returns a Deferred. It raises Refused with a line of text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from broker.control.clock import AdjustableClock
from broker.control.faults import Fault, FaultyDispatcher
from broker.control.fencing import fence
from broker.maintenance.log_cleaner import CannotClean
from broker.replicas.partition import Partition
from protocol.error_codes import ErrorCode
from protocol.registry import API_BY_KEY
from runtime.deferred import Deferred, settled
from storage.errors import LogOffline

if TYPE_CHECKING:
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from broker.coordinators.transaction.producer_ids import ProducerIds
    from broker.maintenance.log_cleaner import Cleaner
    from broker.maintenance.log_scheduler import Background
    from broker.replicas.partitions import Partitions
    from runtime.timers import Timers
    from storage.log_manager import LogManager


class Refused(Exception):
    """Why a command was not carried out, in one line."""


class CommandedParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a broker that commands act on."""

    timers: Timers
    logs: LogManager
    partitions: Partitions
    background: Background
    cleaner: Cleaner
    producer_ids: ProducerIds
    transactions: TransactionCoordinator


class Commands:
    """The commands, for one broker. Its methods belong to the event loop's thread."""

    def __init__(self, broker: CommandedParts, clock: AdjustableClock, dispatcher: FaultyDispatcher) -> None:
        self._broker = broker
        self._clock = clock
        self._dispatcher = dispatcher

    def carry_out(self, command: object, arguments: object) -> object:
        """Call a command by its name. Raises Refused for an unknown command, or wrong arguments."""
        known = _COMMANDS.get(command) if isinstance(command, str) else None
        if known is None:
            raise Refused(f"unknown command {command!r}; the commands are {', '.join(_COMMANDS)}")
        if not isinstance(arguments, Mapping):
            raise Refused(f"{command}: arguments are an object, not {arguments!r}")
        signature = inspect.signature(known)
        try:
            given = signature.bind(self, **arguments).arguments
        except TypeError as error:
            raise Refused(f"{command}: {error}") from None
        for name, value in arguments.items():
            _check_type(f"{command}: {name}", value, str(signature.parameters[name].annotation))
        return known(**given)

    # -- faults --------------------------------------------------------------------------------------------------------

    def delay(self, api: str, delay_ms: int, count: int = 1) -> None:
        """Delay the next `count` requests of an API by this many milliseconds."""
        self._add(api, Fault(_at_least("count", count, 1), delay_ms=_at_least("delay_ms", delay_ms, 0)))

    def fail_next(self, api: str, error: str, count: int = 1) -> None:
        """Answer the next `count` requests of an API with a protocol error, given by name, without serving them."""
        code = ErrorCode.__members__.get(error)
        if code is None or code is ErrorCode.NONE:
            raise Refused(f"{error!r} is not an error of the protocol such as NOT_LEADER_OR_FOLLOWER")
        self._add(api, Fault(_at_least("count", count, 1), error=code))

    def disconnect_next(self, api: str, count: int = 1, carried_out: bool = False) -> None:
        """Close the connection at the next `count` requests of an API; with `carried_out` after serving them."""
        self._add(api, Fault(_at_least("count", count, 1), is_served=carried_out))

    def clear_faults(self) -> None:
        """Remove all pending faults."""
        self._dispatcher.clear()

    def fence(self, transactional_id: str) -> Deferred[None]:
        """Fence the current producer of a transactional id, and abort its transaction."""

        broker = self._broker

        def check(code: ErrorCode) -> None:
            if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise Refused(f"no producer has used the transactional id {transactional_id}")
            if code is not ErrorCode.NONE:
                raise Refused(f"{transactional_id} is not fenced: {code.name}")

        return fence(broker.transactions, broker.producer_ids, broker.timers, transactional_id).then(check)

    # -- time ----------------------------------------------------------------------------------------------------------

    def move_time_on(self, milliseconds: int, deadlines: bool = True) -> int:
        """Advance the clock; timers that are due fire next. Return the new time, in ms since 1970.

        Without `deadlines` only the time of day moves: sessions, timeouts and timers do not.
        """
        self._clock.move_on(_at_least("milliseconds", milliseconds, 0), deadlines=deadlines)
        self._broker.timers.clock_moved()
        return self._clock.now_ms()

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

    def _add(self, api: str, fault: Fault) -> None:
        keys = {API_BY_KEY[key].name: key for key in self._dispatcher.served}
        if api not in keys:
            raise Refused(f"there is no API {api!r}, such as Produce or OffsetCommit")
        self._dispatcher.add(keys[api], fault)

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


def _at_least(name: str, value: int, least: int) -> int:
    if value < least:
        raise Refused(f"{name} is at least {least}, not {value}")
    return value


#: JSON types by annotation of the commands' arguments.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "int | None": (int, type(None)),
}


def _check_type(what: str, value: object, annotation: str) -> None:
    """Check a value against an annotation. For Python a bool is an int; here it is not."""
    if type(value) not in _TYPES[annotation]:
        raise Refused(f"{what} takes {annotation}, not {value!r}")


_COMMANDS: Mapping[str, Callable[..., object]] = {
    name: function
    for name, function in vars(Commands).items()
    if inspect.isfunction(function) and not name.startswith("_") and name != "carry_out"
}
