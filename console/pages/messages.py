"""The records of a partition, a page at a time; and a form that sends a record."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from console.avro import parse_schema
from console.cluster import changes
from console.cluster.records import offset_at, read_messages
from console.cluster.values import Message, Partition, Topic
from console.errors import BadRequest, NotFound
from console.forms import Form
from console.pages.page import number, page, redirect_after, sources
from console.pages.timestamps import moment_ms
from console.payload import FORMS, Payload, most_of, payload
from console.payload import Form as PayloadForm
from pybroker.cli.client.avro import AvroError, AvroSchema

_PAGE = 50
_MOST = 500
_INT_MAX = (1 << 31) - 1
_LONGEST_WORD = 200


def show(request: Request) -> Response:
    """GET /topics/{topic}/messages?partition=&offset=&time=&count=&word=&form=&schema=

    Without an offset or a time: the last records, or with a word the first ones that contain it. A time has the formats
    of `pybroker consume --from`.
    """
    client = sources(request).client
    topic = client.topic(request.path_params["topic"])
    partition = chosen_partition(request, topic)
    count = max(1, number(request, "count", _PAGE, limit=_MOST))
    form = form_of(request, count)
    word = request.query_params.get("word", "")[:_LONGEST_WORD]
    moment = request.query_params.get("time", "").strip()
    if moment:
        start = offset_at(client, topic.name, partition.number, moment_ms(moment))
    else:
        start = number(request, "offset", partition.start if word else max(partition.start, partition.end - count))
    start = min(max(start, partition.start), partition.end)
    shown: list[ReadableRecord] = []
    following = None
    scanned = 0
    if start < partition.end:
        found = read_messages(client, topic.name, partition.number, start, count, word)
        shown = [form.readable(each) for each in found.messages]
        scanned = found.scanned
        if found.following is not None and found.following < partition.end:
            following = found.following
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
        word=word,
        scanned=scanned,
        messages=shown,
        previous=max(partition.start, start - count) if start > partition.start and not word else None,
        following=following,
    )


def produce(request: Request, form: Form) -> Response:
    """POST /topics/{topic}/messages: partition, key, value, headers as lines NAME: VALUE, is-null for a tombstone"""
    name = request.path_params["topic"]
    client = sources(request).client
    topic = client.topic(name)  # a producer would wait for a missing topic, or create it
    chosen = form.number("partition", -1, least=-1, limit=_INT_MAX)
    if chosen not in (-1, *(each.number for each in topic.partitions)):
        raise NotFound(f"{name} has no partition {chosen}")
    key = form.text("key").encode() or None
    value = None if form.text("is-null") else form.text("value").encode()
    partition, offset = changes.produce(client, name, chosen, key, value, _headers(form.text("headers")))
    return redirect_after(request, "sent", "messages", {"partition": partition, "offset": offset}, topic=name)


def chosen_partition(request: Request, topic: Topic) -> Partition:
    """Return the query's partition; the first one by default. Raises NotFound."""
    chosen = number(request, "partition", 0, limit=_INT_MAX)
    for each in topic.partitions:
        if each.number == chosen:
            return each
    raise NotFound(f"{topic.name} has no partition {chosen}")


@dataclass(frozen=True, slots=True)
class ReadableRecord:
    """A record with its parts in readable form."""

    message: Message
    key: Payload
    value: Payload
    headers: list[tuple[str, Payload]]


@dataclass(frozen=True, slots=True)
class RecordForm:
    """The form of shown records. `schema_text` is the entered schema, `schema` the parsed one; `limit`: limit in bytes
    for each part.
    """

    form: PayloadForm
    schema_text: str
    schema: AvroSchema | None
    limit: int

    def readable(self, message: Message) -> ReadableRecord:
        """Return a record in that form. Keys seldom have the values' schema, so they are shown without it."""
        return ReadableRecord(
            message,
            payload(message.key, self.form, limit=self.limit),
            payload(message.value, self.form, self.schema, self.limit),
            [(name, payload(value, limit=self.limit)) for name, value in message.headers],
        )


def form_of(request: Request, count: int) -> RecordForm:
    """Return the form that the query asks for, for a page of `count` records. Raises BadRequest."""
    wanted = request.query_params.get("form", "auto")
    text = request.query_params.get("schema", "").strip()
    for form in FORMS:
        if form == wanted:
            try:
                schema = parse_schema(text) if text and form == "avro" else None
                return RecordForm(form, text, schema, most_of(count))
            except AvroError as error:
                raise BadRequest(f"schema: {error}") from None
    raise BadRequest(f"form is one of {', '.join(FORMS)}, not {wanted[:40]!r}")


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for line in filter(None, text.split("\n")):
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or "\0" in name:
            raise BadRequest(f"{line[:80]!r} is not a header such as NAME: VALUE")
        found.append((name.strip(), value.strip().encode()))
    return found
