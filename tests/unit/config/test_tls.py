"""Stores and passwords of listeners with TLS, checked before the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from config import ConfigError, load
from tests.support.certificates import PASSWORD, Authority

LISTENERS = {
    "listeners": "IN://127.0.0.1:9092,OUT://127.0.0.1:9093",
    "listener.security.protocol.map": "IN:SSL,OUT:SSL",
    "inter.broker.listener.name": "IN",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Authority(tmp_path_factory.mktemp("certificates")).issue("server").with_suffix(".p12")


def test_problems_have_their_origin(store: Path, tmp_path: Path) -> None:
    """File, line and key. A problem of several listeners is reported once, and passwords never."""
    path = tmp_path / "server.properties"
    lines = [
        *(f"{key}={value}" for key, value in LISTENERS.items()),
        f"ssl.keystore.location={store}",
        "ssl.keystore.password=hidden",
        f"listener.name.out.ssl.truststore.location={tmp_path}/none",
        f"listener.name.out.ssl.keystore.password={PASSWORD}",
        "listener.name.out.ssl.principal.mapping.rules=RULE:nothing",
    ]
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError) as refused:
        load(path, to_serve=True)
    password, truststore, rules = map(str, refused.value.problems)
    assert password.startswith(f"{path}:5: ssl.keystore.password: wrong password for the store {store};")
    assert truststore.startswith(f"{path}:6: listener.name.out.ssl.truststore.location={tmp_path}/none: No such file")
    assert rules.startswith(f"{path}:8: listener.name.out.ssl.principal.mapping.rules=RULE:nothing: ")
    load(path)  # as `format` and other commands load it
    shared = LISTENERS | {"ssl.keystore.location": str(store), "ssl.keystore.password": "hidden"}
    with pytest.raises(ConfigError) as refused:
        load(overrides=shared, to_serve=True)
    assert len(refused.value.problems) == 1
    assert load(overrides=shared | {"ssl.keystore.password": PASSWORD}, to_serve=True).warnings == ()
