"""Start of the metrics endpoint."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from broker.network.listener import CannotBind
from broker.observability.metrics.serving import bind_endpoint
from config import load


def broker(**overrides: str) -> Any:
    config = load(overrides={key.replace("_", "."): value for key, value in overrides.items()})
    return SimpleNamespace(config=config, number=0)


def test_endpoint_is_started_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it no package is imported for it."""
    monkeypatch.setitem(sys.modules, "broker.observability.metrics.endpoint", None)

    assert bind_endpoint(broker()) is None


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    for name in ("application", "endpoint"):
        monkeypatch.delitem(sys.modules, f"broker.observability.metrics.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(CannotBind, match=r"prometheus_client.*pip install 'pybroker\[metrics\]'"):
        bind_endpoint(broker(metrics_listeners="http://127.0.0.1:0"))
