"""Where received bytes land: the loop's buffer, and the memory of large frames."""

from broker.network.receive_buffer import FrameBuffers, LargeFrame, ReceiveBuffer
from broker.turn import Turn
from tests.support.fake_loop import FakeLoop


def buffer_and_loop():
    loop = FakeLoop()
    return ReceiveBuffer(Turn(loop.call_soon)), loop


def test_reads_of_a_turn_lie_behind_each_other_and_the_next_turn_begins_anew():
    """Views of a request live to the end of the turn."""
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


def test_there_is_always_room_and_earlier_views_stay():
    """A turn that brings more than a buffer holds goes on in another one."""
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


def test_memory_of_an_unusual_turn_is_given_back():
    """A few buffers are kept; what lies in the others stays as long as somebody looks at it."""
    receive, loop = buffer_and_loop()
    for number in range(400):
        last = receive.room()
        last[:] = bytes([number % 256]) * len(last)
        receive.claim(len(last))
    loop.turn()

    assert sum(len(buffer) for buffer in receive._buffers) <= 8 << 20
    assert bytes(last) == bytes([399 % 256]) * len(last)


def test_room_behind_puts_the_rest_of_a_frame_in_front():
    """So that it is decoded in one piece with what follows."""
    receive, _ = buffer_and_loop()
    receive.claim(5)
    room = receive.room_behind(b"head")
    room[:4] = b"tail"

    assert bytes(receive.view[5:13]) == b"headtail"


def test_a_large_frame_grows_with_its_bytes_and_ends_at_its_size():
    """Never beyond its own end, so that the next frame is not swallowed."""
    large = LargeFrame(1_000_000, memoryview(b"a" * 1000), FrameBuffers())
    sizes = [large.held_bytes]
    while not large.complete:
        room = large.room()
        if not room:
            large.grow()
            sizes.append(large.held_bytes)
            continue
        piece = min(len(room), 50_000)
        room[:piece] = b"b" * piece
        large.filled += piece

    assert bytes(large.view) == b"a" * 1000 + b"b" * 999_000
    assert sizes == [1 << 16, 1 << 19, 1 << 20]


def test_memory_of_frames_is_used_again_within_limits():
    """What was resident stays; a giant's memory goes back to the system."""
    buffers = FrameBuffers()
    first = LargeFrame(1_000_000, memoryview(b"x" * 200_000), buffers)
    memory = first._buffer
    first.release()

    assert LargeFrame(1_000_000, memoryview(b"y"), buffers)._buffer is memory

    giant = LargeFrame(50_000_000, memoryview(bytes(20_000_000)), buffers)
    giant.release()
    assert buffers._kept_bytes == 0
    for _ in range(20):
        buffers.give_back(bytearray(1 << 20))
    assert buffers._kept_bytes <= 8 << 20
