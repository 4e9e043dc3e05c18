r"""SASL in the configuration: the mechanisms of a listener and their JAAS entries, checked as in Kafka.

    listener.name.internal.sasl.enabled.mechanisms=PLAIN
    listener.name.internal.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
        user_alice="secret";

Without such a key the login modules are those of the file in the environment (`jaas.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from security.jaas import JaasError, LoginModule, login_module
from security.sasl.plain import users_of
from security.sasl.scram_credential import BY_SASL_NAME
from security.sasl.unsecured_token import UnsecuredValidator

from .broker_config import BrokerConfig
from .errors import ConfigError, Problem
from .values import Password

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *BY_SASL_NAME, OAUTHBEARER)
"""All supported mechanisms."""
_KERBEROS = "GSSAPI"

_MECHANISMS = "sasl.enabled.mechanisms"
_JAAS = "sasl.jaas.config"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_CALLBACK_HANDLER = "sasl.server.callback.handler.class"
_JAVA_OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer."
_LOGIN_MODULE = f"{_JAVA_OAUTHBEARER}OAuthBearerLoginModule"
#: Kafka's default, which accepts unsigned tokens.
_UNSECURED = f"{_JAVA_OAUTHBEARER}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
#: Kafka's classes that validate signed tokens.
_VALIDATORS = tuple(f"{_JAVA_OAUTHBEARER}{part}OAuthBearerValidatorCallbackHandler" for part in ("", "secured."))
_JWT_VALIDATORS = tuple(f"{_JAVA_OAUTHBEARER}{name}JwtValidator" for name in ("Default", "Broker"))
_JWT_VALIDATOR = "sasl.oauthbearer.jwt.validator.class"
_JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_SCHEMES = ("https", "http", "file")
#: (key, key that waives it, claim, allowed values) of what a listener must verify of a signed token, as in Kafka 4.4.
_VERIFIED_CLAIMS = (
    (
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.allow.unverified.audience",
        "audience",
        "the audiences that identify this cluster",
    ),
    (
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.allow.unverified.issuer",
        "issuer",
        "the URL of the provider",
    ),
)


def enabled_mechanisms(config: BrokerConfig, listener_name: str) -> tuple[str, ...]:
    """Return the supported mechanisms of a listener, in the order in which clients get them."""
    names = _configured(config, listener_name)
    return tuple(name for name in dict.fromkeys(names) if name in MECHANISMS)


def jaas_entries(config: BrokerConfig, listener_name: str, mechanism: str) -> list[LoginModule] | None:
    """Return the login modules of a listener's mechanism; None if none are configured.

    Raises JaasError for a key's value, ConfigError for the file.
    """
    value = config.get_for_mechanism(listener_name, mechanism, _JAAS, unprefixed=False)
    if isinstance(value, Password):
        return [login_module(value.value)]
    if config.jaas_file is None:
        return None
    modules = config.jaas_file.modules(listener_name)
    if modules is not None and mechanism == PLAIN:  # a section of the file is for all mechanisms
        return [each for each in modules if each.name == _PLAIN_MODULE]
    return modules


def plain_users(config: BrokerConfig, listener_name: str) -> dict[str, str]:
    """Return the PLAIN passwords by user; none if the entry is invalid."""
    try:
        entries = jaas_entries(config, listener_name, PLAIN)
    except (JaasError, ConfigError):
        return {}
    users: dict[str, str] = {}
    for entry in reversed(entries or ()):  # the first of several entries wins
        users.update(users_of(entry.options))
    return users


def unsecured_options(config: BrokerConfig, listener_name: str) -> dict[str, str] | None:
    """Return the JAAS options for unsigned bearer tokens; None if the listener does not accept them.

    It accepts them if its JAAS entry names Kafka's login module, and no key configures the check of signatures.
    """
    handler = config.get_for_mechanism(listener_name, OAUTHBEARER, _CALLBACK_HANDLER)
    has_keys = bool(config.get_for_mechanism(listener_name, OAUTHBEARER, _JWKS_URL))
    if handler != _UNSECURED and (handler is not None or has_keys):
        return None
    try:
        entries = jaas_entries(config, listener_name, OAUTHBEARER)
    except (JaasError, ConfigError):
        return None
    return entries[0].options if entries is not None and [each.name for each in entries] == [_LOGIN_MODULE] else None


def sasl_problems(config: BrokerConfig) -> Iterator[Problem]:
    """Yield why listeners with SASL cannot be served as configured."""
    for listener in config.listeners:
        if listener.security_protocol.startswith("SASL_"):
            yield from _problems_of(config, listener.name)


def sasl_warnings(config: BrokerConfig) -> Iterator[Problem]:
    """Yield the mechanisms that are left out, if clients can use others."""
    for listener in config.listeners:
        if not listener.security_protocol.startswith("SASL_"):
            continue
        names, served = _configured(config, listener.name), enabled_mechanisms(config, listener.name)
        if _KERBEROS in names and served:
            reason = (
                f"{_KERBEROS} (Kerberos) IS NOT SUPPORTED: listener {listener.name} offers only {', '.join(served)}:"
                " Kerberos clients cannot connect"
            )
            yield Problem(_own_key(config, listener.name, _MECHANISMS), ",".join(names), reason)


def _configured(config: BrokerConfig, listener_name: str) -> tuple[str, ...]:
    names = config.get_for_listener(listener_name, _MECHANISMS)
    assert isinstance(names, tuple)
    return names


def _own_key(config: BrokerConfig, listener_name: str, key: str) -> str:
    """Return the key whose value counts for a listener."""
    own = f"listener.name.{listener_name.lower()}.{key}"
    return own if own in config.originals() else key


def _problems_of(config: BrokerConfig, listener_name: str) -> Iterator[Problem]:
    prefix = f"listener.name.{listener_name.lower()}."
    names = _configured(config, listener_name)
    for name in names:
        if name == _KERBEROS and enabled_mechanisms(config, listener_name):
            continue  # sasl_warnings reports it
        if name not in MECHANISMS:
            reason = f"mechanism {name} of listener {listener_name} is not supported"
            yield Problem(_own_key(config, listener_name, _MECHANISMS), ",".join(names), reason, ", ".join(MECHANISMS))
            continue
        key = f"{prefix}{name.lower()}.{_JAAS}"
        try:
            entries = jaas_entries(config, listener_name, name)
        except JaasError as error:
            yield Problem(key, None, str(error), "one login module, its options and a semicolon")
            continue
        except ConfigError as error:
            yield from error.problems
            return
        if entries is None and name == PLAIN:
            section = f"{listener_name.lower()}.KafkaServer"
            reason = f"Could not find a 'KafkaServer' or '{section}' entry in the JAAS configuration."
            if config.jaas_file is not None:
                reason += f" System property 'java.security.auth.login.config' is {config.jaas_file.path}"
            yield Problem(key, None, reason, "a login module with the users")
        if name == OAUTHBEARER:
            yield from _oauthbearer_problems(config, listener_name, len(entries or ()))
        elif config.get_for_mechanism(listener_name, name, _CALLBACK_HANDLER) is not None:
            yield Problem(f"{prefix}{name.lower()}.{_CALLBACK_HANDLER}", None, "Java classes are not loaded", "nothing")


def _oauthbearer_problems(config: BrokerConfig, listener_name: str, entry_count: int) -> Iterator[Problem]:
    def problem(key: str, value: str | None, reason: str, allowed: str) -> Problem:
        named = (f"listener.name.{listener_name.lower()}.{part}{key}" for part in ("oauthbearer.", ""))
        return Problem(next((each for each in named if each in config.originals()), key), value, reason, allowed)

    options = unsecured_options(config, listener_name)
    if options is not None:
        try:
            UnsecuredValidator(options, now_ms=lambda: 0)  # created only to check its options
        except ValueError as error:
            yield problem(_JAAS, None, str(error), "0 or more")
        return
    for key, known in ((_CALLBACK_HANDLER, (None, _UNSECURED, *_VALIDATORS)), (_JWT_VALIDATOR, _JWT_VALIDATORS)):
        given = config.get_for_mechanism(listener_name, OAUTHBEARER, key)
        if given not in known:
            yield problem(key, str(given), "Java classes are not loaded", known[-1] or "")
    url = config.get_for_mechanism(listener_name, OAUTHBEARER, _JWKS_URL)
    if not url and entry_count > 1:
        reason = f"Must supply exactly 1 non-null JAAS mechanism configuration (size was {entry_count})"
        yield problem(_JAAS, None, reason, "a section of the file, or this key, with one login module")
    elif not url:
        reason = (
            f"it is not set for listener {listener_name}: unsigned tokens are not accepted without a JAAS"
            f" entry of {_LOGIN_MODULE}"
        )
        yield problem(_JWKS_URL, None, reason, "the URL of the keys that verify tokens")
    elif str(url).partition(":")[0].lower() not in _SCHEMES:
        yield problem(_JWKS_URL, str(url), "it cannot be read", ", ".join(f"{each}://" for each in _SCHEMES))
    if url:
        for expected, waiver, claim, allowed in _VERIFIED_CLAIMS:
            if config.get_for_mechanism(listener_name, OAUTHBEARER, expected) or config.get_for_mechanism(
                listener_name, OAUTHBEARER, waiver
            ):
                continue
            reason = f"it is not set for listener {listener_name}, which would accept tokens of any {claim}"
            yield problem(expected, None, reason, f"{allowed}, or {waiver}=true")
