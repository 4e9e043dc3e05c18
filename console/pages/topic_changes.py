"""Forms that create, alter and delete topics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from console.cluster import changes
from console.errors import BadRequest, NotFound
from console.forms import Form
from console.pages.page import redirect_after, sources
from metadata.topic_names import name_problem

_MOST_PARTITIONS = 100_000
_LONGEST_KEY = 200


def create(request: Request, form: Form) -> Response:
    """POST /topics: name, partitions, settings as lines KEY=VALUE"""
    name = form.word("name")
    if problem := name_problem(name):
        raise BadRequest(problem)
    partitions = form.number("partitions", -1, least=1, limit=_MOST_PARTITIONS)
    changes.create_topic(sources(request).client, name, partitions, _settings(form.text("settings")))
    return redirect_after(request, "made", "topic", topic=name)


def delete(request: Request, form: Form) -> Response:
    """POST /topics/{topic}/delete: name, to confirm"""
    name = _topic(request)
    if form.word("name") != name:
        raise BadRequest(f"To delete {name}, enter its name: all its records are deleted, too")
    changes.delete_topic(sources(request).client, name)
    return redirect_after(request, "deleted", "topics")


def add_partitions(request: Request, form: Form) -> Response:
    """POST /topics/{topic}/partitions: count"""
    name = _topic(request)
    count = form.number("count", 0, least=1, limit=_MOST_PARTITIONS)
    changes.add_partitions(sources(request).client, name, count)
    return redirect_after(request, "partitions", "topic", topic=name)


def alter(request: Request, form: Form) -> Response:
    """POST /topics/{topic}/settings: key, value; with `reset` the broker's value applies again"""
    name, key = _topic(request), form.word("key")
    if not key or len(key) > _LONGEST_KEY or "\0" in key:
        raise BadRequest("which setting?")
    value = None if form.text("reset") else form.word("value")
    if value is not None and "\0" in value:
        raise BadRequest(f"{key}: a value cannot have a zero byte")
    changes.alter_setting(sources(request).client, name, key, value)
    return redirect_after(request, "set", "topic", topic=name)


def _topic(request: Request) -> str:
    """Return the topic in the URL. Raises NotFound for invalid names."""
    name: str = request.path_params["topic"]
    if problem := name_problem(name):
        raise NotFound(problem)
    return name


def _settings(text: str) -> dict[str, str]:
    found = {}
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        key, equals, value = line.partition("=")
        if not equals or not key.strip() or "\0" in line:
            raise BadRequest(f"{line[:80]!r} is not KEY=VALUE")
        found[key.strip()] = value.strip()
    return found
