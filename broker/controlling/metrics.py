"""The metrics of a controller alone, under Apache Kafka's names, on `metrics.listeners`."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from broker.observability.metrics import metric_table as table
from broker.observability.metrics.metric import Sample
from broker.observability.metrics.serving import metrics_addresses, needed_library
from broker.observability.metrics.snapshot import take_snapshot
from broker.observability.metrics.sources import connections, metadata, requests

if TYPE_CHECKING:
    from broker.controlling.service import ControllerService
    from broker.observability.metrics.endpoint import Endpoint
    from config import BrokerConfig
    from runtime.clock import Clock


def bind_endpoint(config: BrokerConfig, loop: AbstractEventLoop, service: ControllerService, clock: Clock) -> Endpoint:
    """Bind the ports of `metrics.listeners`. Raises CannotBind."""
    with needed_library():
        from broker.observability.metrics.application import ProbedApplication
        from broker.observability.metrics.endpoint import Endpoint
        from broker.observability.metrics.exposition import BrokerCollector
    collector = BrokerCollector(
        lambda: take_snapshot(loop, lambda: samples(service, config.node_id, clock.now_ms())), [config.metadata_log_dir]
    )
    application = ProbedApplication(loop, lambda: service.is_open, [collector])
    return Endpoint(metrics_addresses(config), service, application)


def samples(service: ControllerService, node_id: int, now_ms: int) -> Iterator[Sample]:
    """Yield all samples of a controller that serves."""
    metadata_log = service.data.metadata_log
    yield from requests(service)
    yield from connections(service.server)
    yield from metadata(service.data.image, service.quorum, service.controller, node_id)
    yield table.METADATA_COMMITTED, (), service.reads.high_watermark - 1
    yield table.METADATA_APPLIED_AT, (), metadata_log.last_timestamp_ms
    yield table.METADATA_APPLIED_LAG, (), max(0, now_ms - metadata_log.last_timestamp_ms)
    yield table.METADATA_ERRORS, (), 0
    yield table.EXPIRED_HEARTBEATS, (), service.controller.ended_sessions
    yield table.INFO, (version("pybroker"), service.data.cluster_id, str(node_id)), 1
