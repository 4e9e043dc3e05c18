"""The bar of long commands."""

from __future__ import annotations

import io

from pybroker.cli.client.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_on_a_terminal() -> None:
    """Drawn no more than ten times a second, and gone at the end."""
    moments = iter((10.0, 10.05, 11.0))
    stream = Terminal()
    bar = ProgressBar("Copying", stream=stream, now=lambda: next(moments))
    bar.show(1, 2, "half")
    bar.show(2, 2, "too early")
    bar.show(3, 2, "all")
    bar.end()
    with bar:
        pass
    drawn = stream.getvalue().split("\r\x1b[K")
    assert drawn == ["", f"Copying [{'#' * 15}{'.' * 15}] half", f"Copying [{'#' * 30}] all", "", ""]


def test_nothing_elsewhere() -> None:
    """Not in a file, nor in a pipe."""
    stream = io.StringIO()
    bar = ProgressBar("Copying", stream=stream)
    bar.show(1, 2, "half")
    bar.end()
    assert stream.getvalue() == ""
