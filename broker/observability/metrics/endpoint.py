"""The HTTP endpoint: /metrics for Prometheus, /totals for curves, /live and /ready for supervisors, /queries of Spark,
and /clients that push their metrics.

One thread accepts connections, and one thread for each request answers, in the WSGI server of Python's library with the
application of prometheus-client. They ask the event loop for the broker's figures. There is no authentication:
`metrics.listeners` is off by default; set it only to an address that only trusted clients can reach.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from broker.network.listener import CannotBind, bind, bound_address, host_in_address
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
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from broker.observability.metrics.observed import ObservedProcess


log = logging.getLogger(__name__)
T = TypeVar("T")

#: Concurrent requests. One more closes the oldest, so that silent clients do not block others.
_MOST_REQUESTS = 8
#: Threads, including those of closed requests. Further connections are closed.
_MOST_THREADS = 32
#: The time-out of each receive and send.
_TIMEOUT_S = 10.0
_PATHS = ("/metrics", "/totals", "/live", "/ready", "/queries", "/clients")


class Application:
    """The WSGI application."""

    def __init__(self, broker: ObservedProcess) -> None:
        self._broker = broker
        self._traffic = Traffic()
        self._prepare = lambda: learn_ends(broker)
        registry = CollectorRegistry(auto_describe=True)  # so that ?name[]= finds the process's metrics, too
        registry.register(BrokerCollector(self._take_snapshot, broker.config.log_dirs))
        registry.register(ClientCollector(self._take_client_series))
        self._process = ProcessCollector(registry=registry)
        self._metrics = make_wsgi_app(registry)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path not in _PATHS:
            return _text(start_response, "404 Not Found", f"There are {', '.join(_PATHS)}")
        try:
            is_ready = self._asked_if_ready().result(ANSWER_S)
            if path == "/live":
                return _text(start_response, "200 OK", "live")
            if not is_ready:
                return _text(start_response, "503 Service Unavailable", "not ready: it starts, or shuts down")
            if path == "/ready":
                return _text(start_response, "200 OK", "ready")
            if path == "/totals":
                return self._totals(start_response)
            if path == "/queries":
                return self._queries(start_response)
            if path == "/clients":
                return self._clients(environ["QUERY_STRING"], start_response)
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        except (RuntimeError, TimeoutError) as error:
            return _text(start_response, "503 Service Unavailable", f"the event loop does not answer: {error}")

    def _totals(self, start_response: StartResponse) -> Iterable[bytes]:
        taken = take_snapshot(self._broker.loop, lambda: totals(self._broker, self._traffic))
        return _json(start_response, totals_json(taken.result(ANSWER_S), self._process))

    def _queries(self, start_response: StartResponse) -> Iterable[bytes]:
        queries = self._broker.queries
        if queries is None:
            return _text(start_response, "404 Not Found", "No queries: pybroker.spark.checkpoints is not set")
        taken = take_snapshot(self._broker.loop, lambda: query_samples(self._broker, of_all=True), self._prepare)
        return _json(start_response, queries_json(queries.found, taken.result(ANSWER_S)))

    def _clients(self, query: str, start_response: StartResponse) -> Iterable[bytes]:
        try:
            instance_id = asked_client(query)
        except ValueError:
            return _text(start_response, "400 Bad Request", "id= is a client's instance id")
        taken = self._asked(lambda: take_clients(self._broker, instance_id))
        return _json(start_response, clients_json(taken.result(ANSWER_S), instance_id))

    def _take_snapshot(self) -> Future[Snapshot]:
        return take_snapshot(self._broker.loop, lambda: all_samples(self._broker, self._traffic), self._prepare)

    def _take_client_series(self) -> Future[list[Series]]:
        return self._asked(lambda: client_series(self._broker))

    def _asked_if_ready(self) -> Future[bool]:
        """Ask the loop whether the broker is ready; an answer shows that the loop runs."""
        return self._asked(lambda: self._broker.state is BrokerState.RUNNING)

    def _asked(self, question: Callable[[], T]) -> Future[T]:
        """Call `question` on the loop; it must not raise. Raises RuntimeError if the loop is closed."""
        answer: Future[T] = Future()
        self._broker.loop.call_soon_threadsafe(lambda: answer.set_result(question()))
        return answer


def _text(start_response: StartResponse, status: str, text: str) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
    return [text.encode() + b"\n"]


def _json(start_response: StartResponse, data: bytes) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
    return [data]


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
        broker: the process to report on.
    """

    def __init__(self, addresses: Iterable[tuple[str | None, int]], broker: ObservedProcess) -> None:
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
        self.request_times = RequestTimes(broker.dispatcher, broker.timers, broker.turn)
        application = Application(broker)
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
