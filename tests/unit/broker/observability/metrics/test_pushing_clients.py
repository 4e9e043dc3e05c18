"""The clients that push metrics, and the end offsets that metrics need."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.observability.metrics.clients import take_clients
from broker.observability.metrics.observed import MainParts
from broker.observability.metrics.sources import client_series, learn_ends
from runtime.deferred import Deferred
from tests.support.fake_loop import FakeClock


def process(main: MainParts) -> Any:
    asked = Deferred.resolved(None)
    end_offsets = SimpleNamespace(learn_ends=lambda committed: (list(committed), asked)[1])
    return SimpleNamespace(clock=FakeClock(), main_parts=main, end_offsets=end_offsets, queries=None)


def main_parts(received: object) -> MainParts:
    parts: Any = SimpleNamespace(received=received, instances=lambda: ["an instance"], loaded_logs=list)
    return MainParts(controller=parts, quorum=parts, groups=parts, transactions=parts, client_metrics=parts)


def test_clients_that_push_are_described() -> None:
    received = SimpleNamespace(counts=dict, of_client=lambda _: ["numbers"], series=lambda: ["series"])
    found = take_clients(process(main_parts(received)), bytes(16))
    assert (found.instances, found.numbers) == (["an instance"], ["numbers"])
    assert client_series(process(main_parts(received))) == ["series"]
    assert take_clients(process(main_parts(None)), None).instances == []
    assert learn_ends(process(main_parts(None))).done
