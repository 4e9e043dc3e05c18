"""The pipes to a broker's process: commands and responses, as lines of JSON. broker/control/channel.py serves them."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from typing import Any

from pybroker.testing.errors import BrokerError

_GONE = "the broker is not running"
_AT_ONCE = 65_536


class Channel:
    """Sends one command at a time, from any thread.

    Args:
        commands, answers: file descriptors; the caller closes them.
        timeout_s: how long to wait for a response, in seconds.
    """

    def __init__(self, commands: int, answers: int, timeout_s: float = 60) -> None:
        self._commands = commands
        self._answers = answers
        self._readable = select.poll()  # select() fails for descriptors above 1,023, which a test process may have
        self._readable.register(answers, select.POLLIN)
        self._timeout_s = timeout_s
        self._received = b""
        self._number = 0
        self._lock = threading.Lock()

    def ask(self, command: str, **arguments: object) -> Any:
        """Run a command and return its result. Raises BrokerError with the reason if the broker refuses it."""
        with self._lock:
            self._number += 1
            asked = {"id": self._number, "command": command, "arguments": arguments}
            try:
                os.write(self._commands, json.dumps(asked).encode() + b"\n")
            except OSError:
                raise BrokerError(_GONE) from None
            until = time.monotonic() + self._timeout_s
            while (answer := json.loads(self._line(command, until)))["id"] != self._number:
                pass  # the response to a command that timed out
        if "error" in answer:
            raise BrokerError(answer["error"])
        return answer["result"]

    def _line(self, command: str, until: float) -> bytes:
        while b"\n" not in self._received:
            if not self._readable.poll(max(0, until - time.monotonic()) * 1000):
                raise BrokerError(f"{command}: no answer within {self._timeout_s:g} s")
            received = os.read(self._answers, _AT_ONCE)
            if not received:
                raise BrokerError(_GONE)
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line
