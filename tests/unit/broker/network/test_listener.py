"""Listeners: ports are bound before the broker touches any file."""

import select
import socket
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from broker.network.listener import CannotBind, Listener, bind, bound_address


def close(sockets):
    for each in sockets:
        each.close()


def serves(sock, host, within_s=5):
    """Return whether this socket gets the connection of a client at an address: another process may have the port."""
    sock.listen(5)
    try:
        client = socket.create_connection((host, sock.getsockname()[1]), 60)
    except ConnectionRefusedError:
        return False
    with client:
        waiting = select.poll()
        waiting.register(sock, select.POLLIN)
        arrived = bool(waiting.poll(within_s * 1000))
        if arrived:
            sock.accept()[0].close()
    return arrived


def link_local():
    """Return a link-local address of this machine with its zone."""
    lines = Path("/proc/net/if_inet6").read_text().splitlines() if Path("/proc/net/if_inet6").exists() else []
    for digits, _, _, scope, _, name in map(str.split, lines):
        if scope == "20":
            return f"{IPv6Address(bytes.fromhex(digits))}%{name}"
    pytest.skip("this machine has no link-local address")


@pytest.mark.parametrize("host", [None, "", "0.0.0.0", "::", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0", "0::%lo", "0"])
def test_all_interfaces_are_those_of_ipv4_and_ipv6(host):
    """One socket, as Java's, however the address is written."""
    (sock,) = bind(host, 0, -1)
    served = {each: serves(sock, each) for each in ("127.0.0.1", "127.0.0.2", "::1")}
    sock.close()

    assert served == {"127.0.0.1": True, "127.0.0.2": True, "::1": True}


@pytest.mark.parametrize(("first", "second"), [("0.0.0.0", "::"), ("::", "0.0.0.0"), (None, "::"), ("::", "127.0.0.1")])
def test_port_of_all_interfaces_is_in_use_for_both_families(first, second):
    """As in Java: 0.0.0.0 and :: are the same address."""
    (sock,) = bind(first, 0, -1)
    sock.listen(5)
    port = sock.getsockname()[1]
    with sock, pytest.raises(CannotBind, match="the port is in use"):
        bind(second, port, -1)


def test_ipv4_alone_is_served_without_ipv6(monkeypatch):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    (sock,) = bind("::", 0, -1)
    family, served = sock.family, serves(sock, "127.0.0.1")
    sock.close()

    assert (family, served) == (socket.AF_INET, True)


@pytest.mark.parametrize(
    ("host", "served"),
    [
        ("127.0.0.1", {"127.0.0.1": True, "127.0.0.2": False, "::1": False}),
        ("::ffff:127.0.0.1", {"127.0.0.1": True, "127.0.0.2": False, "::1": False}),
        ("::1", {"127.0.0.1": False, "127.0.0.2": False, "::1": True}),
        ("::1%lo", {"127.0.0.1": False, "127.0.0.2": False, "::1": True}),
    ],
)
def test_an_address_is_served_alone(host, served):
    (sock,) = bind(host, 0, -1)
    found = {each: serves(sock, each) for each in served}
    sock.close()

    assert found == served


def test_the_port_of_another_address_belongs_to_others():
    """A client there is not taken for one of ours."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        (sock,) = bind("::1", other.getsockname()[1], -1)
        with sock:
            found = serves(sock, "127.0.0.1", 0.1), serves(sock, "::1")

    assert found == (False, True)


@pytest.mark.parametrize("families", [(4, 6), (6, 4), (4, 4, 6)])
def test_name_stands_for_its_first_address_ipv4_first(monkeypatch, families):
    """As in Java: a name of two families, such as localhost, opens the address of IPv4 alone."""
    hosts = {4: iter(("127.0.0.1", "127.0.0.2")), 6: iter(("::1",))}
    names = {4: socket.AF_INET, 6: socket.AF_INET6}

    def resolve(host, port, **_):
        assert host == "both"
        return [(names[each], socket.SOCK_STREAM, 6, "", (next(hosts[each]), port)) for each in families]

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", resolve)
        (sock,) = bind("both", 0, -1)
    (host, port), served = sock.getsockname(), serves(sock, "127.0.0.1")
    sock.close()

    assert (host, port > 0, served) == ("127.0.0.1", True, True)


@pytest.mark.parametrize("has_zone", [True, False])
def test_link_local_address_is_bound_with_its_zone(has_zone):
    """The kernel needs the zone; by default it is that of this machine's address. Log lines and URLs have it."""
    host = link_local()
    (sock,) = bind(host if has_zone else host.partition("%")[0], 0, -1)
    bound, served = bound_address(sock), serves(sock, host)
    listener = Listener("PLAINTEXT", "PLAINTEXT", [sock], [])
    shown = listener.addresses
    listener.close()

    assert (bound[0], served, shown) == (host, True, [f"[{host}]:{bound[1]}"])


def test_unknown_zone_is_named():
    with pytest.raises(CannotBind, match=r"^\[fe80::1%nothere\]:9092: "):
        bind("fe80::1%nothere", 9092, -1)


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
