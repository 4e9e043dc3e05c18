"""The commands of a test for every node, also for a controller: faults, network, time.

Each public method is a command, with the method's arguments. A command that takes time returns a Deferred. It raises
Refused with a line of text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from broker.control.clients import Clients
from broker.control.clock import AdjustableClock
from broker.control.faults import Fault, FaultyDispatcher
from broker.control.links import Links
from protocol.error_codes import ErrorCode
from protocol.registry import API_BY_KEY

if TYPE_CHECKING:
    from broker.network.server import Server
    from runtime.timers import Timers

_NOBODY: list[int] = []


class Refused(Exception):
    """Why a command was not carried out, in one line."""


class NodeParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a node that commands act on."""

    timers: Timers
    server: Server


class NodeCommands:
    """The commands of every node, also of a controller. The methods belong to the event loop's thread.

    Args:
        controller: the controller in a broker's process, which has listeners and timers of its own.
    """

    def __init__(
        self,
        node: NodeParts,
        clock: AdjustableClock,
        dispatcher: FaultyDispatcher,
        links: Links,
        controller: NodeParts | None = None,
    ) -> None:
        self._clock = clock
        self._links = links
        self._dispatcher = dispatcher
        self._controller_dispatcher: FaultyDispatcher | None = None
        nodes = [node]
        if controller is not None:
            nodes.append(controller)
            of_controller = controller.server.dispatcher
            assert isinstance(of_controller, FaultyDispatcher)
            of_controller.call_later = controller.timers.call_later
            self._controller_dispatcher = of_controller
        self._timers = [each.timers for each in nodes]
        self._clients = [Clients(each.server) for each in nodes]

    def carry_out(self, command: object, arguments: object) -> object:
        """Call a command by its name. Raises Refused for an unknown command, or wrong arguments."""
        commands = _commands_of(type(self))
        known = commands.get(command) if isinstance(command, str) else None
        if known is None:
            raise Refused(f"unknown command {command!r}; the commands are {', '.join(commands)}")
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

    # -- faults: `controller` means requests to the controller listeners of a node that is also a broker ---------------

    def delay(self, api: str, delay_ms: int, count: int = 1, controller: bool = False) -> None:
        """Delay the next `count` requests of an API by this many milliseconds."""
        self._add(api, Fault(_at_least("count", count, 1), delay_ms=_at_least("delay_ms", delay_ms, 0)), controller)

    def fail_next(self, api: str, error: str, count: int = 1, controller: bool = False) -> None:
        """Answer the next `count` requests of an API with a protocol error, given by name, without serving them."""
        code = ErrorCode.__members__.get(error)
        if code is None or code is ErrorCode.NONE:
            raise Refused(f"{error!r} is not an error of the protocol such as NOT_LEADER_OR_FOLLOWER")
        self._add(api, Fault(_at_least("count", count, 1), error=code), controller)

    def disconnect_next(self, api: str, count: int = 1, carried_out: bool = False, controller: bool = False) -> None:
        """Close the connection at the next `count` requests of an API; with `carried_out` after serving them."""
        self._add(api, Fault(_at_least("count", count, 1), is_served=carried_out), controller)

    def clear_faults(self) -> None:
        """Remove all pending faults."""
        self._dispatcher.clear()
        if self._controller_dispatcher is not None:
            self._controller_dispatcher.clear()

    # -- network -------------------------------------------------------------------------------------------------------

    def cut_off(
        self, clients: bool = True, sending_to: list[int] = _NOBODY, receiving_from: list[int] = _NOBODY
    ) -> None:
        """Cut the network, instead of how it was cut before. Nothing is lost for good: it arrives afterwards.

        Args:
            clients: cut off the clients, and other nodes where they have opened the connection.
            sending_to, receiving_from: cut these directions of links to other nodes, given by ports on this machine.
        """
        self._links.cut(sending_to, receiving_from)
        for each in self._clients:
            if clients:
                each.cut()
            else:
                each.reconnect()

    def reconnect(self) -> None:
        """End all cuts of the network."""
        self.cut_off(clients=False)

    # -- time ----------------------------------------------------------------------------------------------------------

    def move_time_on(self, milliseconds: int, deadlines: bool = True) -> int:
        """Advance the clock; timers that are due fire next. Return the new time, in ms since 1970.

        Without `deadlines` only the time of day moves: sessions, timeouts and timers do not.
        """
        self._clock.move_on(_at_least("milliseconds", milliseconds, 0), deadlines=deadlines)
        for timers in self._timers:
            timers.clock_moved()
        return self._clock.now_ms()

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _add(self, api: str, fault: Fault, controller: bool) -> None:
        dispatcher = self._controller_dispatcher if controller else self._dispatcher
        if dispatcher is None:
            raise Refused("controller: this node is not broker and controller")
        keys = {API_BY_KEY[key].name: key for key in dispatcher.served}
        if api not in keys:
            raise Refused(f"there is no API {api!r}, such as {API_BY_KEY[min(dispatcher.served)].name}")
        dispatcher.add(keys[api], fault)


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
    "list[int]": (list,),
}


def _check_type(what: str, value: object, annotation: str) -> None:
    """Check a value against an annotation. For Python a bool is an int; here it is not."""
    items = value if isinstance(value, list) else []
    if type(value) not in _TYPES[annotation] or not all(type(each) is int for each in items):
        raise Refused(f"{what} takes {annotation}, not {value!r}")


def _commands_of(kind: type[NodeCommands]) -> Mapping[str, Callable[..., object]]:
    return {
        name: function
        for each in reversed(kind.__mro__)
        for name, function in vars(each).items()
        if inspect.isfunction(function) and not name.startswith("_") and name != "carry_out"
    }
