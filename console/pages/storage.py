"""The data directory: folders of partitions, their segments, the batches of a segment; finding an offset."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from console.anatomy.index import INDEX_KINDS
from console.errors import BrokerUnavailable
from console.logs.batches import read_batches
from console.logs.folder import Folder
from console.logs.index_entries import offset_entries
from console.logs.lookup import find
from console.logs.segment import Segment
from console.pages.drawing import draw_batches, entry_ticks, segment_bars
from console.pages.page import number, page, sources
from console.tiered_logs import WhyHere
from storage.directory_names import DirectoryKind

_BATCHES = 50


def chosen_folder(request: Request) -> tuple[int, Folder]:
    """Return the log directory's number and the folder in the URL. Raises NotFound."""
    directory: int = request.path_params["directory"]
    return directory, sources(request).logs.folder(directory, request.path_params["folder"])


def chosen_segment(request: Request) -> tuple[int, Folder, Segment]:
    """Return the log directory's number, the folder and the segment in the URL. Raises NotFound."""
    directory, folder = chosen_folder(request)
    return directory, folder, folder.segment(request.path_params["base"])


def show_all(request: Request) -> Response:
    """GET /storage"""
    logs = sources(request).logs
    return page(request, "storage.html", paths=logs.paths, found=list(logs.folders()))


def show_folder(request: Request) -> Response:
    """GET /storage/{directory}/{folder}"""
    directory, folder = chosen_folder(request)
    bars = segment_bars(folder.segments, 0)
    reasons, problem = _why_local(request, folder)
    return page(
        request,
        "folder.html",
        directory=directory,
        folder=folder,
        bars=bars,
        ticks=entry_ticks(bars),
        reasons=reasons,
        problem=problem,
    )


def _why_local(request: Request, folder: Folder) -> tuple[Mapping[int, WhyHere], str]:
    """Return why segments of a tiered topic are on the disk, by base offset, or why that is unknown."""
    tiered_logs = sources(request).tiered_logs
    if tiered_logs is None or folder.kind is not DirectoryKind.PARTITION:
        return {}, ""
    try:
        return tiered_logs.why_local(folder.topic, folder.partition), ""
    except BrokerUnavailable as error:  # files are shown without a broker, too
        return {}, str(error)


def show_segment(request: Request) -> Response:
    """GET /storage/{directory}/{folder}/{base}?position=: batches from a position"""
    directory, folder, segment = chosen_segment(request)
    batches = read_batches(segment, number(request, "position", 0), _BATCHES)
    drawing = draw_batches(batches.rows, offset_entries(segment))
    return page(
        request,
        "segment.html",
        directory=directory,
        folder=folder,
        segment=segment,
        batches=batches,
        drawing=drawing,
        entries={each.position: each for _, each in drawing.ticks} if drawing is not None else {},
        kinds=INDEX_KINDS,
    )


def find_offset(request: Request) -> Response:
    """GET /storage/{directory}/{folder}/find?offset="""
    directory, folder = chosen_folder(request)
    lookup = find(folder, number(request, "offset", 0))
    return page(request, "find.html", directory=directory, folder=folder, lookup=lookup)
