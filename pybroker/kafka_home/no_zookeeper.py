"""`zookeeper-server-start FILE`: open ZooKeeper's port, and close each connection.

Programs that start ZooKeeper beside their broker wait until its port accepts connections. The broker needs none.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from pybroker.java_properties import UnreadableProperties, decoded_properties, parse_properties
from pybroker.text_files import UnreadableText, file_bytes

_PORT = 2181
#: ZooKeeper's health check, and its response. Nothing else gets a response.
_ANSWERS = {b"ruok": b"imok", b"srvr": b"Zookeeper version: none, the broker needs none\nMode: standalone\n"}
_PATIENCE_S = 1.0


def client_port(text: str) -> int:
    """Return the port in a zookeeper.properties. Raises UnreadableProperties."""
    entries = {each.key: each.value.strip() for each in parse_properties(text.encode())}
    port = entries.get("clientPort", "")
    return int(port) if port.isascii() and port.isdigit() else _PORT


def serve(arguments: Sequence[str]) -> int:
    """Accept connections, and close each soon, until the process ends. Return the exit code if the port is in use."""
    paths = [each for each in arguments if not each.startswith("-")]
    try:
        port = client_port(decoded_properties(file_bytes(paths[0]))) if paths else _PORT
        listener = socket.create_server(("", port))
    except (OSError, UnreadableProperties, UnreadableText) as error:
        print(f"zookeeper-server-start: {error}", file=sys.stderr)
        return 1
    print(f"There is no ZooKeeper, and the broker needs none: port {port} is open for programs that wait for it")
    sys.stdout.flush()
    with listener:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:  # the client has closed the connection, or no descriptors are left
                time.sleep(0.1)
                continue
            _send_away(connection)


def _send_away(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        connection.settimeout(_PATIENCE_S)
        connection.sendall(_ANSWERS.get(connection.recv(4), b""))
