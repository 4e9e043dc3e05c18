"""Mechanisms and JAAS entries in the configuration, checked before the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from config import ConfigError, load
from config.sasl import enabled_mechanisms, plain_users, unsecured_options

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LISTENER = {
    "listeners": "IN://127.0.0.1:9092",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT",
    "inter.broker.listener.name": "IN",
}
ENTRY = {"listener.name.in.plain.sasl.jaas.config": f'{MODULE} required user_alice="secret";'}


SIGNED = {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "https://idp/keys"}
AUDIENCE, ISSUER = "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"
ANY_AUDIENCE, ANY_ISSUER = "sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer"
BEARER = SIGNED | {AUDIENCE: "brokers", ISSUER: "https://idp"}


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ({}, [AUDIENCE, ISSUER]),
        ({AUDIENCE: "brokers"}, [ISSUER]),
        ({ISSUER: "https://idp"}, [AUDIENCE]),
        ({ANY_AUDIENCE: "true"}, [ISSUER]),
        ({ANY_AUDIENCE: "true", ANY_ISSUER: "false"}, [ISSUER]),
        ({AUDIENCE: "", ANY_ISSUER: "true"}, [AUDIENCE]),
        ({AUDIENCE: "brokers", ANY_ISSUER: "true"}, []),
        ({ANY_AUDIENCE: "true", ANY_ISSUER: "true"}, []),
        ({f"listener.name.in.oauthbearer.{ANY_AUDIENCE}": "true", f"listener.name.in.{ISSUER}": "https://idp"}, []),
        ({f"listener.name.other.oauthbearer.{ANY_AUDIENCE}": "true", ANY_ISSUER: "true"}, [AUDIENCE]),
    ],
)
def test_audience_and_issuer_are_verified_unless_waived(own: dict[str, str], missing: list[str]) -> None:
    """As in Apache Kafka from 4.4 on. Commands that only read the configuration do not check it."""
    load(overrides=LISTENER | SIGNED | own)
    if not missing:
        load(overrides=LISTENER | SIGNED | own, to_serve=True)
        return
    with pytest.raises(ConfigError) as refused:
        load(overrides=LISTENER | SIGNED | own, to_serve=True)
    assert [problem.key for problem in refused.value.problems] == missing
    for problem in refused.value.problems:
        assert "it is not set for listener IN" in problem.reason
        waiver = ANY_AUDIENCE if problem.key == AUDIENCE else ANY_ISSUER
        assert f"; allowed: the {'audiences' if waiver == ANY_AUDIENCE else 'URL'}" in str(problem)
        assert str(problem).endswith(f", or {waiver}=true")


def test_an_empty_audience_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    values = LISTENER | BEARER | {AUDIENCE: "", "log.dirs": str(tmp_path)}
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    with pytest.raises(ConfigError) as refused:
        load(file, to_serve=True)
    line = list(values).index(AUDIENCE) + 1
    (problem,) = refused.value.problems
    assert str(problem).startswith(f"{file}:{line}: {AUDIENCE}: it is not set for listener IN")


def test_kafkas_validator_classes_are_accepted() -> None:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    keys = {"listener.name.in.oauthbearer.sasl.server.callback.handler.class": handler}
    config = load(overrides=LISTENER | BEARER | keys, to_serve=True)
    assert enabled_mechanisms(config, "IN") == ("OAUTHBEARER",)
    assert config.warnings == ()


OAUTH = "org.apache.kafka.common.security.oauthbearer."
LOGIN = f'{OAUTH}OAuthBearerLoginModule required unsecuredValidatorScopeClaimName="s";'
JAAS = {"listener.name.in.oauthbearer.sasl.jaas.config": LOGIN}
HANDLER = "listener.name.in.oauthbearer.sasl.server.callback.handler.class"
UNSECURED = {HANDLER: f"{OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"}
UNSIGNED = {"sasl.enabled.mechanisms": "OAUTHBEARER"} | JAAS


@pytest.mark.parametrize("overrides", [UNSIGNED, UNSIGNED | UNSECURED, BEARER | JAAS | UNSECURED])
def test_unsigned_tokens_need_the_login_module(overrides: dict[str, str]) -> None:
    """If no key configures the check of signatures, as by default in Kafka; or if Kafka's class for them is named."""
    config = load(overrides=LISTENER | overrides, to_serve=True)
    assert unsecured_options(config, "IN") == {"unsecuredValidatorScopeClaimName": "s"}


@pytest.mark.parametrize("handler", [None, f"{OAUTH}OAuthBearerValidatorCallbackHandler"])
def test_only_signed_tokens_if_keys_are_configured(handler: str | None) -> None:
    overrides = BEARER | JAAS | ({HANDLER: handler} if handler else {})
    assert unsecured_options(load(overrides=LISTENER | overrides, to_serve=True), "IN") is None


def test_listener_value_wins_over_common_one() -> None:
    config = load(
        overrides=LISTENER
        | ENTRY
        | {"sasl.enabled.mechanisms": "GSSAPI", "listener.name.in.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN"},
        to_serve=True,
    )
    assert enabled_mechanisms(config, "IN") == ("SCRAM-SHA-512", "PLAIN")
    assert plain_users(config, "IN") == {"alice": "secret"}


@pytest.mark.parametrize("prefix", ["", "listener.name.in."])
def test_kerberos_is_left_out_with_a_warning(prefix: str) -> None:
    """Its own keys, as in standard images, have no effect. Clients with other mechanisms are served."""
    key = f"{prefix}sasl.enabled.mechanisms"
    kerberos = {
        "sasl.kerberos.service.name": "kafka",
        "listener.name.in.sasl.kerberos.service.name": "kafka",
        "listener.name.in.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;",
    }
    config = load(overrides=LISTENER | ENTRY | kerberos | {key: "PLAIN,GSSAPI,SCRAM-SHA-256"}, to_serve=True)
    assert enabled_mechanisms(config, "IN") == ("PLAIN", "SCRAM-SHA-256")
    own = [f"--override: {each} has no effect here: Kerberos is not supported" for each in list(kerberos)[:2]]
    assert [each for each in config.warnings if "no effect" in each] == own
    (warning,) = (each for each in config.warnings if each not in own)
    assert warning.startswith(
        f"--override: {key}=PLAIN,GSSAPI,SCRAM-SHA-256: GSSAPI (Kerberos) IS NOT SUPPORTED: listener IN"
    )


def test_unknown_mechanism_is_rejected() -> None:
    overrides = LISTENER | ENTRY | {"listener.name.in.sasl.enabled.mechanisms": "PLAIN,GSSAPI,DIGEST-MD5"}
    with pytest.raises(ConfigError) as refused:
        load(overrides=overrides, to_serve=True)
    (problem,) = refused.value.problems
    assert str(problem).startswith(
        "--override: listener.name.in.sasl.enabled.mechanisms=PLAIN,GSSAPI,DIGEST-MD5: mechanism DIGEST-MD5 of"
    )


def test_values_of_a_mechanism() -> None:
    """The mechanism's value, else the listener's, else the broker's."""
    key = "connections.max.reauth.ms"
    overrides = {key: "1", f"listener.name.in.{key}": "2", f"listener.name.in.plain.{key}": "3"}
    config = load(overrides=LISTENER | overrides)
    assert config.get_for_mechanism("IN", "PLAIN", key) == 3
    assert config.get_for_mechanism("IN", "SCRAM-SHA-256", key) == 2
    assert config.get_for_mechanism("OUT", "PLAIN", key) == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({}, "mechanism GSSAPI of listener IN is not supported"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "Could not find a 'KafkaServer' or 'in.KafkaServer' entry"),
        (  # as in Kafka, an entry without listener and mechanism is ignored
            {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": f'{MODULE} required user_a="b";'},
            "Could not find a 'KafkaServer'",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "listener.name.in.plain.sasl.jaas.config": f"{MODULE} hidden"},
            "Invalid login module control flag",
        ),
        (
            ENTRY
            | {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.in.plain.sasl.server.callback.handler.class": "org.example.Handler",
            },
            "Java classes are not loaded",
        ),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "unsigned tokens are not accepted"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"} | UNSECURED, "OAuthBearerLoginModule"),
        (UNSIGNED | {HANDLER: f"{OAUTH}OAuthBearerValidatorCallbackHandler"}, "unsigned tokens are not"),
        (UNSIGNED | {next(iter(JAAS)): f"{MODULE} required;"}, "unsigned tokens are not accepted"),
        (UNSIGNED | {next(iter(JAAS)): LOGIN.replace("ScopeClaimName", "AllowableClockSkewMs")}, "not a number of"),
        (BEARER | {"sasl.oauthbearer.jwks.endpoint.url": "ftp://keys"}, "it cannot be read"),
        (BEARER | {"listener.name.in.oauthbearer.sasl.server.callback.handler.class": "a.B"}, "Java classes are not"),
        (BEARER | {"sasl.oauthbearer.jwt.validator.class": "a.B"}, "Java classes are not loaded"),
    ],
)
def test_rejected_when_it_is_to_be_served(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(overrides=LISTENER | overrides, to_serve=True)
    assert message in str(refused.value)
    load(overrides=LISTENER | overrides)  # as `format` and other commands load it
