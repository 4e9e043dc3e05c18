"""Listeners: taking ports before anything is touched."""

import socket

import pytest

from broker.network.listener import CannotBind, Listener, bind


def close(sockets):
    for each in sockets:
        each.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", None])
def test_port_0_takes_a_free_one_the_same_for_all_addresses(host):
    """A name may have several addresses; all interfaces are one socket."""
    sockets = bind(host, 0, -1)
    ports = {each.getsockname()[1] for each in sockets}
    close(sockets)

    assert len(ports) == 1
    assert 0 not in ports


def test_a_taken_port_is_refused_in_words():
    """Before anybody listens on the others."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotBind, match=rf"127\.0\.0\.1:{port}: the port is in use"):
            bind("127.0.0.1", port, -1)


def test_an_unknown_host_is_refused_in_words():
    """One line for people."""
    with pytest.raises(CannotBind, match=r"^no\.\.such:9092: not a valid name$"):
        bind("no..such", 9092, -1)
    with pytest.raises(CannotBind, match=r"no\.such\.host\.invalid:9092: "):
        bind("no.such.host.invalid", 9092, -1)


def test_receive_buffer_is_set_before_connections_are_accepted():
    """socket.receive.buffer.bytes: the kernel doubles it, and -1 leaves its own."""
    (sock,) = bind("127.0.0.1", 0, 102_400)
    size = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    sock.close()

    assert size == 204_800


def test_clients_that_are_queued_wait_for_who_lets_them_in():
    """Also where that is another process, which has the socket, too: they are not refused."""
    listener = Listener("PLAINTEXT", "PLAINTEXT", bind("127.0.0.1", 0, -1), [])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listener.port), 60)
    listener.queue(5)
    socket.create_connection(("127.0.0.1", listener.port), 60).close()
    listener.close()
