"""New records of a partition, as a stream of events (`text/event-stream`) that a page appends to its table."""

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
from console.pages.messages import chosen_partition, form_of
from console.pages.page import fragment, number, sources

_MOST_TAILS = 8
#: A turn sends at most so many records; a page has no room for more, however fast they arrive.
_MOST_RECORDS = 50
#: Rows that a page keeps (console.js).
_MOST_KEPT = 500
_TURN_S = 1.0
#: The stream ends after this time. The browser reconnects by itself, which checks its authorization again.
_LONGEST_S = 600.0
#: The last event id of a browser: an offset, or -1 before offset 0.
_LAST = re.compile("-1|[0-9]{1,18}")
_tails = threading.BoundedSemaphore(_MOST_TAILS)


async def follow(request: Request) -> Response:
    """GET /topics/{topic}/tail?partition=&offset=&form=&schema=: from an offset, or from the end

    An event is the row of a record, its id the offset. A reconnecting browser sends the last id, and the stream resumes
    after it. The first event has only an id, so that a browser that reconnects before the first record misses none.
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
    """The stream; its consumer is closed when either side ends it."""

    def __init__(self, request: Request, tail: Tail) -> None:
        super().__init__(_events(request, tail), media_type="text/event-stream")
        self._tail = tail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # in a thread, so that a cancelled request does not wait for it
            threading.Thread(target=_close, args=(self._tail,), daemon=True).start()


def _open(request: Request) -> Tail:
    client = sources(request).client
    topic = client.topic(request.path_params["topic"])
    form_of(request, _MOST_KEPT)
    partition = chosen_partition(request, topic)
    last = request.headers.get("last-event-id", "")
    offset = number(request, "offset", partition.end)
    if _LAST.fullmatch(last):
        offset = int(last) + 1
    return Tail(client, topic.name, partition.number, min(max(offset, partition.start), partition.end))


async def _events(request: Request, tail: Tail) -> AsyncIterator[str]:
    session: LoginSession = request.state.login_session
    form = form_of(request, _MOST_KEPT)
    ends_at = time.monotonic() + _LONGEST_S
    try:
        yield f"retry: 2000\nid: {tail.offset - 1}\n\n"
        while not session.is_over and time.monotonic() < ends_at:
            found = await run_in_threadpool(tail.some, _MOST_RECORDS, _TURN_S)
            if not found:
                yield ": nothing new\n\n"  # detects a closed connection
            for each in found:
                row = fragment(request, "row.html", shown=form.readable(each))
                yield f"id: {each.offset}\ndata: {json.dumps(row)}\n\n"
            await asyncio.sleep(0.1)
    except ConsoleError as problem:
        yield f"event: problem\ndata: {json.dumps(str(problem))}\n\n"


def _close(tail: Tail) -> None:
    try:
        tail.close()
    finally:
        _tails.release()
