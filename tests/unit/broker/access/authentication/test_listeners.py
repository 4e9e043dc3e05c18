"""What a listener needs that is not installed."""

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
def test_signed_tokens_without_what_checks_signatures(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """One line, with the listener and what brings it; where both are there, the keys are read."""
    broker = SimpleNamespace(config=load(overrides=KEYS), timers=None, offload=None)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, missing, None)
        with pytest.raises(CannotBind, match=rf"^IN: signed tokens: there is no {missing}; .*'pybroker\[security\]'"):
            _token_validator(broker, "IN")  # type: ignore[arg-type]
    with pytest.raises(CannotBind, match="IN: the keys of tokens cannot be read"):
        _token_validator(broker, "IN")  # type: ignore[arg-type]
