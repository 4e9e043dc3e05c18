"""Listeners that need a package that is not installed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from broker.access.authentication.listeners import _token_validator
from broker.network.listener import CannotBind
from config import load

KEYS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere/keys.json",
}


@pytest.mark.parametrize("missing", ["jwt", "cryptography"])
def test_signed_tokens_without_the_signature_package(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """One line names the listener and the package to install. If both packages are installed, the keys are read."""
    broker = SimpleNamespace(config=load(overrides=KEYS), timers=None, offload=None)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, missing, None)
        with pytest.raises(
            CannotBind, match=rf"^IN: signed tokens cannot be verified without {missing}; .*'pybroker\[security\]'"
        ):
            _token_validator(broker, "IN")  # type: ignore[arg-type]
    with pytest.raises(CannotBind, match="IN: the keys of tokens cannot be read"):
        _token_validator(broker, "IN")  # type: ignore[arg-type]
