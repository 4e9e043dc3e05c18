"""Memory that several connections receive into: every frame arrives whole, and its memory is used again."""

from __future__ import annotations

import pytest

from broker.network.outbound_connection import OutboundConnection
from broker.network.shared_memory import SharedMemory
from protocol.framing import frame

#: Of all kinds: in one read, with a rest that is kept, and with memory of its own.
BODIES = [b"", b"a", b"bc" * 5_000, b"d" * 300_000, b"e", b"f" * 100_000, b"g" * (5 << 20), b"h"]


class Receiver:
    """A connection, and the frames that it has received."""

    def __init__(self, memory: SharedMemory) -> None:
        self.frames: list[bytes] = []
        self.memory_of: list[object] = []
        self._connection = OutboundConnection(8 << 20, self._take, lambda _: None, lambda: None, memory=memory)

    def _take(self, body: memoryview) -> None:
        self.frames.append(bytes(body))
        self.memory_of.append(body.obj)

    def receive(self, data: bytes) -> None:
        """Receive all of it, by as many reads as that takes."""
        while data:
            room = self._connection.get_buffer(-1)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self._connection.buffer_updated(size)
            data = data[size:]


@pytest.mark.parametrize("piece", [1_000, 16_384, 65_537, 1 << 30])
def test_frames_of_two_connections_arrive_whole(piece: int) -> None:
    memory = SharedMemory()
    first, second = Receiver(memory), Receiver(memory)
    data = b"".join(map(frame, BODIES))
    other = b"".join(frame(body.upper()) for body in BODIES)
    for start in range(0, len(data), piece):
        first.receive(data[start : start + piece])
        second.receive(other[start : start + piece])
    assert first.frames == BODIES
    assert second.frames == [body.upper() for body in BODIES]


def test_memory_is_used_again() -> None:
    receiver = Receiver(SharedMemory())
    for size in (400_000, 500_000, 300_000):
        receiver.receive(frame(bytes(size)))
    assert len(set(map(id, receiver.memory_of))) == 1
