"""The option --initial-controllers of `pybroker format`: ID@HOST:PORT:DIRECTORY_ID, separated by commas (KIP-853)."""

from __future__ import annotations

from typing import NamedTuple

from protocol.id_text import id_bytes
from tools.errors import FormatRefused


class InitialController(NamedTuple):
    """A voter of a new cluster. `directory_id` has 16 bytes."""

    node_id: int
    host: str
    port: int
    directory_id: bytes


def own_controller(text: str, node_id: int) -> InitialController:
    """Return this node's entry, which has to be the only one. Raises FormatRefused."""
    found = [_parsed(each) for each in text.split(",")]
    others = ", ".join(str(each.node_id) for each in found if each.node_id != node_id)
    if others:
        raise FormatRefused(
            f"--initial-controllers names other controllers ({others}), and node.id is {node_id}. A quorum of several"
            " controllers is not supported: name this node alone, or use controllers of Apache Kafka"
        )
    if len(found) > 1:
        raise FormatRefused(f"--initial-controllers names node {node_id} twice")
    return found[0]


def _parsed(entry: str) -> InitialController:
    number, _, rest = entry.strip().partition("@")
    address, _, directory_id = rest.rpartition(":")
    host, _, port = address.rpartition(":")
    try:
        return InitialController(int(number), host.strip("[]"), _port(port, host), id_bytes(directory_id))
    except ValueError:
        raise FormatRefused(
            f"--initial-controllers: {entry} is not ID@HOST:PORT:DIRECTORY_ID, whose last part is an id as of"
            " `pybroker random-uuid`"
        ) from None


def _port(text: str, host: str) -> int:
    port = int(text)
    if not host or not 0 < port < 1 << 16:
        raise ValueError(text)
    return port
