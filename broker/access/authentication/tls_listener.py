"""A listener of SSL or SASL_SSL: its certificates, which are reloaded when they change, and its clients' names."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING

from broker.access.authentication.tls_change import AllowedNames, TlsChange
from broker.network.tls import TlsTransport
from config.tls_context import (
    KEYS,
    Secured,
    TlsError,
    TlsSettings,
)
from security.distinguished_name import distinguished_name
from security.principal_rules import PrincipalRules

if TYPE_CHECKING:
    from broker.access.authentication.services import AuthenticationServices
    from broker.network.connection import Connection
    from broker.network.listener import Listener
    from broker.network.plaintext import DisconnectWatcher
    from config import BrokerConfig
    from config.broker_config import Check
    from runtime.deferred import Deferred

log = logging.getLogger(__name__)

#: How often the files of certificates are checked for changes.
_LOOK_MS = 10_000


class TlsListener:
    """Makes TLS connections for one listener. Raises TlsError if it cannot."""

    def __init__(self, listener: Listener, services: AuthenticationServices) -> None:
        self._listener = listener
        self._services = services
        config = services.config
        self._settings = TlsSettings(config, listener.name, listener.security_protocol)
        self._seen = self._modified()
        self._secured = self._settings.secured()
        self._allowed = AllowedNames.from_config(config, listener.name)
        self._under_way: Deferred[Secured] | None = None
        self._rules = PrincipalRules(str(config.get_for_listener(listener.name, "ssl.principal.mapping.rules")))
        self._names_user = listener.security_protocol == "SSL"
        prefix = f"listener.name.{listener.name.lower()}."
        config.subscribe([*KEYS, *(prefix + key for key in KEYS)], self._on_config)
        config.add_validator(self._validate)
        services.timers.call_later(_LOOK_MS, self._look)

    def connect(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, connection: Connection, hang_ups: DisconnectWatcher
    ) -> TlsTransport:
        """Return the transport of a new connection."""
        context = self._secured.context
        return TlsTransport(loop, sock, connection, hang_ups, context, self._services.handshakes, self._on_secured)

    def _on_secured(self, connection: Connection, certificate: bytes | None) -> None:
        """Set the principal of the client from its certificate, if it has one and the listener has no SASL."""
        if self._names_user and certificate is not None:
            connection.principal = "User:" + self._rules.user_of(distinguished_name(certificate))

    def _modified(self) -> tuple[int, ...]:
        return tuple(_modified_ns(path) for path in self._settings.files)

    def _look(self) -> None:
        self._services.timers.call_later(_LOOK_MS, self._look)  # first, so that a failure does not end the checks
        if self._modified() != self._seen:
            self._reload()

    def _validate(self, wanted: BrokerConfig) -> Check | None:
        settings = TlsSettings(wanted, self._listener.name, self._listener.security_protocol)
        if settings.equals(self._settings):
            return None
        return TlsChange(self._settings, settings, self._secured.chain, self._allowed).problem

    def _on_config(self, config: BrokerConfig) -> None:
        self._settings = TlsSettings(config, self._listener.name, self._listener.security_protocol)
        self._reload()

    def _reload(self) -> None:
        """Reload the certificates for new connections. If they cannot be used, the old ones stay."""
        self._seen = self._modified()
        self._under_way = self._services.offload(self._settings.secured)  # hashing a password may take long
        self._under_way.add_done_callback(self._on_read)

    def _on_read(self, read: Deferred[Secured]) -> None:
        if read is not self._under_way:  # a later read counts
            return
        try:
            self._secured = read.result()
        except TlsError as error:
            log.error("Listener %s keeps its certificates: %s", self._listener.name, error)
        except Exception:
            log.exception("Listener %s keeps its certificates", self._listener.name)
        else:
            log.info("Listener %s has reloaded its certificates", self._listener.name)


def _modified_ns(path: str) -> int:
    """Return 0 for a file that is missing or unreadable, for example while it is being replaced."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
