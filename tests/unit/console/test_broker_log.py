"""The broker's log in the console."""

from __future__ import annotations

from starlette.testclient import TestClient

from console.broker_log import BrokerLog
from tests.support.consoles import DATA, MadeUpClient, browse


def test_log_is_filtered_newest_first() -> None:
    """The filter ignores case. Bytes that are not UTF-8 are replaced."""
    log = BrokerLog()
    log.follow([f"line {number}\n".encode() for number in range(3000)] + [b"\xff Error\n"])
    assert log.lines("", 2) == ["\ufffd Error", "line 2999"]
    assert log.lines("eRROR", 10) == ["\ufffd Error"]
    assert log.lines("line 1000", 10) == []  # only the last of so many are kept
    assert len(log.lines("", 10_000)) == 2000


def test_log_lines_are_escaped() -> None:
    """Clients can cause lines with any text."""
    client = MadeUpClient()
    browser: TestClient = browse(client, [DATA])
    browser.app.state.login_sessions.find("").sources.log.follow([b"1 WARN broker: <script>\n"])  # type: ignore[attr-defined]
    text = browser.get("/log?word=SCRIPT").text
    assert '<li class="odd">1 WARN broker: &lt;script&gt;</li>' in text
