"""A provider that grants bearer tokens to a client id and its secret (RFC 6749, section 4.4).

A thread renews the token when most of its lifetime has passed, as Apache Kafka's ExpiringCredentialRefreshingLogin. So
a login that renews the session of a living connection (KIP-368) finds a token that has not expired, and so does the
first login after a long time.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable
from http.client import HTTPException
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

log = logging.getLogger(__name__)

_TIMEOUT_MS = 10_000
_MOST_BYTES = 1 << 20
#: After a failed renewal, as in Apache Kafka.
_RETRY_S = 10.0
#: Between renewals at least, whatever the lifetime of the tokens. At most between looks at the clock, which may jump.
_LEAST_S, _LOOK_S = 1.0, 60.0


class TokenUnavailable(Exception):
    """There is no token."""


class _NoRedirects(HTTPRedirectHandler):
    """A redirected request would have the credentials, which are only for the configured provider."""

    def redirect_request(self, *_: object) -> None:
        return None


class TokenEndpoint:
    """A token that is renewed from `start` on, until the process ends.

    Args:
        setting: returns the value of one of the keys sasl.login.*, or None.
    """

    def __init__(self, url: str, client_id: str, secret: str, scope: str, setting: Callable[[str], object]) -> None:
        self._url = url
        self._credentials = b64encode(f"{client_id}:{secret}".encode()).decode()
        self._form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        self._setting = setting
        self._token = ""
        self._renews_at_s = 0.0
        self._open = build_opener(_NoRedirects).open

    def start(self) -> None:
        """Get the first token. Blocks. Raises TokenUnavailable after sasl.login.retry.backoff.max.ms."""
        self._try_to_get()
        threading.Thread(target=self._renew, name="token-renewal", daemon=True).start()

    def token(self) -> str:
        """Return the token."""
        return self._token

    def _renew(self) -> None:
        while True:
            time.sleep(_LEAST_S)
            while (left_s := self._renews_at_s - time.time()) > 0:
                time.sleep(min(left_s, _LOOK_S))
            try:
                self._try_to_get()
            except TokenUnavailable as error:
                log.warning("The token for logins at other nodes cannot be renewed, so the old one stays: %s", error)
                time.sleep(_RETRY_S)

    def _try_to_get(self) -> None:
        backoff_s = self._ms("sasl.login.retry.backoff.ms") / 1000
        ends_at_s = time.monotonic() + self._ms("sasl.login.retry.backoff.max.ms") / 1000
        while True:
            try:
                self._get()
                return
            except TokenUnavailable:
                if time.monotonic() + backoff_s >= ends_at_s:
                    raise
            time.sleep(backoff_s)
            backoff_s = max(2 * backoff_s, 0.01)

    def _get(self) -> None:
        headers = {"Authorization": f"Basic {self._credentials}", "Accept": "application/json"}
        data = urlencode(self._form, quote_via=quote_plus).encode()
        timeout_ms = self._ms("sasl.login.read.timeout.ms") or self._ms("sasl.login.connect.timeout.ms") or _TIMEOUT_MS
        try:
            with self._open(Request(self._url, data, headers), timeout=timeout_ms / 1000) as response:
                granted = json.loads(response.read(_MOST_BYTES))
            token = granted.get("access_token") or granted.get("id_token")
            expires_at_s = float(str(_claims(token)["exp"]))
        except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise TokenUnavailable(f"{self._url}: {str(error) or type(error).__name__}") from None
        self._token, self._renews_at_s = token, self._renewal(time.time(), expires_at_s)

    def _renewal(self, now_s: float, expires_at_s: float) -> float:
        """Return when to renew a token, by the rules of Apache Kafka's ExpiringCredentialRefreshingLogin."""
        lifetime_s = max(0.0, expires_at_s - now_s)
        part = (
            self._number("sasl.login.refresh.window.factor")
            + self._number("sasl.login.refresh.window.jitter") * random.random()
        )
        wanted_s = now_s + lifetime_s * part
        buffer_s, least_s = (
            self._number("sasl.login.refresh.buffer.seconds"),
            self._number("sasl.login.refresh.min.period.seconds"),
        )
        if lifetime_s < buffer_s + least_s:
            return wanted_s
        return max(now_s + least_s, min(wanted_s, expires_at_s - buffer_s))

    def _number(self, key: str) -> float:
        return float(str(self._setting(key)))

    def _ms(self, key: str) -> int:
        return int(str(self._setting(key) or 0))


def _claims(token: str) -> dict[str, object]:
    """Return the claims of a signed token, which the other side verifies."""
    body = token.split(".")[1]
    found: dict[str, object] = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found
