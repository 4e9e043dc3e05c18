"""Listeners: ports are bound before the broker touches any file."""

import socket

import pytest

from broker.network.listener import CannotBind, Listener, bind


def close(sockets):
    for each in sockets:
        each.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", None])
def test_port_0_is_the_same_for_all_addresses(host):
    """A host name may have several addresses. All interfaces are one socket."""
    sockets = bind(host, 0, -1)
    ports = {each.getsockname()[1] for each in sockets}
    close(sockets)

    assert len(ports) == 1
    assert 0 not in ports


def test_port_in_use_is_named():
    """Before another listener accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotBind, match=rf"127\.0\.0\.1:{port}: the port is in use"):
            bind("127.0.0.1", port, -1)


def test_unknown_host_is_named():
    with pytest.raises(CannotBind, match=r"^no\.\.such:9092: not a valid name$"):
        bind("no..such", 9092, -1)
    with pytest.raises(CannotBind, match=r"no\.such\.host\.invalid:9092: "):
        bind("no.such.host.invalid", 9092, -1)


def test_receive_buffer_is_set_before_accepting():
    """socket.receive.buffer.bytes: the kernel doubles it, and -1 keeps the kernel's default."""
    (sock,) = bind("127.0.0.1", 0, 102_400)
    size = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    sock.close()

    assert size == 204_800


def test_queued_clients_wait_for_another_process():
    """A process with a copy of the socket accepts them later; they are not refused."""
    listener = Listener("PLAINTEXT", "PLAINTEXT", bind("127.0.0.1", 0, -1), [])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listener.port), 60)
    listener.queue(5)
    socket.create_connection(("127.0.0.1", listener.port), 60).close()
    listener.close()
