"""Track which lines of a log were sent, and up to where all are acknowledged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pybroker.ship.log_file import LogFile
from pybroker.ship.positions import Position


@dataclass(slots=True)
class Sent:
    """A line that was sent."""

    file: LogFile
    end: int
    is_acknowledged: bool = False


class Progress:
    """The lines of one log in sending order. Acknowledgements arrive in any order."""

    def __init__(self, start: Position | None) -> None:
        self._position = start
        self._reached: Sent | None = None
        self._on_their_way: deque[Sent] = deque()

    def sending(self, file: LogFile, start: int, end: int) -> Sent:
        """Record a line that is handed to the producer now.

        If the position does not identify its file yet, because the file was missing or empty, the position becomes the
        start of this line: the file may have another name when a restart looks for it.
        """
        if self._position is None or not self._position.head_bytes:
            self._position = file.position_at(start)
        sent = Sent(file, end)
        self._on_their_way.append(sent)
        return sent

    def forget_last(self, sent: Sent) -> None:
        """Forget the last line: the producer did not accept it."""
        assert self._on_their_way.pop() is sent

    def acknowledged(self, sent: Sent) -> None:
        """Record that a line is in the topic, or never will be."""
        sent.is_acknowledged = True
        while self._on_their_way and self._on_their_way[0].is_acknowledged:
            self._reached = self._on_their_way.popleft()

    @property
    def position(self) -> Position | None:
        """Return the position before the first line that is not acknowledged."""
        if self._reached is not None:
            self._position = self._reached.file.position_at(self._reached.end)
            self._reached = None
        return self._position
