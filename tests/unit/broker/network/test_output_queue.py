"""OutputQueue: bytes and file slices are sent in order, however little the socket takes at a time."""

import os
import socket

import pytest

from broker.network.output_queue import FileEndedEarly, OutputQueue, is_around_slice, joined


class Slice:
    """A part of a file that counts its releases."""

    def __init__(self, file, position, size):
        self.file, self.position, self.size = file, position, size
        self.releases = 0

    def __len__(self):
        return self.size

    def fileno(self):
        return self.file.fileno()

    def read(self):
        return os.pread(self.fileno(), self.size, self.position)

    def release(self):
        self.releases += 1


@pytest.fixture
def pair():
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    near.setblocking(False)
    far.setblocking(False)
    with near, far:
        yield near, far


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(range(256)) * 2000)
    with path.open("rb") as opened:
        yield opened


def drain(queue, near, far, step=7001):
    """Send and read in turn until everything is sent."""
    received = bytearray()
    while True:
        empty = queue.send(near)
        while True:
            try:
                received += far.recv(step)
            except BlockingIOError:
                break
        if empty:
            return bytes(received)


def test_bytes_and_slices_arrive_in_order(pair, file):
    """Each slice is released once."""
    data = bytes(range(256)) * 2000
    slices = [Slice(file, 100, 300_000), Slice(file, 5, 1), Slice(file, 0, 512_000)]
    queue = OutputQueue()
    queue.put([b"first", b"", memoryview(b"second"), slices[0], bytearray(b"x" * 100_000)])
    queue.put([slices[1], slices[2], b"last"])
    total = 5 + 6 + 300_000 + 100_000 + 1 + 512_000 + 4
    assert total == queue.size_bytes

    received = drain(queue, *pair)

    expected = b"firstsecond" + data[100:300_100] + b"x" * 100_000 + data[5:6] + data + b"last"
    assert expected == received
    assert queue.size_bytes == 0
    assert [each.releases for each in slices] == [1, 1, 1]


def test_more_pieces_than_one_sendmsg_takes(pair):
    queue = OutputQueue()
    queue.put([b"%d," % number for number in range(3000)])

    assert b"".join(b"%d," % number for number in range(3000)) == drain(queue, *pair)


def test_file_that_ends_early_is_an_error(pair, file):
    """sendfile returns 0 behind the end of the file. The length was sent already, so nothing else can follow."""
    queue = OutputQueue()
    queue.put([b"header", Slice(file, 511_990, 100)])

    with pytest.raises(FileEndedEarly):
        drain(queue, *pair)


def test_clear_releases_unsent_slices(pair, file):
    """When a connection ends, its files are released."""
    queue = OutputQueue()
    slices = [Slice(file, 0, 500_000), Slice(file, 0, 10), Slice(file, 0, 0)]
    queue.put([b"header", *slices])
    queue.send(pair[0])
    queue.clear()

    assert [each.releases for each in slices] == [1, 1, 1]
    assert queue.size_bytes == 0
    assert queue.send(pair[0])


def test_turn_sends_about_a_mebibyte(file):
    """So that a fast reader does not delay other connections."""

    class UnlimitedSocket:
        """A socket that takes everything."""

        def __init__(self):
            self.taken = 0

        def send(self, data, flags=0):
            return self.sendmsg([data])

        def sendmsg(self, pieces, ancillary=(), flags=0):
            size = sum(map(len, pieces))
            self.taken += size
            return size

    queue, greedy = OutputQueue(), UnlimitedSocket()
    for _ in range(10):
        queue.put([bytes(400_000)])

    assert not queue.send(greedy)
    assert 1_000_000 <= greedy.taken < 1_500_000


def test_broken_connection_is_an_error(pair):
    """The transport closes."""
    near, far = pair
    far.close()
    queue = OutputQueue()
    queue.put([b"x"])

    with pytest.raises(OSError, match="pipe"):
        queue.send(near)


def test_small_pieces_are_joined_and_small_slices_read(file):
    """One system call for many small pieces; large ones are sent as they are."""
    small, large = Slice(file, 10, 200), Slice(file, 0, 100_000)
    blob = bytes(50_000)

    pieces = joined([b"a", small, b"b", memoryview(b"c"), large, b"d", blob, b"e", bytearray(b"f")])

    data = bytes(range(256))
    assert [b"a" + data[10:210] + b"bc", large, b"d", blob, b"ef"] == pieces
    assert (small.releases, large.releases) == (1, 0)


def test_small_slice_behind_the_end_of_its_file(file):
    """It is an error, and everything is released."""
    slices = [Slice(file, 0, 100_000), Slice(file, 511_999, 100)]

    with pytest.raises(FileEndedEarly):
        joined([b"header", *slices])
    assert [each.releases for each in slices] == [1, 1]


@pytest.mark.parametrize("tail", [b"", b"t" * 500])
@pytest.mark.parametrize("before", [0, 10, 12_000, 16_000])
@pytest.mark.parametrize("size", [5_000, 14_000, 400_000])
def test_head_slice_and_tail_are_sent_in_one_go(pair, file, before, size, tail):
    """The rest that the socket does not take is queued, from the middle of head, slice or tail."""
    near, _ = pair
    queue = OutputQueue()
    filler, head, piece = b"f" * before, b"h" * 3000, Slice(file, 7, size)
    chunks = [head, piece, tail] if tail else [head, piece]
    if filler:
        near.send(filler)
    assert is_around_slice(chunks)

    done = queue.send_around(near, *chunks)
    assert done == (queue.size_bytes == 0)
    queue.put([b"next"])

    expected = filler + head + (bytes(range(256)) * 2000)[7 : 7 + size] + tail + b"next"
    assert drain(queue, *pair) == expected
    assert piece.releases == 1
    assert queue.sendfile_bytes == size


def test_head_slice_and_tail_with_a_short_file(pair, file):
    """The connection breaks, and the file is released."""
    piece = Slice(file, 512_000, 5_000)

    with pytest.raises(FileEndedEarly):
        OutputQueue().send_around(pair[0], b"head", piece, b"tail")
    assert piece.releases == 1


def test_other_responses_use_the_queue(file):
    """Small slices, several slices, and other orders of pieces."""
    small, large = Slice(file, 0, 100), Slice(file, 0, 100_000)
    for chunks in (
        [b"head", small],
        [large, b"tail"],
        [b"head", b"tail"],
        [b"head", large, large],
        [b"head", large, b"middle", large],
        [memoryview(b"head"), large],
    ):
        assert not is_around_slice(chunks)
