"""PushTelemetry: what happens to a report while a thread reads it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.handlers.push_telemetry import push_telemetry
from broker.observability.telemetry.subscriptions import ClientMetrics
from metadata.image import ResourceType
from protocol.messages.push_telemetry import PUSH_TELEMETRY
from runtime.deferred import Deferred
from tests.support.controllers import ControllerHarness

CLIENT = b"\x01" * 16


def test_the_last_report_of_a_closing_client_is_accepted() -> None:
    """Java clients send it and disconnect when they close."""
    harness = ControllerHarness()
    metrics = ClientMetrics(harness.config, harness.metadata, lambda: 1_000_000)
    harness.controller.alter_config(ResourceType.CLIENT_METRICS, "all", {"metrics": "*"}).result()
    taken: list[tuple[bytes, Any]] = []
    metrics.received = SimpleNamespace(take=lambda *report: taken.append((report[0], report[3])))  # type: ignore[assignment]
    reading: list[Deferred[Any]] = []

    def offload(*call: Any) -> Deferred[Any]:
        reading.append(Deferred())
        return reading[-1]

    connection: Any = SimpleNamespace(
        is_closed=False,
        client_host="192.0.2.7",
        client_port=40_000,
        client_software_name="apache-kafka-java",
        client_software_version="4.3.1",
    )
    context: Any = SimpleNamespace(connection=connection, client_id="me")
    request = PUSH_TELEMETRY.request(
        client_instance_id=CLIENT,
        subscription_id=metrics.ask(CLIENT, connection, "me").subscription_id,
        terminating=True,
        compression_type=0,
        metrics=b"some",
    )
    reply = push_telemetry(context, request, client_metrics=metrics, offload=offload)  # type: ignore[arg-type]
    assert isinstance(reply, Deferred)

    connection.is_closed = True
    reply.cancel()
    reading[0].resolve(["a point"])

    assert taken == [(CLIENT, ["a point"])]
