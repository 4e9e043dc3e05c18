"""The public keys of who signs tokens (a JWKS, RFC 7517), from a file or an address: https://..., file:///...

They are read at the start, which fails without them; then every sasl.oauthbearer.jwks.endpoint.refresh.ms, and when a
token names a key that is not known, off the loop. While they cannot be read those that were stay.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.request import urlopen

from jwt import PyJWK
from jwt.exceptions import PyJWTError

if TYPE_CHECKING:
    from broker.deferred import Deferred
    from broker.offload import Offload
    from broker.timers import Timer, Timers

log = logging.getLogger(__name__)

_TIMEOUT_S = 10
_MOST_BYTES = 1024 * 1024
#: What every client could sign with who has the broker's copy: never a provider's public key.
_SHARED_SECRET = "oct"


class JwksError(Exception):
    """Why keys cannot be had."""


Keys = dict[str | None, PyJWK]


def read_keys(url: str) -> Keys:
    """Keys by id; one without an id by None. Blocks. Raises JwksError."""
    try:
        with urlopen(url, timeout=_TIMEOUT_S) as response:
            found = json.loads(response.read(_MOST_BYTES))
        listed = [each for each in found["keys"] if each.get("kty") != _SHARED_SECRET and each.get("use") != "enc"]
        keys = {each.get("kid"): PyJWK.from_dict(each) for each in listed}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PyJWTError) as error:
        raise JwksError(f"{url}: {error}") from None
    if not keys:
        raise JwksError(f"{url} has no public key")
    return keys


class Jwks:
    """Keys that are kept fresh. `start` reads them for the first time."""

    def __init__(
        self,
        url: str,
        timers: Timers,
        offload: Offload,
        *,
        refresh_ms: int,
        backoff_ms: int,
        read: Callable[[str], Keys] = read_keys,
    ) -> None:
        self._url = url
        self._timers = timers
        self._offload = offload
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._read = read
        self._keys: Keys = {}
        self._next: Timer | None = None
        self._may_ask = True  # for a key that is not known: anyone may name one that nobody has

    def start(self) -> None:
        """Blocks. Raises JwksError."""
        self._keys = self._read(self._url)
        self._next = self._timers.call_later(self._refresh_ms, self._refresh)

    def key(self, key_id: str | None) -> PyJWK | None:
        """The key of that id, or the only one for None. Who asks for another may find it a little later."""
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        found = self._keys.get(key_id)
        if found is None and self._may_ask:
            self._refresh()
        return found

    def _refresh(self) -> None:
        if self._next is not None:
            self._next.cancel()
        self._may_ask = False
        self._offload(self._read, self._url).add_done_callback(self._on_read)

    def _on_read(self, done: Deferred[Keys]) -> None:
        try:
            self._keys = done.result()
        except JwksError as error:
            log.warning("The keys of tokens stay as they are: %s", error)
        self._next = self._timers.call_later(self._refresh_ms, self._refresh)
        self._timers.call_later(self._backoff_ms, self._ask_again)

    def _ask_again(self) -> None:
        self._may_ask = True
