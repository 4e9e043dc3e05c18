"""Addresses: HOST:PORT as text, listening sockets, and the addresses of brokers in answers."""

from __future__ import annotations

import errno
import socket
from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import NamedTuple

from protocol.api_keys import ApiKey
from protocol.schema import Struct

#: Answers that contain addresses of brokers.
ADDRESS_APIS = frozenset(
    (
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER),
        *(ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE),
    )
)
WILDCARDS = ("", "0.0.0.0", "::")
_LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
#: A port that is free on one loopback address may be in use on the other: then another port is tried.
_TRIES = 20


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Parse HOST:PORT or [IPv6]:PORT; the port may be 0. Raises ArgumentTypeError."""
    host, colon, port = text.strip().rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535 or not _is_name(host):
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return Address(host, int(port))


def _is_name(host: str) -> bool:
    """Return whether `host` is a valid host name; for others, sockets raise exceptions other than OSError."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def servers(text: str) -> list[Address]:
    """Parse HOST:PORT,... of brokers. Raises ArgumentTypeError."""
    found = [address(each) for each in text.split(",") if each.strip()]
    if not found or not all(each.host and each.port for each in found):
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT,...")
    return found


def listening_sockets(wanted: Address) -> list[socket.socket]:
    """Return listening sockets, all on one port; `localhost` means IPv4 and IPv6, if the machine has both.

    Raises OSError if no socket can listen, or the port is in use on one of the addresses.
    """
    if wanted.host != "localhost":
        family, *_, bound = socket.getaddrinfo(
            wanted.host or None, wanted.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return [_listening(family, bound)]
    for attempt in range(_TRIES):
        try:
            return _on_both(wanted.port)
        except OSError as error:
            if wanted.port or error.errno != errno.EADDRINUSE or attempt == _TRIES - 1:
                raise
    raise AssertionError("the last attempt raises its error")


def _on_both(port: int) -> list[socket.socket]:
    found: list[socket.socket] = []
    missing = OSError(errno.EADDRNOTAVAIL, "no loopback address")
    for family, host in _LOOPBACKS:
        try:
            found.append(_listening(family, (host, port)))
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for each in found:
                    each.close()
                raise
            missing = error
        else:
            port = found[0].getsockname()[1]
    if not found:
        raise missing
    return found


def _listening(family: int, bound: tuple[int | str | bytes, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bound[0] != "::"))
        made.bind(bound)
        made.listen(128)
    except OSError:
        made.close()
        raise
    return made


class AddressInAnswer:
    """A broker's address within an answer."""

    def __init__(self, struct: Struct) -> None:
        self._struct = struct

    @property
    def node(self) -> int:
        names = {field.name for field in self._struct.struct_type.fields}
        number: int = self._struct.node_id if "node_id" in names else self._struct.broker_id
        return number

    @property
    def address(self) -> Address:
        return Address(self._struct.host, self._struct.port)

    def replace(self, other: Address) -> None:
        """Replace the address in the answer."""
        self._struct.host, self._struct.port = other


def addresses_in(answer: Struct) -> Iterator[AddressInAnswer]:
    """Yield all brokers' addresses in an answer, without empty ones (empty host, port -1)."""
    names = {field.name for field in answer.struct_type.fields}
    if {"host", "port"} <= names and names & {"node_id", "broker_id"} and answer.host and answer.port > 0:
        yield AddressInAnswer(answer)
    for name in names:
        value = getattr(answer, name)
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, Struct):
                yield from addresses_in(each)
