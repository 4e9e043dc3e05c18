"""The quotas of a client, by its user and its client id (KIP-13, KIP-55), and its use of them.

For each kind of quota, only the most specific one that is set applies:

    user and client id      user and any client      user
    any user and client id  any user and any client  any user
                            client id                any client

A quota that names a client id (or any) limits each client id by itself, per user if it names users. A quota that names
only users limits all clients of a user together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from broker.access.quotas.rate import Rate, TokenBucket
from broker.access.quotas.throttling import Charge
from metadata.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from metadata.delta import Delta

if TYPE_CHECKING:
    from broker.requests.context import ClientConnection
    from config import BrokerConfig
    from metadata.image import MetadataImage, QuotaEntity
    from protocol.schema import Api
    from runtime.clock import Clock

R = TypeVar("R", Rate, TokenBucket)

#: The number of clients that are remembered. It bounds the memory if a client uses a new id for each request.
_MOST = 10_000
#: Longer client ids are looked up at each request, and their use is stored under their digest.
_LONGEST_REMEMBERED = 249
#: The prefix of users in principals, which quotas do not have.
_USER_PREFIX = "User:"


class ClientLimits(NamedTuple):
    """The quotas of one client, with its use of them; None without a limit."""

    produced: Rate | None  # bytes
    fetched: Rate | None  # bytes
    requests: Rate | None  # per cent of a second
    mutations: TokenBucket | None  # partitions created and deleted


class ClientQuotas:
    """All clients' quotas. Calls `on_any(self)` when there are any, `on_any(None)` when there are none."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        clock: Clock,
        on_any: Callable[[ClientQuotas | None], None],
    ) -> None:
        self._image = image
        self._clock = clock
        self._on_any = on_any
        windows = config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds") * 1000
        mutation_windows = (
            config.get_int("controller.quota.window.num"),
            config.get_int("controller.quota.window.size.seconds") * 1000,
        )
        self._new_rate = partial(Rate, window_count=windows[0], window_ms=windows[1])
        self._new_bucket = partial(TokenBucket, window_count=mutation_windows[0], window_ms=mutation_windows[1])
        self._limits: dict[tuple[str, bytes], ClientLimits | None] = {}
        self._taken: dict[tuple[str, str, str], Rate | TokenBucket] = {}
        self._load()

    def on_change(self, delta: Delta) -> None:
        """Take over changed quotas from the metadata."""
        if delta.changed_quotas:
            self._load()

    def _load(self) -> None:
        self._limits.clear()
        any_set = any(kind != IP for entity in self._image.client_quotas for kind, _ in entity)
        if not any_set:
            self._taken.clear()
        self._on_any(self if any_set else None)

    def charge(self, connection: ClientConnection, client_id: bytes, api: Api, size: int) -> Charge | None:
        """Return the charge of a request of `size` bytes; None without quotas, and before authentication."""
        if not connection.is_admitted:
            return None
        limits = self.of(connection.principal, client_id)
        return None if limits is None else Charge(self._clock, connection, limits, api, size)

    def of(self, principal: str, client_id: bytes) -> ClientLimits | None:
        """Return the limits of a client; None if it has none at all."""
        key = principal, client_id
        try:
            return self._limits[key]
        except KeyError:
            limits = self._find(principal.removeprefix(_USER_PREFIX), client_id.decode(errors="replace"))
        if len(client_id) <= _LONGEST_REMEMBERED:
            if len(self._limits) >= _MOST:
                self._limits.clear()
            self._limits[key] = limits
        return limits

    def _find(self, user: str, client_id: str) -> ClientLimits | None:
        limits = ClientLimits(
            self._share(PRODUCER_BYTE_RATE, user, client_id, self._new_rate),
            self._share(CONSUMER_BYTE_RATE, user, client_id, self._new_rate),
            self._share(REQUEST_PERCENTAGE, user, client_id, self._new_rate),
            self._share(CONTROLLER_MUTATION_RATE, user, client_id, self._new_bucket),
        )
        return None if limits == (None, None, None, None) else limits

    def _share(self, quota: str, user: str, client_id: str, new: Callable[[float], R]) -> R | None:
        """Return the common use of all clients that share a quota with this one; None if it has no such quota."""
        for entity, (shared_user, shared_client) in _candidates(user, client_id):
            bound = self._image.client_quotas.get(entity, {}).get(quota)
            if bound is not None:
                key = quota, shared_user, _short(shared_client)
                taken = self._taken.pop(key, None) or new(bound)
                taken.bound = bound
                if len(self._taken) >= _MOST:
                    del self._taken[next(iter(self._taken))]
                self._taken[key] = taken
                return taken  # type: ignore[return-value]  # the kind of quota says which
        return None


def _short(client_id: str) -> str:
    return client_id if len(client_id) <= _LONGEST_REMEMBERED else sha256(client_id.encode()).hexdigest()


def _candidates(user: str, client_id: str) -> list[tuple[QuotaEntity, tuple[str, str]]]:
    """Return the entities whose quota may apply, the most specific first, with the user and client id that share it."""
    found: list[tuple[QuotaEntity, tuple[str, str]]] = []
    for user_name in (user, None):
        if client_id:
            both = user, client_id
            found += [(((CLIENT_ID, client_name), (USER, user_name)), both) for client_name in (client_id, None)]
        found.append((((USER, user_name),), (user, "")))
    if client_id:
        found += [(((CLIENT_ID, client_name),), ("", client_id)) for client_name in (client_id, None)]
    return found
