"""The SASL mechanisms of a listener, prepared from the configuration.

Mechanisms and their JAAS entries may change while the broker runs. Clients that authenticate later use the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from secrets import randbits

import msgspec

from broker.access.authentication.delegation_tokens import DelegationTokens
from config import BrokerConfig
from config.sasl import OAUTHBEARER, enabled_mechanisms, plain_users
from metadata.image import MetadataImage
from security.sasl.exchange_protocol import Exchange, NewExchange
from security.sasl.oauthbearer import OAuthBearerExchange, Validate
from security.sasl.plain import PlainExchange
from security.sasl.scram import (
    FindCredential,
    FindToken,
    IterationsAt,
    ScramExchange,
    new_nonce,
)
from security.sasl.scram_credential import (
    BY_SASL_NAME,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)


class SaslListener(msgspec.Struct, frozen=True):
    """`exchanges` by mechanism, in the order of answers; `max_session_ms` by mechanism, 0 for no limit."""

    exchanges: Mapping[str, NewExchange]
    max_session_ms: Mapping[str, int]
    max_token_bytes: int
    failure_delay_ms: int


def sasl_listener(
    config: BrokerConfig,
    listener_name: str,
    image: MetadataImage,
    secret: bytes,
    tokens: DelegationTokens,
    validate: Validate | None = None,
) -> SaslListener:
    """The configuration of one listener, which was checked when it was loaded.

    Args:
        secret: passed to ScramExchange.
        validate: validates tokens of OAUTHBEARER; None if it was not enabled at the start, and is not enabled later.
    """
    mechanisms = [
        name for name in enabled_mechanisms(config, listener_name) if name != OAUTHBEARER or validate is not None
    ]
    exchanges: dict[str, NewExchange] = {}
    for name in mechanisms:
        if name == OAUTHBEARER and validate is not None:
            exchanges[name] = partial(OAuthBearerExchange, validate)
        else:
            exchanges[name] = _new_exchange(config, listener_name, name, image, secret, tokens)
    return SaslListener(
        exchanges=exchanges,
        max_session_ms={name: _max_session_ms(config, listener_name, name) for name in mechanisms},
        max_token_bytes=_int(config, listener_name, "sasl.server.max.receive.size"),
        failure_delay_ms=_int(config, listener_name, "connection.failed.authentication.delay.ms"),
    )


def _new_exchange(
    config: BrokerConfig,
    listener_name: str,
    name: str,
    image: MetadataImage,
    secret: bytes,
    tokens: DelegationTokens,
) -> NewExchange:
    mechanism = BY_SASL_NAME.get(name)
    if mechanism is None:
        return partial(PlainExchange, plain_users(config, listener_name))
    find_token = partial(tokens.credential, mechanism)
    find = partial(_find_credential, image, mechanism)
    return partial(_new_scram, mechanism, find, secret, find_token, partial(_iterations_at, image, mechanism))


def _new_scram(
    mechanism: ScramMechanism, find: FindCredential, secret: bytes, find_token: FindToken, iterations_at: IterationsAt
) -> Exchange:
    return ScramExchange(mechanism, find, secret, new_nonce(randbits), find_token, iterations_at)


def _find_credential(image: MetadataImage, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    stored = image.scram_credentials.get((user, mechanism))
    if stored is None:
        return None
    return ScramCredential(stored.salt, stored.stored_key, stored.server_key, stored.iterations)


def _iterations_at(image: MetadataImage, mechanism: ScramMechanism, place: float) -> int:
    """Return iterations for unknown users, distributed as those of the users (see `IterationsAt`)."""
    counts: Mapping[int, int] = image.scram_iterations.get(mechanism, {})
    left = place * sum(counts.values())
    for iterations, users in sorted(counts.items()):
        left -= users
        if left < 0:
            return iterations
    return MIN_ITERATIONS


def _max_session_ms(config: BrokerConfig, listener_name: str, mechanism: str) -> int:
    value = config.get_for_mechanism(listener_name, mechanism, "connections.max.reauth.ms")
    assert isinstance(value, int)
    return value


def _int(config: BrokerConfig, listener_name: str, key: str) -> int:
    value = config.get_for_listener(listener_name, key)
    assert isinstance(value, int)
    return value


def changing_keys(listener_names: Iterable[str]) -> frozenset[str]:
    """Return the keys that change the result of `sasl_listener`, except those of single mechanisms."""
    own = ("sasl.enabled.mechanisms", "plain.sasl.jaas.config")
    prefixed = (f"listener.name.{name.lower()}.{key}" for name in listener_names for key in own)
    return frozenset(("sasl.enabled.mechanisms", *prefixed))
