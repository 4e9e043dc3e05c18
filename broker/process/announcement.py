"""What programs that start a broker have to know of it, as one line of JSON."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from config.listeners import WILDCARDS

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.main_process import MainProcess


def announcement(broker: MainProcess) -> str:
    """A line such as `{"bootstrap_servers": "127.0.0.1:40123", "pid": 7, "data_directory": "/tmp/x", "listeners":
    {"PLAINTEXT": "127.0.0.1:40123"}}`: addresses that clients on this machine reach the broker at. "metrics" and
    "console" are where these are, if they are.
    """
    listeners = {each.name: reachable(broker, each.name, each.port) for each in broker.server.listeners}
    told: dict[str, object] = {
        "bootstrap_servers": next(iter(listeners.values())),
        "pid": os.getpid(),
        "data_directory": os.path.abspath(broker.config.log_dirs[0]),
        "listeners": listeners,
    }
    if broker.endpoint is not None:
        told["metrics"] = broker.endpoint.urls[0]
    if broker.console is not None:
        told["console"] = broker.console.urls[0]
    return json.dumps(told)


def reachable(broker: Broker, listener_name: str, port: int) -> str:
    """The address of a listener for programs on this machine."""
    opened = next(each for each in broker.config.listeners if each.name == listener_name)
    host = "localhost" if opened.host is None or opened.host in WILDCARDS else opened.host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
