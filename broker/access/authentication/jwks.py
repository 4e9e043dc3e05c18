"""The public keys of the token provider (a JWKS, RFC 7517), from a file or a URL: https://..., file:///...

They are read at the start, which fails without them. A thread reads them again every
sasl.oauthbearer.jwks.endpoint.refresh.ms. It also reads them when a token names an unknown key, but not within
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms of the last read. If a read fails, the old keys stay.
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
#: Symmetric keys: anyone with the broker's copy could sign with one, so they are never accepted.
_SHARED_SECRET = "oct"


#: The algorithms of an RSA key that names none.
_RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class JwksError(Exception):
    """Keys cannot be read."""


class SigningKey(NamedTuple):
    """A public key of `cryptography`, and the JWS algorithms that it verifies."""

    public: Any
    algorithms: tuple[str, ...]


Keys = dict[str | None, SigningKey]


def read_keys(url: str) -> Keys:
    """Return keys by id; None for one without an id. Unusable keys are left out. Blocks. Raises JwksError."""
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
        except Exception as error:  # a malformed key may raise anything
            name = each.get("kid") if isinstance(each, dict) else None
            skipped.append(f"{log_text(str(name))} ({type(error).__name__})")  # its message may contain the whole key
    if skipped:
        log.warning("%s: keys that cannot be used are left out: %s", url, ", ".join(skipped[:_MOST_NAMED]))
    if not keys:
        raise JwksError(f"{url} has no public key")
    return keys


def _signing_key(jwk: dict[str, Any]) -> SigningKey:
    key = PyJWK.from_dict(jwk)
    if jwk["kty"] == "RSA" and not jwk.get("alg"):  # PyJWT would use it for RS256 only
        return SigningKey(key.key, _RSA_ALGORITHMS)
    return SigningKey(key.key, (key.algorithm_name,))


class Jwks:
    """Keys that are refreshed. `start` reads them for the first time."""

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
        self._may_refresh = True  # for an unknown key: any client may name one that does not exist

    def start(self) -> None:
        """Read the keys. Blocks. Raises JwksError."""
        self._keys = self._read(self._url)
        self._next = self._timers.call_later(self._refresh_ms, self._refresh)

    def key(self, key_id: str | None) -> SigningKey | None:
        """Return the key of an id, or the only one for None.

        An unknown id triggers a refresh, unless one runs or has just run.
        """
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        found = self._keys.get(key_id)
        if found is None and self._may_refresh:
            self._refresh()
        return found

    def _refresh(self) -> None:
        if self._next is not None:
            self._next.cancel()
        self._may_refresh = False
        self._offload(self._read, self._url).add_done_callback(self._on_read)

    def _on_read(self, done: Deferred[Keys]) -> None:
        try:
            self._keys = done.result()
        except JwksError as error:
            log.warning("The keys of tokens cannot be refreshed, so the old ones stay: %s", error)
        except Exception:  # any: the keys must be refreshed again later
            log.exception("The keys of tokens cannot be refreshed, so the old ones stay")
        finally:
            self._next = self._timers.call_later(self._refresh_ms, self._refresh)
            self._timers.call_later(self._backoff_ms, self._allow_refresh)

    def _allow_refresh(self) -> None:
        self._may_refresh = True
