"""Brokers and replicas: partitions that lack replicas first."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from console.cluster.replicas import replicas
from console.pages.page import page, sources


def show(request: Request) -> Response:
    """GET /replicas"""
    return page(request, "replicas.html", found=replicas(sources(request).client))
