"""The SASL login of a connection to another broker."""

from __future__ import annotations

from collections.abc import Callable

from broker.network.outbound_errors import LoginFailed
from broker.network.outbound_security import OutboundSecurity
from protocol.client_session import Response
from protocol.error_codes import ProtocolError
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from security.sasl.client import ServerRefused
from security.sasl.login import LoginRefused, login_requests

Send = Callable[[Api, int, Struct], Deferred[Response]]
"""Send a request (API, newest version, request)."""


class Login:
    """One login, at the beginning or again on the same connection (KIP-368).

    Args:
        on_done: called with the lifetime of the session in milliseconds; 0: without end.
        on_failed: called with LoginFailed. Neither is called if the connection is lost meanwhile.
    """

    def __init__(
        self,
        security: OutboundSecurity,
        send: Send,
        on_done: Callable[[int], None],
        on_failed: Callable[[Exception], None],
        address: str,
    ) -> None:
        assert security.mechanism is not None
        assert security.new_exchange is not None
        self._requests = login_requests(security.mechanism, security.new_exchange())
        self._send = send
        self._on_done = on_done
        self._on_failed = on_failed
        self._address = address

    def begin(self) -> None:
        """Send the first request."""
        self._request(next(self._requests))

    def _request(self, step: tuple[Api, int, Struct]) -> None:
        self._send(*step).add_done_callback(self._on_response)

    def _on_response(self, answered: Deferred[Response]) -> None:
        try:
            step = self._requests.send(answered.result().fields)
        except StopIteration as end:
            self._on_done(end.value)
        except (LoginRefused, ServerRefused, ProtocolError) as error:
            self._on_failed(LoginFailed(self._address, f"authentication failed: {error}"))
        except Exception:
            return  # the connection is lost already
        else:
            self._request(step)
