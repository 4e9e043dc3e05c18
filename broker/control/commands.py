"""What a test may ask of its broker: each public method of `Commands` is a command, its arguments are the command's.

An answer that is not there at once is a Deferred. Refused raises, with a line for people.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from broker.control.clock import AdjustableClock
from broker.control.faults import Fault, FaultyDispatcher
from broker.control.fencing import fence
from broker.maintenance.log_cleaner import CannotClean
from broker.replicas.partition import Partition
from protocol.errors import ErrorCode
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
    """Why a command is not carried out, in one line."""


class CommandedBroker(Protocol):
    """What commands act on."""

    timers: Timers
    logs: LogManager
    partitions: Partitions
    background: Background
    cleaner: Cleaner
    producer_ids: ProducerIds
    transactions: TransactionCoordinator


class Commands:
    """The commands, for one broker. Its methods belong to the event loop's thread."""

    def __init__(self, broker: CommandedBroker, clock: AdjustableClock, dispatcher: FaultyDispatcher) -> None:
        self._broker = broker
        self._clock = clock
        self._dispatcher = dispatcher

    def carry_out(self, command: object, arguments: object) -> object:
        """Call a command by its name. Raises Refused where there is none, or its arguments do not fit."""
        known = _COMMANDS.get(command) if isinstance(command, str) else None
        if known is None:
            raise Refused(f"there is no command {command!r}: there are {', '.join(_COMMANDS)}")
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
        """Serve the next `count` requests of an API so many milliseconds later."""
        self._add(api, Fault(_at_least("count", count, 1), delay_ms=_at_least("delay_ms", delay_ms, 0)))

    def fail_next(self, api: str, error: str, count: int = 1) -> None:
        """Answer the next `count` requests of an API with an error of the protocol, by its name, and do nothing."""
        code = ErrorCode.__members__.get(error)
        if code is None or code is ErrorCode.NONE:
            raise Refused(f"{error!r} is no error of the protocol, such as NOT_LEADER_OR_FOLLOWER")
        self._add(api, Fault(_at_least("count", count, 1), error=code))

    def disconnect_next(self, api: str, count: int = 1, carried_out: bool = False) -> None:
        """Close the connection at the next `count` requests of an API; `carried_out`: with only the answer lost."""
        self._add(api, Fault(_at_least("count", count, 1), is_served=carried_out))

    def clear_faults(self) -> None:
        """Forget the faults that are still to come."""
        self._dispatcher.clear()

    def fence(self, transactional_id: str) -> Deferred[None]:
        """Fence the producer that has a transactional id now, and abort its transaction."""

        broker = self._broker

        def check(code: ErrorCode) -> None:
            if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise Refused(f"no producer has used the transactional id {transactional_id}")
            if code is not ErrorCode.NONE:
                raise Refused(f"{transactional_id} is not fenced: {code.name}")

        return fence(broker.transactions, broker.producer_ids, broker.timers, transactional_id).then(check)

    # -- time ----------------------------------------------------------------------------------------------------------

    def move_time_on(self, milliseconds: int, deadlines: bool = True) -> int:
        """Let so much time have passed; what is due by then comes next. Gives the new time, in ms since 1970.

        Without `deadlines` only the time of day moves: sessions, timeouts and timers do not.
        """
        self._clock.move_on(_at_least("milliseconds", milliseconds, 0), deadlines=deadlines)
        self._broker.timers.clock_moved()
        return self._clock.now_ms()

    # -- background work, now ------------------------------------------------------------------------------------------

    def run_retention(self) -> Deferred[None]:
        """Take expired segments out of all logs."""
        for key in list(self._broker.logs.unopened):
            with suppress(LogOffline):
                self._broker.logs.open(*key)
        return self._broker.background.retain()

    def roll(self, topic: str, partition: int | None = None) -> dict[str, int]:
        """Close the active segment. Gives, by partition, the base offset of the new one."""
        return {str(each): self._roll(each) for each in self._partitions(topic, partition)}

    def clean(self, topic: str) -> Deferred[None]:
        """Roll, and compact all that min.compaction.lag.ms allows, however little of it is dirty."""
        partitions = list(self._partitions(topic, None))
        if not partitions[0].log.config.compacted:
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

    # -- inside --------------------------------------------------------------------------------------------------------

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
        log = partition.log
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


#: By how the signatures here say it.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "int | None": (int, type(None)),
}


def _check_type(what: str, value: object, annotation: str) -> None:
    """JSON knows as many kinds of values as that. A bool is an int to Python, not here."""
    if type(value) not in _TYPES[annotation]:
        raise Refused(f"{what} takes {annotation}, not {value!r}")


_COMMANDS: Mapping[str, Callable[..., object]] = {
    name: function
    for name, function in vars(Commands).items()
    if inspect.isfunction(function) and not name.startswith("_") and name != "carry_out"
}
