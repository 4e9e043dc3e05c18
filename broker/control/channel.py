"""The pipe on which the program that started a broker sends it commands: lines of JSON on standard input and output.

    {"id": 1, "command": "roll", "arguments": {"topic": "orders"}}
    {"id": 1, "result": {"orders-0": 35}}        or    {"id": 1, "error": "there is no orders"}

The sender chooses `id`, and may omit `arguments`. The answer is sent when the command has finished, so answers may be
out of order. No other process has access: there is no port and no file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.control.clock import AdjustableClock
from broker.control.faults import FaultyDispatcher
from broker.control.links import Links
from broker.control.node_commands import NodeCommands, Refused
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.requests.dispatcher import Dispatcher
    from runtime.timers import Timers

    NewCommands = Callable[[AdjustableClock, FaultyDispatcher, Links], NodeCommands]

log = logging.getLogger(__name__)

_LONGEST_LINE = 1 << 20


class Channel:
    """Reads commands, and writes answers. `clock`, `make_dispatcher` and `links` are for the node that uses it.

    Args:
        write: writes a line of an answer, which is passed without its line end.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self.clock = AdjustableClock()
        self.make_dispatcher = FaultyDispatcher
        self.links = Links()
        self._write = write
        self._received = bytearray()
        self._commands: NodeCommands | None = None

    def open(self, new_commands: NewCommands, dispatcher: Dispatcher, timers: Timers) -> None:
        """Carry out commands from now on, first those that were received before: the node has started."""
        assert isinstance(dispatcher, FaultyDispatcher)
        dispatcher.call_later = timers.call_later
        self._commands = new_commands(self.clock, dispatcher, self.links)
        self._carry_out_lines()

    def feed(self, received: bytes) -> None:
        """Process bytes from standard input, however they are split."""
        self._received += received
        if self._commands is None:
            self._cut_links()
        self._carry_out_lines()

    def _cut_links(self) -> None:
        """Cut links before the node connects to others, if that was commanded. `open` carries the command out."""
        for line in self._received.splitlines():
            with suppress(ValueError, TypeError, KeyError):  # not a command: `open` answers it
                asked = json.loads(line)
                if asked["command"] == "cut_off":
                    links = asked["arguments"]
                    self.links.cut(links["sending_to"], links["receiving_from"])

    def _carry_out_lines(self) -> None:
        while self._commands is not None and (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            if line.strip():
                self._carry_out(line, self._commands)
        if len(self._received) > _LONGEST_LINE:
            self._answer(None, Refused(f"a line of more than {_LONGEST_LINE} bytes"))
            self._received.clear()

    def _carry_out(self, line: bytes, commands: NodeCommands) -> None:
        number: object = None
        try:
            asked = json.loads(line)
            if not isinstance(asked, Mapping):
                raise Refused('a line is an object such as {"id": 1, "command": "roll", "arguments": {...}}')
            number = asked.get("id")
            result = commands.carry_out(asked.get("command"), asked.get("arguments", {}))
        except ValueError as error:  # no JSON, or no UTF-8
            self._answer(number, Refused(f"not JSON: {error}"))
        except Exception as error:
            self._answer(number, error)
        else:
            if isinstance(result, Deferred):
                result.add_done_callback(lambda done: self._answer_later(number, done))
            else:
                self._answer(number, result)

    def _answer_later(self, number: object, done: Deferred[object]) -> None:
        try:
            result = done.result()
        except Exception as error:
            self._answer(number, error)
        else:
            self._answer(number, result)

    def _answer(self, number: object, result: object) -> None:
        answer = {"id": number}
        if isinstance(result, Exception):
            if not isinstance(result, Refused):
                log.error("A command failed", exc_info=result)
            answer["error"] = str(result) or type(result).__name__
        else:
            answer["result"] = result
        self._write(json.dumps(answer))
