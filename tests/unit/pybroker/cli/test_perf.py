"""`pybroker perf`: its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import pytest

from pybroker.cli import perf
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Session

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
        options.run(cast(Session, None), options)
    drawn = capsys.readouterr().err
    assert "3 of 9 records" in drawn
    assert drawn.endswith("\r\x1b[K")
