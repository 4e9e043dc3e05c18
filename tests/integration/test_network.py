"""The network room on real sockets of loopback: what clients do to a server, well or badly."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import socket
import threading
import time
from pathlib import Path

import pytest

from broker.deferred import Deferred
from protocol.messages.fetch import FETCH, FetchableTopicResponse, PartitionData
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from tests.support.network import ServerThread, request_frame
from tests.support.scale import scaled
from tests.support.wire import Closed, WireClient

ECHO, WAIT = SASL_AUTHENTICATE, HEARTBEAT
FILE_BYTES = 3_000_000


class Slice:
    """A piece of a file that counts how often it is let go."""

    releases = 0

    def __init__(self, fd, position, size):
        self.fd, self.position, self.size = fd, position, size

    def __len__(self):
        return self.size

    def fileno(self):
        return self.fd

    def read(self):
        return os.pread(self.fd, self.size, self.position)

    def release(self):
        Slice.releases += 1


class Application:
    """ECHO answers what it is sent, WAIT waits for `answer`, FETCH sends a slice of a file."""

    def __init__(self, path: Path):
        self.data = random.Random(7).randbytes(FILE_BYTES)
        path.write_bytes(self.data)
        self.fd = os.open(path, os.O_RDONLY)
        self.waiting = []
        self.cancelled = 0
        self.started = []

    def echo(self, ctx, request):
        self.started.append(ctx.correlation_id)
        return ECHO.response(auth_bytes=bytes(request.auth_bytes))

    def wait(self, ctx, request):
        deferred = Deferred()
        deferred.on_cancel(self._on_cancel)
        self.waiting.append(deferred)
        if request.generation_id:
            ctx.broker.timers.call_later(request.generation_id, lambda: deferred.resolve(WAIT.response()))
        return deferred

    def fetch(self, ctx, request):
        slices = []
        for topic in request.topics:
            for partition in topic.partitions:
                records = Slice(self.fd, partition.fetch_offset, partition.partition_max_bytes)
                slices.append(PartitionData(partition_index=partition.partition, records=records))
        return FETCH.response(responses=[FetchableTopicResponse(topic="t", partitions=slices)])

    def _on_cancel(self):
        self.cancelled += 1

    @property
    def handlers(self):
        return {ECHO: self.echo, WAIT: self.wait, FETCH: self.fetch}


@pytest.fixture
def application(tmp_path):
    Slice.releases = 0
    application = Application(tmp_path / "segment")
    yield application
    os.close(application.fd)


@pytest.fixture(params=["uvloop", "asyncio"])
def server(request, application):
    with ServerThread(application.handlers, use_uvloop=request.param == "uvloop") as server:
        yield server


def connect(server, **options):
    return WireClient("127.0.0.1", server.port, **options)


def eventually(condition, timeout_s=60):
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def fetch(*pieces):
    from protocol.messages.fetch import FetchPartition, FetchTopic

    partitions = [
        FetchPartition(partition=number, fetch_offset=position, partition_max_bytes=size)
        for number, (position, size) in enumerate(pieces)
    ]
    return {"topics": [FetchTopic(topic="t", partitions=partitions)]}


def test_split_frames_and_frames_together(server):
    """Requests sent byte by byte and many in one segment get the same answers."""
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
def test_large_requests(server, size):
    """A batch of 1 MiB and more, answered with as many bytes."""
    blob = random.Random(size).randbytes(size)
    with connect(server) as client:
        for _ in range(3):
            assert blob == client.call(ECHO, 2, auth_bytes=blob).auth_bytes


def test_answers_keep_the_order_behind_a_parked_request(server, application):
    """Requests behind a long poll are served after it."""
    with connect(server) as client:
        client.send(ECHO, 2, auth_bytes=b"1")
        client.send(WAIT, 4)
        client.send(ECHO, 2, auth_bytes=b"2")
        assert client.receive().auth_bytes == b"1"
        eventually(lambda: len(application.waiting) == 1)
        with connect(server) as other:  # when it is served, all of the first has been received
            other.call(WAIT, 4, generation_id=1)
        assert len(application.started) == 1
        server.ask(lambda: application.waiting[0].resolve(WAIT.response()))
        assert client.receive().error_code == 0
        assert client.receive().auth_bytes == b"2"


def test_a_hang_up_takes_its_waiting_request_along(server, application):
    """Also while the connection is not received from, because too much lies behind the parked request."""
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


def test_a_quiet_close_is_noticed_while_nothing_is_received(server, application):
    """A FIN, not only a reset, ends what waits."""
    with connect(server) as client:
        client.send(WAIT, 4)
        for _ in range(100):
            client.send(ECHO, 2, auth_bytes=bytes(1000))
        eventually(lambda: any(connection._rest_full for connection in server.server.connections))
        client.socket.shutdown(socket.SHUT_WR)
        eventually(lambda: application.cancelled == 1)
        with pytest.raises(Closed):
            client.receive()


def test_what_was_sent_before_an_end_is_served_also_while_the_broker_is_behind(server, application):
    """A producer with acks=0 writes what it has and closes: nothing of it is lost because serving took longer."""
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


def test_a_half_closed_connection_gets_its_answers(server):
    """A client that shuts its sending side down reads all it asked for, and then the end."""
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
def test_garbage_closes_its_connection_and_no_other(server, garbage):
    """HTTP, TLS, negative, empty, oversize and nonsense."""
    with connect(server) as good, connect(server) as bad:
        bad.socket.sendall(garbage)
        assert bad.is_closed()
        assert good.call(ECHO, 2, auth_bytes=b"still here").auth_bytes == b"still here"
    eventually(lambda: not list(server.server.connections))


def test_random_bytes_do_no_harm(server):
    """Every connection is closed or waits for more; the server goes on."""
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
    """Several partitions in an answer, read in small and irregular steps: the bytes are the file's."""
    pieces = [(0, 1_000_000), (17, 1), (500_000, 2_500_000), (3, 70_000)]
    chance = random.Random(3)
    with connect(server) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
        for _ in range(2):
            client.send(FETCH, 11, **fetch(*pieces))
        received = bytearray(client.receive_exactly(4))
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


def test_a_reader_that_stops_holds_up_only_itself(server, application):
    """What it asked for stays in files; others are served meanwhile, and its end frees everything."""
    with connect(server) as stopped, connect(server) as other:
        for _ in range(50):
            stopped.send(FETCH, 11, **fetch((0, FILE_BYTES)))
        for _ in range(20):
            assert other.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        queued = [connection.transport.queued_bytes for connection in server.server.connections]
        assert max(queued) <= FILE_BYTES + 1_100_000
    eventually(lambda: not list(server.server.connections))
    assert Slice.releases <= 50


def test_a_file_that_ends_within_a_slice_closes_the_connection(server, application):
    """Its length had been sent: nothing sensible can follow."""
    with connect(server) as client:
        client.send(FETCH, 11, **fetch((FILE_BYTES - 10, 100)))
        with pytest.raises(Closed):
            client.receive()
    assert Slice.releases == 1


def test_many_clients_at_once(server):
    """A burst of connections is let in, and all are served."""
    clients = [connect(server) for _ in range(300)]
    for client in clients:
        client.send(ECHO, 2, auth_bytes=b"here")
    assert [client.receive().auth_bytes for client in clients] == [b"here"] * 300
    for client in clients:
        client.close()
    eventually(lambda: not list(server.server.connections))


def test_pipelines_of_many_clients_under_threads(server):
    """Four clients with deep pipelines of all kinds at once, each with its own bytes in its own order."""
    failures = []

    def client_life(seed):
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

    threads = [threading.Thread(target=client_life, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_idle_connections_are_closed(application):
    """connections.max.idle.ms; one that waits for an answer is not idle."""
    with ServerThread(application.handlers, max_idle_ms=300) as server:
        server.ask(server.server.schedule_idle_sweep)
        began = time.monotonic()
        with connect(server) as idle, connect(server) as waiting:
            waiting.send(WAIT, 4, generation_id=1000)
            assert idle.is_closed()
            assert time.monotonic() - began > 0.2
            assert waiting.receive().error_code == 0


def test_max_connections_waits_and_per_ip_refuses(application):
    """At max.connections clients stay in the listen queue; above max.connections.per.ip they are turned away."""
    with ServerThread(application.handlers, max_connections=2) as server:
        first, second, third = connect(server), connect(server), connect(server)
        for client in (first, second):
            assert client.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        third.send(ECHO, 2, auth_bytes=b"third")
        assert not third.is_closed(0.1)
        first.close()
        third.socket.settimeout(60)
        assert third.receive().auth_bytes == b"third"
        second.close()
        third.close()

    with ServerThread(application.handlers, max_connections_per_ip=1) as server, connect(server) as first:
        assert first.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        with connect(server) as second:
            assert second.is_closed()


def test_max_connection_creation_rate(application):
    """Connections beyond the rate are accepted later, not refused."""
    with ServerThread(application.handlers) as server:
        server.rate.per_second = 20
        began = time.monotonic()
        clients = [connect(server) for _ in range(30)]
        for client in clients:
            assert client.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        assert time.monotonic() - began > 0.3
        for client in clients:
            client.close()


def test_running_out_of_file_descriptors_pauses_accepting(application):
    """EMFILE: who is connected is served, and accepting goes on when descriptors come free."""
    with ServerThread(application.handlers) as server, connect(server) as first:
        assert first.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        clients = [socket.socket() for _ in range(5)]
        highest = max(each.fileno() for each in clients)
        fillers = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        try:
            try:
                while True:
                    fillers.append(os.dup(0))
            except OSError:
                pass
            for each in clients:
                each.connect(("127.0.0.1", server.port))
            assert first.call(ECHO, 2, auth_bytes=b"y").auth_bytes == b"y"
            eventually(lambda: server.server.listeners[0]._paused)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for each in fillers:
                os.close(each)
        for each in clients:
            each.settimeout(60)
            each.sendall(request_frame(ECHO, 2, 1, auth_bytes=b"z"))
            assert each.recv(1000).endswith(b"z" + bytes(9))
            each.close()


def test_held_requests_are_bounded(application):
    """queued.max.request.bytes: beyond it others are not received from until the large requests are done."""
    with ServerThread(application.handlers, max_held_bytes=1_000_000) as server:
        with connect(server) as large, connect(server) as other:
            frame = large.request_frame(ECHO, 2, auth_bytes=bytes(3_000_000))
            large.socket.sendall(frame[:2_000_000])
            eventually(lambda: server.server._saturated)
            other.send(ECHO, 2, auth_bytes=b"x")
            assert not other.is_closed(0.1)
            large.socket.sendall(frame[2_000_000:])
            large.expect(ECHO, 2, 1)
            assert bytes(3_000_000) == large.receive().auth_bytes
            other.socket.settimeout(60)
            assert other.receive().auth_bytes == b"x"
        eventually(lambda: server.server._held_bytes == 0)


def test_socket_options_are_as_configured(application):
    """TCP_NODELAY and keep-alive on; socket.send.buffer.bytes on each connection (the kernel doubles it)."""
    with ServerThread(application.handlers, send_buffer_bytes=65_536) as server, connect(server) as client:
        client.call(ECHO, 2, auth_bytes=b"x")
        (connection,) = server.server.connections
        sock = connection.transport._sock
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 131_072
        assert client.socket.getsockname() == (connection.client_host, connection.client_port)
        assert client.socket.getpeername() == (connection.local_host, connection.local_port)
