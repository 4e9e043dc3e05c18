"""The public keys of who signs tokens (a JWKS, RFC 7517), from a file or an address: https://..., file:///...

They are read at the start, which fails without them; then every sasl.oauthbearer.jwks.endpoint.refresh.ms, and when a
token names a key that is not known, off the loop. While they cannot be read those that were stay.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.request import urlopen

from jwt import PyJWK

from runtime.log_text import log_text

if TYPE_CHECKING:
    from runtime.deferred import Deferred
    from runtime.thread_pool import ThreadPool
    from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

_TIMEOUT_S = 10
_MOST_BYTES = 1024 * 1024
_MOST_NAMED = 10
#: What every client could sign with who has the broker's copy: never a provider's public key.
_SHARED_SECRET = "oct"


#: What a pair of RSA can sign by, where its key does not say.
_RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class JwksError(Exception):
    """Why keys cannot be had."""


class SigningKey(NamedTuple):
    """The public half, of `cryptography`, and the algorithms of JWS that it verifies."""

    public: Any
    algorithms: tuple[str, ...]


Keys = dict[str | None, SigningKey]


def read_keys(url: str) -> Keys:
    """Keys by id; one without an id by None. Those that cannot be used are left out. Blocks. Raises JwksError."""
    try:
        with urlopen(url, timeout=_TIMEOUT_S) as response:
            listed = list(json.loads(response.read(_MOST_BYTES))["keys"])
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError) as error:
        raise JwksError(f"{url}: {str(error) or type(error).__name__}") from None
    keys: Keys = {}
    skipped: list[str] = []
    for each in listed:
        try:
            if each.get("kty") != _SHARED_SECRET and each.get("use") != "enc":
                keys[each.get("kid")] = _signing_key(each)
        except Exception as error:  # as many kinds as there are ways to write a key wrongly
            name = each.get("kid") if isinstance(each, dict) else None
            skipped.append(f"{log_text(str(name))} ({type(error).__name__})")  # its own words may hold the whole key
    if skipped:
        log.warning("%s: keys that cannot be used are left out: %s", url, ", ".join(skipped[:_MOST_NAMED]))
    if not keys:
        raise JwksError(f"{url} has no public key")
    return keys


def _signing_key(jwk: dict[str, Any]) -> SigningKey:
    key = PyJWK.from_dict(jwk)
    if jwk["kty"] == "RSA" and not jwk.get("alg"):  # PyJWT would hold it for one of RS256 alone
        return SigningKey(key.key, _RSA_ALGORITHMS)
    return SigningKey(key.key, (key.algorithm_name,))


class Jwks:
    """Keys that are kept fresh. `start` reads them for the first time."""

    def __init__(
        self,
        url: str,
        timers: Timers,
        offload: ThreadPool,
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

    def key(self, key_id: str | None) -> SigningKey | None:
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
        except Exception:  # whatever it is: keys that are never read again would be worse
            log.exception("The keys of tokens stay as they are")
        finally:
            self._next = self._timers.call_later(self._refresh_ms, self._refresh)
            self._timers.call_later(self._backoff_ms, self._ask_again)

    def _ask_again(self) -> None:
        self._may_ask = True
