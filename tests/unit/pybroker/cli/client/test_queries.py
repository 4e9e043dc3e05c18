"""Requests for Spark's queries to a broker's metrics endpoint."""

from __future__ import annotations

from io import BytesIO

import pytest

from pybroker.cli.client import metrics_pages
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.queries import read_queries


@pytest.mark.parametrize("url", ["http://localhost:9404x", "http://127.0.0.1:1/queries"])
def test_unusable_address_is_one_line(url: str) -> None:
    with pytest.raises(CommandError) as refused:
        read_queries(url, 1)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (b" " * (1 << 20) + b"{}", "http://host/queries: the page is larger than 1 MiB"),
        (b"[]", "http://host/queries: this is not an answer of pybroker"),
        (b"{", "http://host/queries: this is not an answer of pybroker"),
    ],
)
def test_unusable_page_is_reported(monkeypatch: pytest.MonkeyPatch, page: bytes, message: str) -> None:
    monkeypatch.setattr(metrics_pages, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: BytesIO(page))
    with pytest.raises(CommandError) as refused:
        read_queries("http://host", 1)
    assert str(refused.value) == message
