"""Keys by environment variables."""

from __future__ import annotations

import pytest

from config.environ import read_environment, variable_name
from config.keys import BROKER_KEYS


def test_every_key_has_a_variable_of_its_own() -> None:
    """Each name leads back to one key only."""
    names = [variable_name(key) for key in BROKER_KEYS]

    assert len(set(names)) == len(names)
    assert all(name.isupper() and name.replace("_", "").isalnum() for name in names)


def test_every_key_is_found_by_its_variable() -> None:
    """Dots, dashes and capitals are restored."""
    for key in BROKER_KEYS:
        assert list(read_environment({variable_name(key): "x"})) == [key]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("PYBROKER_TOPICS", "pybroker.topics"),
        ("PYBROKER_PYBROKER_TOPICS", "pybroker.topics"),
        ("PYBROKER_ZOOKEEPER_CLIENTCNXNSOCKET", "zookeeper.clientCnxnSocket"),
        ("PYBROKER_MY_PLUGIN_KEY", "my.plugin.key"),
        (
            "PYBROKER_LISTENER_NAME_SASL__SSL_SCRAM___SHA___256_SASL_JAAS_CONFIG",
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config",
        ),
    ],
)
def test_names(name: str, key: str) -> None:
    """Keys outside of the table are written as for Kafka's container image."""
    settings = read_environment({name: "x"})

    assert list(settings) == [key]
    assert settings[key].origin == f"environment {name}"


def test_other_variables_are_ignored() -> None:
    """Including those of this project's tests."""
    assert read_environment({"PATH": "/bin", "PYBROKER_TEST_SCALE": "3", "KAFKA_LOG_DIRS": "/x"}) == {}
