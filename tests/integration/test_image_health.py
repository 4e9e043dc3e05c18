"""The image's health check, with listeners of all kinds."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker.testing import Broker
from tests.support.certificates import Authority

ENTRYPOINT = Path(__file__).resolve().parents[2] / "docker/entrypoint.py"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SSL:SSL,MUTUAL:SSL,MUTUAL_OLD:SSL"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    mutual = {
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.path,
    }
    config = {
        "listeners": ",".join(f"{each.partition(':')[0]}://127.0.0.1:0" for each in PROTOCOLS.split(",")),
        "listener.security.protocol.map": PROTOCOLS,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("server"),
        **{f"listener.name.mutual.{key}": value for key, value in mutual.items()},
        **{f"listener.name.mutual_old.{key}": value for key, value in mutual.items()},
        "listener.name.mutual_old.ssl.enabled.protocols": "TLSv1.2",
    }
    with Broker(config) as running:
        yield running


@pytest.fixture(scope="module")
def is_healthy() -> Callable[..., bool]:
    spec = importlib.util.spec_from_file_location("entrypoint", ENTRYPOINT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., bool] = module.is_healthy
    return found


@pytest.mark.parametrize(
    ("listener", "has_tls"),
    [("PLAINTEXT", False), ("LOGIN", False), ("SSL", True), ("MUTUAL", True), ("MUTUAL_OLD", True)],
)
def test_running_broker_is_healthy(
    broker: Broker, is_healthy: Callable[..., bool], listener: str, has_tls: bool
) -> None:
    """The check succeeds even on a listener that requires client certificates, though it has none."""
    host, _, port = broker.listeners[listener].rpartition(":")
    assert is_healthy(host, int(port), has_tls)


def test_missing_broker_and_wrong_protocol_are_unhealthy(broker: Broker, is_healthy: Callable[..., bool]) -> None:
    """Nothing listens, or TLS is used with a plaintext listener."""
    host, _, port = broker.listeners["PLAINTEXT"].rpartition(":")
    assert not is_healthy(host, int(port), True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert not is_healthy("127.0.0.1", taken.getsockname()[1])
