"""The generated page of all APIs is committed and up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.requests.api_docs import APIS_PAGE, apis_page, main
from broker.requests.served_api import discover
from protocol.registry import API_BY_KEY


def test_page_is_up_to_date() -> None:
    """`python -m broker.requests.api_docs` writes the page."""
    assert apis_page() == APIS_PAGE.read_text()
    assert main(["--check"]) == 0


def test_every_api_of_a_broker_is_on_the_page_once() -> None:
    """An API is either served or listed as not served."""
    served, _, not_yet = apis_page().partition("## Not yet")

    for key, api in API_BY_KEY.items():
        if api.current and "broker" in api.listeners:
            line = f"| {key} | {api.name} |"
            assert (served.count(line), not_yet.count(line)) == ((1, 0) if key in discover() else (0, 1))


def test_missing_features_are_listed() -> None:
    """They come from the docstrings, also where a line ends within the marker words."""
    lines = {line.split(" | ")[1]: line for line in apis_page().splitlines() if line.startswith("| ")}

    assert lines["PushTelemetry"].endswith(". **Not served**: Histograms and summaries, which no client pushes |")
    assert lines["AddRaftVoter"].endswith(". **Not served**: A second voter of a single node |")
    assert lines["DescribeCluster"].endswith(" (KIP-700) |")
    assert lines["Produce"].startswith("| 0 | Produce | 0-13 (3-13) |")
    assert lines["Metadata"].startswith("| 3 | Metadata | 0-13 |")


def test_stale_page_is_noticed_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty project the page is missing."""
    monkeypatch.chdir(tmp_path)

    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
