"""The WSGI application of the HTTP endpoint: /metrics, /live and /ready of any process; subclasses add pages.

It runs in the threads of requests, and asks the event loop for figures.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

from broker.observability.metrics.exposition import ANSWER_S

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment
    from prometheus_client.registry import Collector

T = TypeVar("T")


class ProbedApplication:
    """The application. `is_ready` is called on the loop; `collectors` yield what /metrics has."""

    paths: tuple[str, ...] = ("/metrics", "/live", "/ready")

    def __init__(self, loop: AbstractEventLoop, is_ready: Callable[[], bool], collectors: Iterable[Collector]) -> None:
        self._loop = loop
        self._is_ready = is_ready
        registry = CollectorRegistry(auto_describe=True)  # so that ?name[]= finds the process's metrics, too
        for each in collectors:
            registry.register(each)
        self.process = ProcessCollector(registry=registry)
        self._metrics = make_wsgi_app(registry)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path not in self.paths:
            return text_page(start_response, "404 Not Found", f"There are {', '.join(self.paths)}")
        try:
            is_ready = self.asked(self._is_ready).result(ANSWER_S)  # an answer shows that the loop runs
            if path == "/live":
                return text_page(start_response, "200 OK", "live")
            if not is_ready:
                return text_page(start_response, "503 Service Unavailable", "not ready: it starts, or shuts down")
            if path == "/ready":
                return text_page(start_response, "200 OK", "ready")
            if path != "/metrics":
                return self.page(path, environ["QUERY_STRING"], start_response)
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        except (RuntimeError, TimeoutError) as error:
            return text_page(start_response, "503 Service Unavailable", f"the event loop does not answer: {error}")

    def page(self, path: str, query: str, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one of the further `paths` of a subclass."""
        raise NotImplementedError

    def asked(self, question: Callable[[], T]) -> Future[T]:
        """Call `question` on the loop; it must not raise. Raises RuntimeError if the loop is closed."""
        answer: Future[T] = Future()
        self._loop.call_soon_threadsafe(lambda: answer.set_result(question()))
        return answer


def text_page(start_response: StartResponse, status: str, text: str) -> Iterable[bytes]:
    """Answer with one line of text."""
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
    return [text.encode() + b"\n"]


def json_page(start_response: StartResponse, data: bytes) -> Iterable[bytes]:
    """Answer with JSON."""
    start_response("200 OK", [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
    return [data]
