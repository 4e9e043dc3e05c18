"""The records of a partition, a page at a time."""

from __future__ import annotations

import argparse
import time

from starlette.requests import Request
from starlette.responses import Response

from console.cluster.records import offset_at, read_messages
from console.errors import BadRequest, NotThere
from console.pages.page import number, page, sources
from console.payload import FORMS, Form, payload
from pybroker.cli.client.times import time_ms

_PAGE = 50
_MOST = 500
_INT_MAX = (1 << 31) - 1
_LONGEST_TIME = 40


def show(request: Request) -> Response:
    """GET /topics/{topic}/messages?partition=&offset=&time=&count=&form=

    Without an offset or a time: the last records. A time is what `pybroker consume --from` takes.
    """
    client = sources(request).client
    topic = client.topic(request.path_params["topic"])
    chosen = number(request, "partition", 0, most=_INT_MAX)
    partition = next((each for each in topic.partitions if each.number == chosen), None)
    if partition is None:
        raise NotThere(f"{topic.name} has no partition {chosen}")
    count = max(1, number(request, "count", _PAGE, most=_MOST))
    form = _form(request)
    moment = request.query_params.get("time", "").strip()
    if moment:
        start = offset_at(client, topic.name, chosen, _time_ms(moment))
    else:
        start = number(request, "offset", max(partition.start, partition.end - count))
    start = min(max(start, partition.start), partition.end)
    found = read_messages(client, topic.name, chosen, start, count) if start < partition.end else []
    shown = [
        (
            each,
            payload(each.key, form),
            payload(each.value, form),
            [(name, payload(value)) for name, value in each.headers],
        )
        for each in found
    ]
    return page(
        request,
        "messages.html",
        topic=topic,
        partition=partition,
        start=start,
        count=count,
        form=form,
        forms=FORMS,
        moment=moment,
        messages=shown,
        previous=max(partition.start, start - count) if start > partition.start else None,
        following=found[-1].offset + 1 if found and found[-1].offset + 1 < partition.end else None,
    )


def _form(request: Request) -> Form:
    wanted = request.query_params.get("form", "auto")
    for form in FORMS:
        if form == wanted:
            return form
    raise BadRequest(f"form is one of {', '.join(FORMS)}, not {wanted[:40]!r}")


def _time_ms(text: str) -> int:
    if len(text) > _LONGEST_TIME:
        raise BadRequest(f"time: of more than {_LONGEST_TIME} characters there is none")
    try:
        return time_ms(text, int(time.time() * 1000))
    except argparse.ArgumentTypeError as error:
        raise BadRequest(f"time: {error}") from None
