"""`pybroker perf`: its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pybroker.cli import perf
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Session
from pybroker.perf.consuming import Consumed
from pybroker.perf.date_formats import checked_format, format_time

LINES = {
    "consume": ("pybroker.perf.consuming.consume", "consume --topic t --num-records 9"),
    "end-to-end": ("pybroker.perf.round_trip.measure", "end-to-end --topic t --num-records 9"),
    "produce": ("pybroker.perf.producing.Load", "produce --topic t --num-records 9"),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("failure", [CommandError("t: gone"), KeyboardInterrupt()])
def test_bar_is_cleared_at_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, failure: BaseException
) -> None:
    """The message has its own line."""

    def fail(*arguments: Any, **options: Any) -> None:
        show: Callable[[int], None] = options.get("show") or arguments[-1]
        show(3)
        raise failure

    class Load:
        def __init__(self, *_: object, **__: object) -> None:
            self.run = fail

    place, line = LINES[name]
    monkeypatch.setattr(place, Load if name == "produce" else fail)
    monkeypatch.setattr(perf, "_check_topic", lambda *_: None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    options = perf.command_line().parse(line.split())
    with pytest.raises(type(failure)):
        options.run(cast(Session, SimpleNamespace(properties={})), options)
    drawn = capsys.readouterr().err
    assert "3 of 9 records" in drawn
    assert drawn.endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("date_format", "shown"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-03-04 05:06:07:089"),
        ("yy.M.d", "26.3.4"),
        ("HH'h' ''", "05h '"),
    ],
)
def test_time_has_the_format_of_java(date_format: str, shown: str) -> None:
    when = datetime(2026, 3, 4, 5, 6, 7, 89_000)

    assert format_time(when.timestamp(), checked_format(date_format)) == shown


@pytest.mark.parametrize("date_format", ["QQQ", "MMM", "HH'", "HH z"])
def test_format_without_numbers_is_refused(date_format: str) -> None:
    """Java refuses the first and the third; names of months and zones depend on the language."""
    with pytest.raises(ValueError, match="letters"):
        checked_format(date_format)


def test_window_has_the_rates_since_the_one_before() -> None:
    """The total is that of the run. The first window has the time to join the group."""
    before, run = Consumed(), Consumed()
    before.began_s, before.first_s, before.ended_s, before.records, before.bytes = 100.0, 101.0, 102.0, 10, 1 << 20
    run.began_s, run.first_s, run.ended_s, run.records, run.bytes = 100.0, 101.0, 104.0, 50, 3 << 20

    first = before.window_line(before.since(Consumed(100.0)), "ss")
    second = run.window_line(run.since(before), "ss")

    assert first.split(", ")[1:] == ["0", "1.0000", "0.5000", "10", "5.0000", "1000", "1000", "1.0000", "10.0000"]
    assert second.split(", ")[1:] == ["0", "3.0000", "1.0000", "50", "20.0000", "0", "2000", "1.0000", "20.0000"]
