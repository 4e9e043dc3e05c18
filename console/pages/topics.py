"""Topics: the list, and one topic with its partitions and their files."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from console.logs.log_directories import FoundFolder
from console.pages.drawing import segment_bars
from console.pages.page import page, sources


def show_all(request: Request) -> Response:
    """GET /topics"""
    source = sources(request)
    sizes: dict[str, int] = {}
    for found in source.logs.folders():
        sizes[found.folder.topic] = sizes.get(found.folder.topic, 0) + found.folder.size_bytes
    return page(request, "topics.html", topics=source.client.topics(), sizes=sizes)


def show(request: Request) -> Response:
    """GET /topics/{topic}?edit=: with a form for that setting"""
    source = sources(request)
    topic = source.client.topic(request.path_params["topic"])
    folders: dict[int, FoundFolder] = {each.folder.partition: each for each in source.logs.folders(topic.name)}
    scale = max((sum(one.size_bytes for one in each.folder.segments) for each in folders.values()), default=0)
    bars = {number: segment_bars(each.folder.segments, scale) for number, each in folders.items()}
    edited = request.query_params.get("edit", "")
    return page(request, "topic.html", topic=topic, folders=folders, bars=bars, edited=edited)
