"""Encryption in pieces, and sockets that take only part of them."""

from __future__ import annotations

import pytest

from broker.network.output_queue import FileEndedEarly
from broker.network.tls import _PIECE_BYTES, TlsOutputQueue


class Slice:
    """A slice of a file that has become `cut` bytes shorter."""

    def __init__(self, data: bytes, cut: int = 0) -> None:
        self.data = data
        self.there = data[: len(data) - cut]
        self.released = 0
        self.position = 0

    def __len__(self) -> int:
        return len(self.data)

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        assert not self.released
        return self.there[start : None if size is None else start + size]

    def release(self) -> None:
        self.released += 1


class Socket:
    """Takes this many bytes at a time, this many times."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.taken = bytearray()
        self.offered: list[bytes] = []

    def send(self, data: bytes) -> int:
        if not self.sizes:
            self.offered.append(data)
            raise BlockingIOError
        size = min(self.sizes.pop(0), len(data))
        self.taken += data[:size]
        return size


def test_chunks_and_slices_keep_their_order() -> None:
    """Small chunks are joined, and a slice is read when its turn comes."""
    queue, piece = TlsOutputQueue(bytes), Slice(b"slice")
    queue.put([b"head ", piece, memoryview(b" tail"), b""])  # type: ignore[list-item]
    sock = Socket(3, 100)
    assert queue.size_bytes == 15
    assert queue.send(sock)  # type: ignore[arg-type]
    assert (bytes(sock.taken), queue.size_bytes, piece.released) == (b"head slice tail", 0, 1)


def test_unsent_piece_is_offered_again_unchanged() -> None:
    """OpenSSL has begun a record, whose rest has to follow."""
    queue, sock = TlsOutputQueue(bytes), Socket(2)
    queue.put([b"abcdef"])
    assert not queue.send(sock)  # type: ignore[arg-type]
    queue.put([b"ghi"])
    assert not queue.send(sock)  # type: ignore[arg-type]
    assert sock.offered == [b"cdef", b"cdef"]
    sock.sizes = [100, 100]
    assert queue.send(sock)  # type: ignore[arg-type]
    assert sock.taken == b"abcdefghi"


def test_piece_is_not_copied_for_each_record() -> None:
    queue, sock = TlsOutputQueue(bytes), Socket()
    queue.put([bytes(100)])
    for taken in (10, 20, 30):
        sock.sizes = [taken]
        assert not queue.send(sock)  # type: ignore[arg-type]
    assert [len(offered) for offered in sock.offered] == [90, 70, 40]
    assert len({id(memoryview(offered).obj) for offered in sock.offered}) == 1


def test_large_slice_is_read_in_pieces() -> None:
    data = bytes(range(256)) * (3 * _PIECE_BYTES // 256) + b"end"
    queue, piece, sock = TlsOutputQueue(bytes), Slice(data), Socket()
    queue.put([piece])  # type: ignore[list-item]
    while not queue.send(sock):  # type: ignore[arg-type]
        assert len(sock.offered[-1]) <= _PIECE_BYTES
        sock.sizes = [100_000]
    assert sock.taken == data
    assert piece.released == 1


def test_file_that_ends_early_is_an_error() -> None:
    """Its length was sent, so nothing else can follow."""
    queue = TlsOutputQueue(bytes)
    queue.put([Slice(b"slice", cut=1)])  # type: ignore[list-item]
    with pytest.raises(FileEndedEarly):
        queue.send(Socket(100))  # type: ignore[arg-type]


def test_disconnect_releases_files() -> None:
    queue, piece = TlsOutputQueue(bytes), Slice(bytes(2 * _PIECE_BYTES))
    queue.put([piece])  # type: ignore[list-item]
    queue.send(Socket(10))  # type: ignore[arg-type]
    queue.clear()
    assert (queue.size_bytes, piece.released) == (0, 1)
    assert queue.send(Socket())  # type: ignore[arg-type]
