"""The metrics of a controller, under Apache Kafka's names. A controller alone has its own `metrics.listeners`."""

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
    """Yield all samples of a controller alone that serves."""
    yield from requests(service)
    yield from connections(service.server)
    yield from metadata(service.data.image, service.quorum, service.controller, node_id)
    yield table.INFO, (version("pybroker"), service.data.cluster_id, str(node_id)), 1
    yield from MeasuredController(service, now_ms).samples()


class MeasuredController:
    """The samples that every controller of other brokers has, alone or in the process of a broker."""

    def __init__(self, service: ControllerService, now_ms: int) -> None:
        self._service = service
        self._now_ms = now_ms

    def samples(self) -> Iterator[Sample]:
        """Yield the samples that only a controller of other brokers has."""
        controller, last_ms = self._service.controller, self._service.data.metadata_log.last_timestamp_ms
        yield table.METADATA_COMMITTED, (), self._service.reads.high_watermark - 1
        yield table.METADATA_APPLIED_AT, (), last_ms
        yield table.METADATA_APPLIED_LAG, (), max(0, self._now_ms - last_ms)
        yield table.METADATA_ERRORS, (), 0
        yield table.EXPIRED_HEARTBEATS, (), controller.ended_sessions
        yield table.UNCLEAN_ELECTIONS, (), controller.unclean_elections
        yield table.ELIGIBLE_ELECTIONS, (), controller.eligible_elections
