"""The network room on real loopback sockets, with well-behaved and misbehaving clients."""

from __future__ import annotations

import hashlib
import random
import socket
import threading
import time

import pytest

from protocol.messages.fetch import FETCH
from tests.support.echo_application import ECHO, FILE_BYTES, WAIT, Slice, connect, fetch
from tests.support.eventually import eventually
from tests.support.scale import scaled
from tests.support.wire import Closed


def test_split_and_joined_frames_get_equal_responses(server):
    """Requests are sent byte by byte, and many in one segment."""
    with connect(server) as client:
        for number in range(3):
            for byte in client.request_frame(ECHO, 2, auth_bytes=b"%d" % number):
                client.socket.sendall(bytes([byte]))
            client.expect(ECHO, 2, number + 1)
            assert b"%d" % number == client.receive().auth_bytes

        frames = [client.request_frame(ECHO, 2, auth_bytes=bytes([number]) * number) for number in range(200)]
        client.socket.sendall(b"".join(frames))
        for number in range(200):
            client.expect(ECHO, 2, number + 4)
        assert [bytes([number]) * number for number in range(200)] == [client.receive().auth_bytes for _ in frames]


@pytest.mark.parametrize("size", [100_000, 1_048_576, 9_000_000])
def test_large_requests_are_answered(server, size):
    """Batches of 1 MiB and more; the response is as large."""
    blob = random.Random(size).randbytes(size)
    with connect(server) as client:
        for _ in range(3):
            assert blob == client.call(ECHO, 2, auth_bytes=blob).auth_bytes


def test_responses_keep_their_order_behind_a_long_poll(server, application):
    with connect(server) as client:
        client.send(ECHO, 2, auth_bytes=b"1")
        client.send(WAIT, 4)
        client.send(ECHO, 2, auth_bytes=b"2")
        assert client.receive().auth_bytes == b"1"
        eventually(lambda: len(application.waiting) == 1)
        with connect(server) as other:  # the response to the first shows that all its bytes were received
            other.call(WAIT, 4, generation_id=1)
        assert len(application.started) == 1
        server.ask(lambda: application.waiting[0].resolve(WAIT.response()))
        assert client.receive().error_code == 0
        assert client.receive().auth_bytes == b"2"


def test_disconnect_cancels_a_waiting_request(server, application):
    """The broker notices the disconnect even while too many requests queue behind the waiting one."""
    with connect(server) as client:
        client.send(WAIT, 4)
        eventually(lambda: len(application.waiting) == 1)
    eventually(lambda: application.cancelled == 1)

    with connect(server) as client:
        client.send(WAIT, 4)
        client.socket.setblocking(False)
        try:
            while True:
                client.socket.send(bytes(100_000))
        except BlockingIOError:
            pass
        eventually(lambda: any(connection._rest_full for connection in server.server.connections))
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    eventually(lambda: application.cancelled == 2)
    eventually(lambda: not list(server.server.connections))


def test_closed_connection_is_noticed_without_reading(server, application):
    """A FIN, not only a reset, cancels the waiting request."""
    with connect(server) as client:
        client.send(WAIT, 4)
        for _ in range(100):
            client.send(ECHO, 2, auth_bytes=bytes(1000))
        eventually(lambda: any(connection._rest_full for connection in server.server.connections))
        client.socket.shutdown(socket.SHUT_WR)
        eventually(lambda: application.cancelled == 1)
        with pytest.raises(Closed):
            client.receive()


def test_requests_before_a_half_close_are_served(server, application):
    """A producer with acks=0 writes and closes. None of its requests may be lost because the broker is slower."""
    count = 3000
    with connect(server) as client:
        frames = b"".join(client.request_frame(ECHO, 2, auth_bytes=bytes(300)) for _ in range(count))
        reader = threading.Thread(target=lambda: [client.receive_frame() for _ in range(count)])
        reader.start()
        client.socket.sendall(frames)
        client.socket.shutdown(socket.SHUT_WR)
        reader.join()
        assert client.is_closed()
    assert len(application.started) == count


def test_half_closed_connection_gets_its_responses(server):
    """A client that shuts down its sending side reads all responses, and then EOF."""
    with connect(server) as client:
        for number in range(100):
            client.send(ECHO, 2, auth_bytes=b"%d" % number)
        client.socket.shutdown(socket.SHUT_WR)
        assert [b"%d" % number for number in range(100)] == [client.receive().auth_bytes for _ in range(100)]
        assert client.is_closed()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        (104_857_601).to_bytes(4) + bytes(100),
        b"\0\0\0\x04abcd",
    ],
)
def test_garbage_closes_only_its_connection(server, garbage):
    """HTTP, TLS, negative, empty, oversized and random frames."""
    with connect(server) as good, connect(server) as bad:
        bad.socket.sendall(garbage)
        assert bad.is_closed()
        assert good.call(ECHO, 2, auth_bytes=b"still here").auth_bytes == b"still here"
    eventually(lambda: not list(server.server.connections))


def test_random_bytes_do_not_stop_the_server(server):
    """Each connection is closed or waits for more bytes."""
    chance = random.Random(11)
    for _ in range(scaled(40)):
        with connect(server) as bad:
            size = chance.randrange(1, 200)
            data = chance.randbytes(size)
            if chance.random() < 0.7:
                data = size.to_bytes(4) + data
            try:
                bad.socket.sendall(data)
                bad.socket.shutdown(socket.SHUT_WR)
            except OSError:
                continue
            assert bad.is_closed()
    with connect(server) as good:
        assert good.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"


def test_file_slices_arrive_whole_at_a_slow_reader(server, application):
    """The client reads several partitions in small, irregular steps and gets the bytes of the files."""
    pieces = [(0, 1_000_000), (17, 1), (500_000, 2_500_000), (3, 70_000)]
    chance = random.Random(3)
    with connect(server) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
        for _ in range(2):
            client.send(FETCH, 11, **fetch(*pieces))
        received = bytearray(client.socket.recv(4))
        total = 2 * (4 + int.from_bytes(received))
        while len(received) < total:
            piece = client.socket.recv(chance.randrange(1, 60_000))
            assert piece
            received += piece
            if chance.random() < 0.05:
                time.sleep(0.001)
    half = total // 2
    for frame in (received[:half], received[half:]):
        answer, end = FETCH.response.decode(11, bytes(frame), 8)
        assert half == end
        checksums = [hashlib.sha256(each.records).digest() for each in answer.responses[0].partitions]
        assert [hashlib.sha256(application.data[at : at + size]).digest() for at, size in pieces] == checksums
    eventually(lambda: Slice.releases == 2 * len(pieces))


def test_stalled_reader_delays_only_itself(server, application):
    """Its response stays in files, other clients are served, and closing it frees everything."""
    with connect(server) as stopped, connect(server) as other:
        for _ in range(50):
            stopped.send(FETCH, 11, **fetch((0, FILE_BYTES)))
        for _ in range(20):
            assert other.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        queued = [connection.transport.queued_bytes for connection in server.server.connections]
        assert max(queued) <= FILE_BYTES + 1_100_000
    eventually(lambda: not list(server.server.connections))
    assert Slice.releases <= 50


def test_truncated_file_slice_closes_the_connection(server, application):
    """The response's length was sent already, so nothing else can follow."""
    with connect(server) as client:
        client.send(FETCH, 11, **fetch((FILE_BYTES - 10, 100)))
        with pytest.raises(Closed):
            client.receive()
    assert Slice.releases == 1


def test_burst_of_connections_is_served(server):
    clients = [connect(server) for _ in range(300)]
    for client in clients:
        client.send(ECHO, 2, auth_bytes=b"here")
    assert [client.receive().auth_bytes for client in clients] == [b"here"] * 300
    for client in clients:
        client.close()
    eventually(lambda: not list(server.server.connections))


def test_pipelines_of_threads_keep_their_order(server):
    """Four clients pipeline requests of all kinds. Each gets its own bytes in its own order."""
    failures = []

    def run_client(seed):
        chance = random.Random(seed)
        try:
            with connect(server) as client:
                for _ in range(scaled(10)):
                    blobs = []
                    for _ in range(chance.randrange(1, 30)):
                        blob = chance.randbytes(chance.choice([0, 10, 1000, 20_000, 150_000]))
                        if chance.random() < 0.1:
                            client.send(WAIT, 4, generation_id=chance.randrange(1, 5))
                            blobs.append(None)
                        client.send(ECHO, 2, auth_bytes=blob)
                        blobs.append(blob)
                    for blob in blobs:
                        answer = client.receive()
                        assert answer.error_code == 0 if blob is None else answer.auth_bytes == blob
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run_client, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
