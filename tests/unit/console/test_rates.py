"""What the overview's curves are drawn from."""

from __future__ import annotations

import io
import time

import pytest

from console.errors import Unanswered
from console.rates import Scraper, read_samples

TEXT = """\
# TYPE kafka_server_brokertopicmetrics_bytesin counter
kafka_server_brokertopicmetrics_bytesin_total{topic="a"} 10
kafka_server_brokertopicmetrics_bytesin_total{topic="b"} 5
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1024
# TYPE other gauge
other 7
"""


def test_samples_are_added_up_over_their_labels() -> None:
    """And only those that are wanted."""
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


def scraper(monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> Scraper:
    made = Scraper("http://127.0.0.1:9404/")
    monkeypatch.setattr(made, "_opener", endpoint)
    return made


def test_many_windows_ask_the_broker_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until what it said is old."""
    now = 1000.0
    monkeypatch.setattr(time, "time", lambda: now)
    endpoint = Endpoint(TEXT, TEXT)
    asked = scraper(monkeypatch, endpoint)
    first = asked.samples()
    now += 1.9
    assert asked.samples() == first
    (question,) = endpoint.asked
    assert question.startswith(
        "http://127.0.0.1:9404/metrics?name%5B%5D=kafka_server_brokertopicmetrics_bytesin_total&"
    )
    assert question.count("name%5B%5D=") == 7  # and nothing of the partitions
    now += 0.2
    assert asked.samples() == (now, first[1])
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize("failure", [OSError("Connection refused"), "no { metrics"])
def test_endpoint_that_fails_is_told_and_asked_again(monkeypatch: pytest.MonkeyPatch, failure: str | Exception) -> None:
    """Nothing of a failure is kept."""
    asked = scraper(monkeypatch, Endpoint(failure, TEXT))
    with pytest.raises(Unanswered, match="9404/metrics: "):
        asked.samples()
    assert asked.samples()[1]["process_resident_memory_bytes"] == 1024.0
