"""Write a session to a file, and as lines to standard output."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import Callable
from typing import BinaryIO

from tools.wire.sessions.conversation import PendingRequest
from tools.wire.sessions.described import described
from tools.wire.sessions.recording import SessionEvent, first_line, line

_FLUSH_S = 0.5


class Keeper:
    """Writes events in the order of the calls; callers wait while the buffer is full.

    Args:
    file: the recording, or None; the caller closes it.
    output: lines for people and programs, or None.
    failed: called once with the OSError that ends the recording; BrokenPipeError if the reader of the output ended.
    """

    def __init__(self, file: BinaryIO | None, output: Output | None, failed: Callable[[OSError], None]) -> None:
        self._file = file
        self._output = output
        self._failed = failed
        self._began_s = time.monotonic()
        self._is_ending = False
        self._flush: asyncio.TimerHandle | None = None

    @property
    def now_s(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began_s

    def begin(self, bootstrap: str) -> None:
        """Write the first line of the file."""
        self._began_s = time.monotonic()
        head = first_line(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), bootstrap)
        for kept in (self._file, self._output):
            if kept is not None:
                kept.write(head)

    def end(self) -> None:
        """Stop waiting for the reader of the lines."""
        self._is_ending = True

    async def keep(self, event: SessionEvent, pending: PendingRequest | None = None) -> None:
        """Write an event. Its order is fixed at the call; errors go only to `failed`."""
        try:
            if self._file is not None:
                self._file.write(line(event))
                if self._flush is None:
                    self._flush = asyncio.get_running_loop().call_later(_FLUSH_S, self._flush_now)
            if self._output is not None:
                self._output.write(described(event, pending))
                if not self._is_ending:
                    await self._output.drain()
        except OSError as error:
            self._failed(error)

    def _flush_now(self) -> None:
        self._flush = None
        try:
            assert self._file is not None
            self._file.flush()
        except OSError as error:
            self._failed(error)


class Output:
    """Standard output: a file, or a slow pipe or terminal, to which writes do not block the event loop."""

    def __init__(self, writer: asyncio.StreamWriter | None, descriptor: int) -> None:
        self._writer = writer
        self._descriptor = descriptor

    @classmethod
    async def open(cls, on_reader_end: Callable[[], None]) -> Output:
        """Open standard output; `on_reader_end` is called when its reader ends."""
        descriptor = sys.stdout.fileno()
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return cls(None, descriptor)
        loop = asyncio.get_running_loop()
        protocol = _Pipe(on_reader_end, loop)
        transport, _ = await loop.connect_write_pipe(lambda: protocol, os.fdopen(os.dup(descriptor), "wb", 0))
        return cls(asyncio.StreamWriter(transport, protocol, None, loop), descriptor)

    def write(self, data: bytes) -> None:
        """Errors: OSError."""
        if self._writer is not None:
            self._writer.write(data)
            return
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    async def drain(self) -> None:
        """Wait until the buffer has room. Raises OSError."""
        if self._writer is not None:
            await self._writer.drain()

    async def close(self) -> None:
        """Flush the buffer, if the reader reads it soon."""
        if self._writer is not None:
            self._writer.close()
            try:
                async with asyncio.timeout(_FLUSH_S):
                    await self._writer.wait_closed()
            except (TimeoutError, OSError):
                self._writer.transport.abort()


class _Pipe(asyncio.streams.FlowControlMixin):
    """The protocol of the StreamWriter; calls `on_reader_end` when the reader ends."""

    def __init__(self, on_reader_end: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._on_reader_end = on_reader_end
        self._closed = loop.create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self._closed.done():
            self._closed.set_result(None)
        self._on_reader_end()

    def _get_close_waiter(self, stream: object) -> asyncio.Future[None]:
        return self._closed
