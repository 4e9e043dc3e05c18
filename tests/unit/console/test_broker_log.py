"""Lines of the broker's log, as the console keeps and shows them."""

from __future__ import annotations

from starlette.testclient import TestClient

from console.broker_log import BrokerLog
from tests.support.consoles import DATA, MadeUpClient, browse


def test_newest_first_and_not_all() -> None:
    """A word is looked for in either case; bytes that are no text harm nothing."""
    log = BrokerLog()
    log.follow([f"line {number}\n".encode() for number in range(3000)] + [b"\xff Error\n"])
    assert log.lines("", 2) == ["\ufffd Error", "line 2999"]
    assert log.lines("eRROR", 10) == ["\ufffd Error"]
    assert log.lines("line 1000", 10) == []  # of so many only the last are kept
    assert len(log.lines("", 10_000)) == 2000


def test_page_of_a_log_is_text() -> None:
    """Whatever a client has had logged."""
    client = MadeUpClient()
    browser: TestClient = browse(client, [DATA])
    browser.app.state.login_sessions.find("").sources.log.follow([b"1 WARN broker: <script>\n"])  # type: ignore[attr-defined]
    text = browser.get("/log?word=SCRIPT").text
    assert '<li class="odd">1 WARN broker: &lt;script&gt;</li>' in text
