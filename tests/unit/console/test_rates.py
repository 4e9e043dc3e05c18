"""What the overview's curves are drawn from."""

from __future__ import annotations

import io
import time

import pytest

from console.errors import Unanswered
from console.rates import Scraper, read_samples

TEXT = """\
{"kafka_server_brokertopicmetrics_bytesin_total": 15, "process_resident_memory_bytes": 1024.0, "other": 7}
"""


def test_what_the_curves_want_is_taken() -> None:
    told = read_samples(TEXT)
    assert told == {"kafka_server_brokertopicmetrics_bytesin_total": 15.0, "process_resident_memory_bytes": 1024.0}


class Endpoint:
    """Takes the place of the opener: answers what is next, or fails with it."""

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
    """Those that tests move: the machine has been up for a moment only."""

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


def test_many_windows_ask_the_broker_once(monkeypatch: pytest.MonkeyPatch, clocks: Clocks) -> None:
    """Until what it said is old."""
    endpoint = Endpoint(TEXT, TEXT)
    asked = scraper(monkeypatch, endpoint)
    first = asked.samples()
    clocks.pass_by(1.9)
    assert asked.samples() == first
    assert endpoint.asked == ["http://127.0.0.1:9404/totals"]
    clocks.pass_by(0.2)
    assert asked.samples() == (clocks.wall, first[1])
    assert len(endpoint.asked) == 2


def test_clock_that_is_set_back_does_not_stop_the_curves(monkeypatch: pytest.MonkeyPatch, clocks: Clocks) -> None:
    """What was said an hour ahead is as old as it is."""
    asked = scraper(monkeypatch, Endpoint(TEXT, TEXT))
    asked.samples()
    clocks.wall -= 3600
    clocks.pass_by(2.0)
    assert asked.samples()[0] == clocks.wall


@pytest.mark.parametrize(
    "failure", [OSError("Connection refused"), "no { numbers", "[]", '{"process_resident_memory_bytes": null}']
)
def test_endpoint_that_fails_is_told_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, clocks: Clocks, failure: str | Exception
) -> None:
    """Not by each of those that have waited for it meanwhile."""
    endpoint = Endpoint(failure, TEXT)
    asked = scraper(monkeypatch, endpoint)
    for _ in range(3):
        with pytest.raises(Unanswered, match="9404/totals: "):
            asked.samples()
    assert len(endpoint.asked) == 1
    clocks.pass_by(2.0)
    assert asked.samples()[1]["process_resident_memory_bytes"] == 1024.0
