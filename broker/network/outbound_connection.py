"""The transport of a connection to another broker: frames out, frames in.

asyncio calls `get_buffer` and `buffer_updated`; no coroutine receives. Small frames share one buffer and are copied
from it. A larger frame is received into memory of its own, which its views keep: the records of a Fetch are not copied.
With a `SharedMemory` no frame is copied or has memory of its own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from mmap import mmap
from typing import TYPE_CHECKING, cast

from protocol.error_codes import ProtocolError
from protocol.framing import SIZE_BYTES, frame_size

if TYPE_CHECKING:
    from broker.network.receive_buffer import Room
    from broker.network.shared_memory import SharedMemory

#: The buffer of small frames, and the size from which a frame gets its own memory.
_BUFFER_BYTES, _LARGE_BYTES = 64 << 10, 16 << 10
#: Memory from this size on is the system's, which supplies it as bytes arrive: a claimed size allocates nothing.
_MAPPED_BYTES = 1 << 20
#: The system sizes the receive buffer by the connection's traffic.
SYSTEM_BUFFER = -1


class OutboundConnection(asyncio.BufferedProtocol):
    """An established connection. Its callbacks get no call after `on_lost`.

    Args:
        max_frame_bytes: a larger frame closes the connection.
        on_frame: called with each frame, without its size. The memory is not used again, unless it is shared.
        on_lost: called once, with the reason, or None if the peer closed the connection.
        on_writable: called when data can be sent again after `is_writable` was False.
        receive_buffer_bytes: SO_RCVBUF.
        memory: where to receive, together with other connections. A frame is valid until `on_frame` returns.
    """

    def __init__(
        self,
        max_frame_bytes: int,
        on_frame: Callable[[memoryview], None],
        on_lost: Callable[[Exception | None], None],
        on_writable: Callable[[], None],
        receive_buffer_bytes: int = SYSTEM_BUFFER,
        memory: SharedMemory | None = None,
    ) -> None:
        self.is_writable = True
        self._max_frame_bytes = max_frame_bytes
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_writable = on_writable
        self._receive_buffer_bytes = receive_buffer_bytes
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self._error: Exception | None = None
        self._memory = memory
        self._room = memoryview(bytearray(_BUFFER_BYTES)) if memory is None else memory.room
        #: The beginning of a small frame.
        self._rest = b""
        self._large: memoryview | None = None
        self._filled = 0

    @property
    def is_closed(self) -> bool:
        """Return whether the connection is closed, or being closed."""
        return self._is_closed

    def send(self, data: bytes) -> None:
        """Send a frame, given with its size."""
        if self._transport is not None and not self._is_closed:
            self._transport.write(data)

    def close(self, error: Exception | None = None) -> None:
        """Close the connection now. `on_lost` is called in a later turn, with this error."""
        if not self._is_closed:
            self._is_closed = True
            self._error = error
            if self._transport is not None:
                self._transport.abort()

    # -- called by asyncio ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        if self._is_closed:
            self._transport.abort()
        elif self._receive_buffer_bytes != SYSTEM_BUFFER:
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._large = None
        self._on_lost(self._error or exc)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        if not self._is_closed:
            self._on_writable()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return self._large[self._filled :]
        room, rest = self._room, self._rest
        if not rest:
            return room
        room[: len(rest)] = rest
        return room[len(rest) :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_closed:
            return
        if self._large is None:
            try:
                self._take_frames(len(self._rest) + nbytes)
            except ProtocolError as error:
                self.close(error)
            return
        self._filled += nbytes
        if self._filled == len(self._large):
            frame, self._large = self._large, None
            self._on_frame(frame)
            if self._memory is not None:
                self._memory.frames.give_back(cast("Room", frame.obj))

    def _take_frames(self, end: int) -> None:
        """Pass on the whole frames of the first `end` bytes of the room. Raises ProtocolError."""
        room, position = self._room, 0
        while not self._is_closed:
            size = frame_size(room, position, end, self._max_frame_bytes)
            if size is None:
                break
            start = position + SIZE_BYTES
            if start + size > end:
                if size > _LARGE_BYTES:
                    self._receive_large(size, room[start:end])
                    return
                break
            position = start + size
            frame = room[start:position]
            self._on_frame(memoryview(bytes(frame)) if self._memory is None else frame)
        self._rest = bytes(room[position:end])

    def _receive_large(self, size: int, head: memoryview) -> None:
        if self._memory is not None:
            frames = self._memory.frames
            self._large = memoryview(frames.take(frames.size_of(size)))[:size]
        else:
            self._large = memoryview(mmap(-1, size) if size >= _MAPPED_BYTES else bytearray(size))
        self._filled, self._rest = len(head), b""
        self._large[: self._filled] = head
