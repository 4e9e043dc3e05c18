"""`pybroker explain`: when its output is coloured."""

from __future__ import annotations

import sys
from collections.abc import Generator
from types import SimpleNamespace

import pytest

from tools.wire import explain
from tools.wire.traces.steps import Step


@pytest.mark.parametrize("on_terminal", [True, False])
@pytest.mark.parametrize(
    ("options", "no_color", "always", "never"),
    [
        ([], None, False, False),
        ([], "1", False, True),
        ([], "", False, False),
        (["--color", "always"], "1", True, False),
        (["--color", "never"], None, False, True),
    ],
)
def test_colours_depend_on_terminal_no_color_and_option(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    no_color: str | None,
    always: bool,
    never: bool,
    on_terminal: bool,
) -> None:
    """NO_COLOR counts if it is not empty (no-color.org); the option has priority."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
    monkeypatch.setattr(explain, "import_module", lambda name: SimpleNamespace(trace=one_step))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert explain.main(["produce", *options]) == 0
    shown = capsys.readouterr().out
    assert "a title" in shown
    assert ("\x1b[" in shown) is (always or (on_terminal and not never))


def one_step() -> Generator[Step, None, None]:
    yield Step("frame", "a title", "An explanation.", ())
