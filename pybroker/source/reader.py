"""The client of the reader process, which starts at the first request, in Python's isolated mode."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from pybroker.source.columns import arrow_schema
from pybroker.source.errors import ReaderDied, from_json
from pybroker.source.frames import ANSWER, BATCH, ERROR, REQUEST, CutOff, read_frame, write_frame, write_json

_STOP_S = 10
#: The largest pipe that Linux gives to an unprivileged user.
_PIPE_BYTES = 1 << 20


class Reader:
    """A child process that serves one request after the other. It ends with `close`, or with this process.

    A Reader can be pickled: the copy starts a child of its own.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"_process": None}

    def ask(self, do: str, **arguments: Any) -> Any:
        """Send a request and return the response. Errors: SourceError, ReaderDied."""
        self._send(do, arguments)
        kind, payload = self._receive()
        if kind != ANSWER:
            raise self._failed(kind, payload)
        return json.loads(payload)

    def batches(self, do: str, columns: Sequence[str], **arguments: Any) -> Iterator[Any]:
        """Request records; yield them as pyarrow.RecordBatch of these columns as they arrive.

        When the caller stops before the end, the child is ended. Errors: as `ask`, before or after some batches.
        """
        import pyarrow as pa

        schema = arrow_schema(columns)
        self._send(do, {"columns": list(columns), **arguments})
        complete = False
        try:
            while True:
                kind, payload = self._receive()
                if kind != BATCH:
                    break
                yield pa.ipc.read_record_batch(pa.py_buffer(payload), schema)
            complete = True
            if kind != ANSWER:
                raise self._failed(kind, payload)
        finally:
            if not complete:
                self.close()

    def send_batches(self, do: str, batches: Iterator[Any], **arguments: Any) -> Any:
        """Send record batches, and return the response to all of them. Errors: as `ask`, and those of `batches`.

        When `batches` raises, the child is ended. Rows that it has not sent by then are dropped.
        """
        self._send(do, arguments)
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            for batch in batches:
                write_frame(self._process.stdin, BATCH, batch.serialize())
            write_json(self._process.stdin, ANSWER, {})
        except BrokenPipeError:
            raise self._died() from None
        except BaseException:  # the child waits for the rest, and would read the next request as the rest
            self.close()
            raise
        kind, payload = self._receive()
        if kind != ANSWER:
            raise self._failed(kind, payload)
        return json.loads(payload)

    def close(self) -> None:
        """End the child, even during a request."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:  # the rest of a request that the child did not read
                    continue
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    # ---- inside

    def _send(self, do: str, arguments: dict[str, Any]) -> None:
        if self._process is None:
            # isolated mode: the child never imports a user's module, whatever PYTHONPATH and the current folder are
            command = [sys.executable, "-I", "-m", "pybroker.isolated"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
            _widen(self._process)
        assert self._process.stdin is not None
        try:
            write_json(self._process.stdin, REQUEST, {"do": do, **arguments})
        except BrokenPipeError:
            raise self._died() from None

    def _receive(self) -> tuple[bytes, bytes]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            frame = read_frame(self._process.stdout)
        except CutOff:
            frame = None
        except BaseException:  # interrupted: the response still arrives, and would be read as that of the next request
            self.close()
            raise
        if frame is None:
            raise self._died()
        return frame

    def _failed(self, kind: bytes, payload: bytes) -> Exception:
        if kind == ERROR:
            return from_json(json.loads(payload))
        self.close()
        return ReaderDied(f"the reader process sent an unexpected frame of kind {kind!r}")

    def _died(self) -> ReaderDied:
        process = self._process
        self.close()
        code = None if process is None else process.returncode
        return ReaderDied(f"the reader process ended (exit code {code}) without a response; see the reason on stderr")


def _widen(process: subprocess.Popen[bytes]) -> None:
    """Enlarge the pipes: with Linux's default of 64 KiB both sides would wait for each other at every piece."""
    for pipe in filter(None, (process.stdin, process.stdout)):
        with suppress(OSError, AttributeError):  # refused to a user with many pipes; other systems lack the call
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


_shared: dict[int, Reader] = {}


def shared_reader() -> Reader:
    """Return the shared reader of this process. A forked child gets one of its own."""
    return _shared.setdefault(os.getpid(), Reader())
