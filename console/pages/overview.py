"""The first page: the broker, its contents and its load."""

from __future__ import annotations

import shutil

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from console.errors import NotFound
from console.pages.page import page, sources
from console.rates import GAUGES, ROUND_TRIP


def show(request: Request) -> Response:
    """GET /"""
    source = sources(request)
    topics = source.client.topics()
    sizes = [0] * len(source.logs.paths)
    counts = [0] * len(source.logs.paths)
    for found in source.logs.folders():
        sizes[found.directory] += found.folder.size_bytes
        counts[found.directory] += 1
    disks = [
        {"path": path, "size_bytes": sizes[number], "folders": counts[number], "free": _free(path)}
        for number, path in enumerate(source.logs.paths)
    ]
    return page(
        request,
        "overview.html",
        facts=source.client.facts(),
        topics=topics,
        groups=source.client.groups(),
        disks=disks,
        gauges=GAUGES if source.scraper is not None else (),
    )


def _free(path: str) -> int | None:
    """Return the free bytes of the disk; None if it failed."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def rates(request: Request) -> Response:
    """GET /rates.json: {"at": seconds since the epoch, "samples": {name: value}}"""
    source = sources(request)
    if source.scraper is None:
        raise NotFound("no metrics: metrics.listeners is not set")
    at, samples = source.scraper.samples()
    return JSONResponse({"at": at, "samples": {**samples, ROUND_TRIP: source.client.round_trip_s()}})
