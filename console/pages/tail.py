"""A partition's records as they come, as a stream of events (`text/event-stream`) that a page appends to its table."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from console.cluster.records import Tail
from console.errors import ConsoleError, TooMany
from console.login_sessions import LoginSession
from console.pages.messages import chosen_partition, look_of
from console.pages.page import fragment, number, sources

_MOST_TAILS = 8
#: Records of a turn, and how often there is one: a page has room for so many, however fast they come.
_MOST_RECORDS = 50
#: Rows that a page keeps (console.js).
_MOST_KEPT = 500
_TURN_S = 1.0
#: Then the browser asks again by itself, and whether it still may is looked at.
_LONGEST_S = 600.0
#: What a browser has heard of last: an offset, or what is before the first one there can be.
_LAST = re.compile("-1|[0-9]{1,18}")
_tails = threading.BoundedSemaphore(_MOST_TAILS)


async def follow(request: Request) -> Response:
    """GET /topics/{topic}/tail?partition=&offset=&form=&schema=: from an offset, or from the end, on

    An event is the row of a record, its id the offset; a browser that comes back says the last one that it has. The one
    before the first is told at once, without a row: who comes back before any has come is to miss none either.
    """
    if not _tails.acquire(blocking=False):
        raise TooMany(f"{_MOST_TAILS} pages follow a partition already")
    try:
        tail = await run_in_threadpool(_open, request)
    except BaseException:
        _tails.release()
        raise
    return _Following(request, tail)


class _Following(StreamingResponse):
    """The stream; when it ends, by whichever end, its consumer is closed."""

    def __init__(self, request: Request, tail: Tail) -> None:
        super().__init__(_events(request, tail), media_type="text/event-stream")
        self._tail = tail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # in a thread of its own: whoever cancels this waits for nothing
            threading.Thread(target=_close, args=(self._tail,), daemon=True).start()


def _open(request: Request) -> Tail:
    client = sources(request).client
    topic = client.topic(request.path_params["topic"])
    look_of(request, _MOST_KEPT)
    partition = chosen_partition(request, topic)
    last = request.headers.get("last-event-id", "")
    offset = number(request, "offset", partition.end)
    if _LAST.fullmatch(last):
        offset = int(last) + 1
    return Tail(client, topic.name, partition.number, min(max(offset, partition.start), partition.end))


async def _events(request: Request, tail: Tail) -> AsyncIterator[str]:
    session: LoginSession = request.state.login_session
    look = look_of(request, _MOST_KEPT)
    ends_at = time.monotonic() + _LONGEST_S
    try:
        yield f"retry: 2000\nid: {tail.offset - 1}\n\n"
        while not session.is_over and time.monotonic() < ends_at:
            found = await run_in_threadpool(tail.some, _MOST_RECORDS, _TURN_S)
            if not found:
                yield ": nothing new\n\n"  # so that a browser that is gone is seen
            for each in found:
                row = fragment(request, "row.html", shown=look.shown(each))
                yield f"id: {each.offset}\ndata: {json.dumps(row)}\n\n"
            await asyncio.sleep(0.1)
    except ConsoleError as problem:
        yield f"event: problem\ndata: {json.dumps(str(problem))}\n\n"


def _close(tail: Tail) -> None:
    try:
        tail.close()
    finally:
        _tails.release()
