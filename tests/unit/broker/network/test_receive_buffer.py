"""Memory for received bytes: the loop's buffer, and the memory of large frames."""

import pytest

from broker.network.receive_buffer import FrameBuffers, LargeFrame, ReceiveBuffer
from runtime.turn import Turn
from tests.support.fake_loop import FakeLoop


def buffer_and_loop():
    loop = FakeLoop()
    return ReceiveBuffer(Turn(loop.call_soon)), loop


def test_reads_of_a_turn_do_not_overlap():
    """Views of a request are valid to the end of the turn; the next turn starts at the front."""
    receive, loop = buffer_and_loop()
    views = []
    for number in range(3):
        room = receive.room()
        room[:10] = bytes([number]) * 10
        views.append(room[:10])
        receive.claim(10)

    assert [bytes([number]) * 10 for number in range(3)] == [bytes(view) for view in views]
    loop.turn()
    assert receive.position == 0


def test_buffer_always_has_room():
    """A turn that receives more than a buffer holds continues in another one; earlier views stay valid."""
    receive, loop = buffer_and_loop()
    views = []
    for number in range(40):
        room = receive.room()
        assert len(room) == 128 * 1024
        room[:] = bytes([number]) * len(room)
        views.append((number, room))
        receive.claim(len(room))

    assert all(bytes([number]) * len(view) == bytes(view) for number, view in views)
    loop.turn()
    assert receive.position == 0
    assert receive.view is receive._buffers[0]


def test_memory_of_a_large_turn_is_freed():
    """A few buffers are kept. Others live as long as views of them."""
    receive, loop = buffer_and_loop()
    for number in range(400):
        last = receive.room()
        last[:] = bytes([number % 256]) * len(last)
        receive.claim(len(last))
    loop.turn()

    assert sum(len(buffer) for buffer in receive._buffers) <= 8 << 20
    assert bytes(last) == bytes([399 % 256]) * len(last)


def test_start_of_a_frame_is_moved_to_the_front():
    """So that it is decoded in one piece with its rest."""
    receive, _ = buffer_and_loop()
    receive.claim(5)
    room = receive.space_after(b"head")
    room[:4] = b"tail"

    assert bytes(receive.view[5:13]) == b"headtail"


def test_large_frame_grows_with_its_bytes_to_its_size():
    """Never beyond its end, so that the next frame is not part of it."""
    buffers = FrameBuffers()
    large = LargeFrame(1_000_000, memoryview(b"a" * 1000), buffers.take(buffers.next_size(1_000_000, 1000)))
    sizes = [large.held_bytes]
    while not large.complete:
        room = large.room()
        if not room:
            large.move(buffers.take(buffers.next_size(large.size, large.filled)))
            sizes.append(large.held_bytes)
            continue
        piece = min(len(room), 50_000)
        room[:piece] = b"b" * piece
        large.filled += piece

    assert bytes(large.view) == b"a" * 1000 + b"b" * 999_000
    assert sizes == [1 << 16, 1 << 19, 1 << 20]


def test_frame_memory_is_reused_within_limits():
    """Resident memory is kept; that of a very large frame is freed."""
    buffers = FrameBuffers()
    memory = buffers.take(1 << 20)
    buffers.give_back(memory)

    assert buffers.next_size(1_000_000, 1) == 1 << 20
    assert buffers.take(1 << 20) is memory
    assert buffers.next_size(1_000_000, 1) == 1 << 16

    buffers.give_back(buffers.take(buffers.next_size(50_000_000, 20_000_000)))
    assert buffers._kept_bytes == 0
    for _ in range(20):
        buffers.give_back(bytearray(1 << 20))
    assert buffers._kept_bytes <= 8 << 20


@pytest.mark.parametrize(
    ("size", "buffer"), [(1, 65_536), (65_537, 131_072), (4_194_304, 4_194_304), (4_194_305, 4_194_305)]
)
def test_buffer_sizes_are_powers_of_two(size, buffer):
    """As far as buffers are kept for reuse."""
    assert FrameBuffers().size_of(size) == buffer
