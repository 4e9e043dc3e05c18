"""Serve requests: find the function of each, and return its result or its error."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import pyarrow as pa

from protocol.records.errors import RecordsError
from pybroker.source.errors import AccessDenied, DamagedLog, DataLoss, SourceError, UnusableOption, to_json
from pybroker.source.frames import (
    ANSWER,
    BATCH,
    ERROR,
    REQUEST,
    CutOff,
    Readable,
    Writable,
    read_frame,
    write_frame,
    write_json,
)
from remote.errors import Absent, Damaged, Denied, RemoteStorageError
from storage.errors import StorageError

#: The requests: the module in this package, and the function.
_DOERS = {
    "plan_log": ("log_requests", "plan"),
    "log_ends": ("log_requests", "ends"),
    "read_log": ("log_requests", "read"),
    "reach_broker": ("topic_requests", "reach"),
    "plan_topics": ("topic_requests", "plan"),
    "topic_ends": ("topic_requests", "ends"),
    "read_topic": ("topic_requests", "read"),
    "write_topic": ("topic_writer", "write"),
    "describe_target": ("target_requests", "describe"),
    "new_producer": ("target_requests", "new_producer"),
    "restore_topic": ("topic_restorer", "restore"),
}
#: Requests that come with rows.
_WITH_ROWS = frozenset(("write_topic", "restore_topic"))


class Exchange:
    """One request: its fields, the batches that come with it, and the batches of its response."""

    def __init__(self, wanted: Mapping[str, Any], requests: Readable, answers: Writable) -> None:
        self.wanted = wanted
        self._requests = requests
        self._answers = answers
        self._is_complete = wanted["do"] not in _WITH_ROWS

    def emit(self, batch: pa.RecordBatch) -> None:
        """Send a record batch as a part of the response."""
        write_frame(self._answers, BATCH, batch.serialize())

    def received(self) -> Iterator[bytes]:
        """Yield the encapsulated record batches of the request. Errors: CutOff if the stream ends early."""
        while not self._is_complete:
            frame = read_frame(self._requests)
            if frame is None:
                raise CutOff("the stream ends before all rows of a request")
            kind, payload = frame
            if kind == ANSWER:
                self._is_complete = True
            elif kind == BATCH:
                yield payload
            else:
                raise SystemExit(f"an unexpected frame of kind {kind!r} instead of rows")

    def answer(self, kind: bytes, value: object) -> None:
        """Send the end of the response, once all batches of the request are read: the caller does not read earlier."""
        for _ in self.received():
            pass
        write_json(self._answers, kind, value)


def serve(requests: Readable, answers: Writable) -> None:
    """Serve requests in order until the stream ends, also within a request.

    Errors: BrokenPipeError if the reader is gone.
    """
    try:
        while (frame := read_frame(requests)) is not None:
            kind, payload = frame
            if kind != REQUEST:
                raise SystemExit(f"an unexpected frame of kind {kind!r} instead of a request")
            _answer(Exchange(json.loads(payload), requests, answers))
    except CutOff:  # the caller has ended or given up: nothing waits for a response
        return


def _answer(exchange: Exchange) -> None:
    try:
        answer = _doer(exchange.wanted["do"])(exchange)
    except (BrokenPipeError, CutOff):
        raise
    except Exception as error:
        exchange.answer(ERROR, to_json(_as_source_error(error)))
    else:
        exchange.answer(ANSWER, answer)


def _as_source_error(error: Exception) -> SourceError:
    """Return an error that the caller knows. The traceback of an unexpected one goes to standard error."""
    if isinstance(error, SourceError):
        return error
    if isinstance(error, (StorageError, RecordsError, Damaged)):
        return DamagedLog(str(error))
    if isinstance(error, Denied):
        return AccessDenied(str(error))
    if isinstance(error, Absent):
        return DataLoss(str(error))
    if isinstance(error, RemoteStorageError):
        return SourceError(str(error))
    if isinstance(error, OSError):
        return SourceError(str(error))
    traceback.print_exception(error)
    return SourceError(f"{type(error).__name__}: {error}")


def _doer(name: str) -> Callable[[Exchange], Any]:
    if name not in _DOERS:
        raise UnusableOption(f"unknown request {name!r}")
    module, function = _DOERS[name]
    doer: Callable[[Exchange], Any] = getattr(import_module(f"pybroker.isolated.{module}"), function)
    return doer
