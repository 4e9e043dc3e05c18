"""The rates of the overview's charts."""

from __future__ import annotations

import io
import time

import pytest

from console.errors import BrokerUnavailable
from console.rates import Scraper, read_samples

TEXT = """\
{"kafka_server_brokertopicmetrics_bytesin_total": 15, "process_resident_memory_bytes": 1024.0, "other": 7}
"""


def test_samples_of_the_charts_are_parsed() -> None:
    samples = read_samples(TEXT)
    assert samples == {"kafka_server_brokertopicmetrics_bytesin_total": 15.0, "process_resident_memory_bytes": 1024.0}


class Endpoint:
    """Replaces the URL opener: returns or raises what the test sets."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def open(self, url: str, timeout: float) -> io.BytesIO:
        assert timeout > 0
        self.asked.append(url)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer.encode())


class Clocks:
    """Clocks that tests move; the machine has just started."""

    def __init__(self) -> None:
        self.wall = 1000.0
        self.monotonic = 0.5

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    moved = Clocks()
    monkeypatch.setattr(time, "time", lambda: moved.wall)
    monkeypatch.setattr(time, "monotonic", lambda: moved.monotonic)
    return moved


def scraper(monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> Scraper:
    made = Scraper("http://127.0.0.1:9404/")
    monkeypatch.setattr(made, "_opener", endpoint)
    return made


def test_many_windows_share_a_request(monkeypatch: pytest.MonkeyPatch, clocks: Clocks) -> None:
    """Until its result is old."""
    endpoint = Endpoint(TEXT, TEXT)
    asked = scraper(monkeypatch, endpoint)
    first = asked.samples()
    clocks.pass_by(1.9)
    assert asked.samples() == first
    assert endpoint.asked == ["http://127.0.0.1:9404/totals"]
    clocks.pass_by(0.2)
    assert asked.samples() == (clocks.wall, first[1])
    assert len(endpoint.asked) == 2


def test_clock_set_back_does_not_stop_the_charts(monkeypatch: pytest.MonkeyPatch, clocks: Clocks) -> None:
    """A result of the future is treated as old."""
    asked = scraper(monkeypatch, Endpoint(TEXT, TEXT))
    asked.samples()
    clocks.wall -= 3600
    clocks.pass_by(2.0)
    assert asked.samples()[0] == clocks.wall


@pytest.mark.parametrize(
    "failure", [OSError("Connection refused"), "no { numbers", "[]", '{"process_resident_memory_bytes": null}']
)
def test_failed_request_is_reported_and_retried(
    monkeypatch: pytest.MonkeyPatch, clocks: Clocks, failure: str | Exception
) -> None:
    """Requests that waited for it do not retry."""
    endpoint = Endpoint(failure, TEXT)
    asked = scraper(monkeypatch, endpoint)
    for _ in range(3):
        with pytest.raises(BrokerUnavailable, match="9404/totals: "):
            asked.samples()
    assert len(endpoint.asked) == 1
    clocks.pass_by(2.0)
    assert asked.samples()[1]["process_resident_memory_bytes"] == 1024.0
