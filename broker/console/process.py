"""The process of the web console, if `console.listeners` is set.

The broker binds the console's ports at its start, so that an unavailable port stops the start. They listen once the
broker serves clients, and the process inherits the sockets. The process is an ordinary client of the broker, with a
lower priority. It ends with the broker, when its standard input, a pipe, ends. If it ends by itself, the broker logs
that and goes on.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import threading
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from broker.console.log import ConsoleLog
from broker.network.listener import CannotBind, bind, bound_address, host_in_address
from broker.process.announcement import reachable
from config.console import console_listener, login_mechanisms
from pybroker import engine_process

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.process.announcement import OpenListener
    from config import BrokerConfig

log = logging.getLogger(__name__)

#: The packages that `pybroker[console]` installs.
_PACKAGES = ("starlette", "uvicorn", "jinja2", "confluent_kafka", "prometheus_client")
#: How long the process may take to end by itself.
_PATIENCE_S = 3.0
#: Connections that may wait until the process accepts them.
_BACKLOG = 64


class Console:
    """The console's sockets, and its process once it is started. Raises CannotBind."""

    def __init__(self, addresses: list[tuple[str | None, int]]) -> None:
        missing = [name for name in _PACKAGES if find_spec(name) is None]
        if missing:
            names = " and ".join(missing)
            raise CannotBind(
                f"console.listeners: the console cannot run without {names}; run pip install 'pybroker[console]'"
            )
        self._sockets: list[socket.socket] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._is_wanted = True
        self._log: ConsoleLog | None = None
        try:
            for host, port in addresses:
                self._sockets += bind(host, port, receive_buffer_bytes=-1)
        except CannotBind:
            self.close()
            raise
        found = map(bound_address, self._sockets)
        #: The console's addresses.
        self.urls = [f"http://{host_in_address(host)}:{port}" for host, port in found]

    def start(self, config: BrokerConfig, listeners: Iterable[OpenListener], metrics_url: str | None) -> None:
        """Start the process. The broker already serves clients."""
        listener = console_listener(config)
        assert listener is not None  # else the configuration has a problem
        port = next(each.port for each in listeners if each.name == listener.name)
        for each in self._sockets:  # so that no client is refused while the process starts
            each.listen(_BACKLOG)
        handles = [each.fileno() for each in self._sockets]
        settings = {
            "bootstrap": reachable(config, listener.name, port),
            "log_dirs": [os.path.abspath(each) for each in config.log_dirs],
            "sockets": handles,
            "metrics_url": metrics_url,
            "mechanisms": login_mechanisms(config, listener),
            "ca_file": config.get_str("console.ssl.ca.location") if listener.security_protocol == "SASL_SSL" else None,
            "read_only": config.get_bool("console.read.only"),
        }
        self._process = subprocess.Popen(
            engine_process.command("console.main"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # the program that started the broker reads the broker's output
            pass_fds=handles,
            start_new_session=True,  # the broker handles Ctrl-C
        )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the process has ended already, and logged why
            self._process.stdin.write(json.dumps(settings).encode() + b"\n")
            self._process.stdin.flush()
        self._log = ConsoleLog(self._process.stdin.fileno())
        logging.getLogger().addHandler(self._log)
        self._close_sockets()
        threading.Thread(target=self._watch, args=(self._process,), name="console-watch", daemon=True).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        self._stop_telling()
        if self._is_wanted:
            log.warning("The console has ended with code %d; the broker goes on without it", code)

    def end(self) -> None:
        """Ask the process to end."""
        self._is_wanted = False
        self._stop_telling()
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def _stop_telling(self) -> None:
        if self._log is not None:
            logging.getLogger().removeHandler(self._log)
            self._log.let_go()

    def close(self) -> None:
        """Wait for the process to end; kill it if that takes too long."""
        self.end()
        self._close_sockets()
        if self._process is not None:
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _close_sockets(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets = []
