"""The HTTP endpoint: /metrics for Prometheus, /totals for curves, /live and /ready for supervisors, /queries of Spark,
/clients that push their metrics, and /tiering: why segments are local.

One thread accepts connections, and one thread for each request answers, in the WSGI server of Python's library with the
application of prometheus-client. They ask the event loop for the broker's figures. There is no authentication:
`metrics.listeners` is off by default; set it only to an address that only trusted clients can reach.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client.exposition import ThreadingWSGIServer

from broker.network.listener import CannotBind, bind, bound_address, host_in_address
from broker.observability.metrics.application import ProbedApplication, json_page, text_page
from broker.observability.metrics.client_series import ClientCollector
from broker.observability.metrics.clients import asked_client, clients_json, take_clients
from broker.observability.metrics.exposition import ANSWER_S, BrokerCollector
from broker.observability.metrics.queries import queries_json
from broker.observability.metrics.request_times import RequestTimes
from broker.observability.metrics.snapshot import Snapshot, take_snapshot
from broker.observability.metrics.sources import (
    all_samples,
    client_series,
    learn_ends,
    totals,
)
from broker.observability.metrics.sources import queries as query_samples
from broker.observability.metrics.totals import totals_json
from broker.observability.metrics.traffic import Traffic
from broker.observability.telemetry.received import Series
from broker.process.state import BrokerState

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

    from broker.observability.metrics.observed import MeasuredProcess, ObservedProcess


log = logging.getLogger(__name__)

#: Concurrent requests. One more closes the oldest, so that silent clients do not block others.
_MOST_REQUESTS = 8
#: Threads, including those of closed requests. Further connections are closed.
_MOST_THREADS = 32
#: The time-out of each receive and send.
_TIMEOUT_S = 10.0


class Application(ProbedApplication):
    """The application of a broker."""

    paths = ("/metrics", "/totals", "/live", "/ready", "/queries", "/clients", "/tiering")

    def __init__(self, broker: ObservedProcess) -> None:
        self._broker = broker
        self._traffic = Traffic()
        self._prepare = lambda: learn_ends(broker)
        collectors = (
            BrokerCollector(self._take_snapshot, broker.config.log_dirs),
            ClientCollector(self._take_client_series),
        )
        super().__init__(broker.loop, lambda: broker.state is BrokerState.RUNNING, collectors)

    def page(self, path: str, query: str, start_response: StartResponse) -> Iterable[bytes]:
        if path == "/totals":
            return self._totals(start_response)
        if path == "/queries":
            return self._queries(start_response)
        if path == "/tiering":
            return self._tiering(query, start_response)
        return self._clients(query, start_response)

    def _tiering(self, query: str, start_response: StartResponse) -> Iterable[bytes]:
        tier = self._broker.tier
        if tier is None:
            return text_page(start_response, "404 Not Found", "remote.log.storage.system.enable=false")
        from broker.observability.metrics.tiered_logs import asked_logs, take_logs, tiered_logs_json  # few have a tier

        try:
            asked = asked_logs(query)
        except ValueError as error:
            return text_page(start_response, "400 Bad Request", str(error))
        taken = take_logs(self._broker.loop, tier, asked)
        return json_page(start_response, tiered_logs_json(taken.result(ANSWER_S)))

    def _totals(self, start_response: StartResponse) -> Iterable[bytes]:
        taken = take_snapshot(self._broker.loop, lambda: totals(self._broker, self._traffic))
        return json_page(start_response, totals_json(taken.result(ANSWER_S), self.process))

    def _queries(self, start_response: StartResponse) -> Iterable[bytes]:
        queries = self._broker.queries
        if queries is None:
            return text_page(start_response, "404 Not Found", "No queries: pybroker.spark.checkpoints is not set")
        taken = take_snapshot(self._broker.loop, lambda: query_samples(self._broker, of_all=True), self._prepare)
        return json_page(start_response, queries_json(queries.found, taken.result(ANSWER_S)))

    def _clients(self, query: str, start_response: StartResponse) -> Iterable[bytes]:
        try:
            instance_id = asked_client(query)
        except ValueError:
            return text_page(start_response, "400 Bad Request", "id= is a client's instance id")
        taken = self.asked(lambda: take_clients(self._broker, instance_id))
        return json_page(start_response, clients_json(taken.result(ANSWER_S), instance_id))

    def _take_snapshot(self) -> Future[Snapshot]:
        return take_snapshot(self._broker.loop, lambda: all_samples(self._broker, self._traffic), self._prepare)

    def _take_client_series(self) -> Future[list[Series]]:
        return self.asked(lambda: client_series(self._broker))


class _Handler(WSGIRequestHandler):
    timeout = _TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("%s " + format, self.address_string(), *args)

    def address_string(self) -> str:
        """Return the client's address without a look-up of its name."""
        return str(self.client_address[0])


class _Server(ThreadingWSGIServer):
    """A server on a bound socket."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = sock
        self.server_name, self.server_port = sock.getsockname()[:2]
        self.setup_environ()
        self._threads_left = threading.BoundedSemaphore(_MOST_THREADS)
        #: The requests being served, oldest first, without closed ones.
        self._served: dict[socket.socket, None] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a request in a thread, if there are not too many."""
        if not self._threads_left.acquire(blocking=False):
            self.shutdown_request(request)
            return
        if len(self._served) >= _MOST_REQUESTS:
            self._let_oldest_go()
        self._served[request] = None
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the process cannot start more threads; the next request may succeed
            self._done(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a request; this runs in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._done(request)

    def _let_oldest_go(self) -> None:
        """Close the oldest request's connection; its thread notices now or when it answers."""
        with suppress(
            StopIteration, KeyError, RuntimeError, OSError
        ):  # threads remove their own requests at the same time
            oldest = next(iter(self._served))
            del self._served[oldest]
            oldest.shutdown(socket.SHUT_RDWR)

    def _done(self, request: socket.socket) -> None:
        self._served.pop(request, None)
        self._threads_left.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log failures at debug level: clients may disconnect."""
        log.debug("Serving %s failed", client_address, exc_info=True)


class Endpoint:
    """The ports of `metrics.listeners`, which are bound at creation. Raises CannotBind.

    Args:
        addresses: hosts, None for all interfaces, and ports, 0 for any.
        process: the process to report on.
        application: what answers.
    """

    def __init__(
        self, addresses: Iterable[tuple[str | None, int]], process: MeasuredProcess, application: ProbedApplication
    ) -> None:
        self._servers: list[WSGIServer] = []
        self._threads: list[threading.Thread] = []
        try:
            for host, port in addresses:
                for sock in bind(host, port, receive_buffer_bytes=-1):
                    sock.setblocking(True)
                    self._servers.append(_Server(sock))
        except CannotBind:
            self.close()
            raise
        self.request_times = RequestTimes(process.dispatcher, process.timers, process.turn)
        for server in self._servers:
            server.set_app(application)

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the endpoint."""
        found = [bound_address(server.socket) for server in self._servers]
        return [f"http://{host_in_address(host)}:{port}" for host, port in found]

    def start(self) -> None:
        """Start to answer requests."""
        self.request_times.start()
        for server in self._servers:
            server.server_activate()
            thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Stop answering; this may take half a second."""
        if self._threads:
            self.request_times.stop()
            for server in self._servers:
                server.shutdown()
        for server in self._servers:
            server.server_close()
        self._servers, self._threads = [], []
