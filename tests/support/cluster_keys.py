"""The lines of `server.properties` that make a node a part of a cluster, of either kind."""

from __future__ import annotations

from tests.support.brokers import HOST

_LISTENER = {"controller.listener.names": "CONTROLLER"}


def controller_keys(node_id: int, port: int) -> dict[str, str]:
    """Return the keys of a controller alone, which listens on a port of loopback. Its voters are not among them."""
    return {
        "node.id": str(node_id),
        "process.roles": "controller",
        **_LISTENER,
        "listeners": f"CONTROLLER://{HOST}:{port}",
    }


def member_keys(controller_port: int) -> dict[str, str]:
    """Return the keys of a broker alone, which registers with the controllers that it finds at a port of loopback."""
    return {
        "process.roles": "broker",
        **_LISTENER,
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
    }
