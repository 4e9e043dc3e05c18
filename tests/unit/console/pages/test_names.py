"""Names that clients chose: each has a page, and can be seen, entered and confirmed."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest
from starlette.testclient import TestClient

from console.anatomy.text import name_text
from console.cluster import quotas
from console.cluster.values import Group, GroupLine, Lag
from tests.support.console_visitor import links
from tests.support.consoles import DATA, MadeUpClient, browse

NAMES = [
    *("\n\r\t", "\n", "a\nb", "\r\n", " ", "", "\x1b[31m", "\x7f", "\u2028"),
    *(".", "..", "...", "a/../b", "/", "//", "a/", "/a", "./a", "\\", "a/./.."),
    *("%", "%2e", "%2E%2E", "%0A", "100%", "a%2Fb", "a?b=c", "a#b", "a&b=c;d", "a+b", "group"),
    *("ä", "日本", "😀", "e\u0301", "\u202eabc", "'\"<b>", "id?group=.."),
]


class ClientOfGroup(MadeUpClient):
    """A cluster with one group."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.asked: list[str] = []

    def groups(self) -> list[GroupLine]:
        return [GroupLine(self.name, "stable", "consumer")]

    def group(self, name: str) -> Group:
        self.asked.append(name)
        return Group(name, "empty", "consumer", "", (), (Lag("gone", 0, 4, None, None),))


def address_of_group(browser: TestClient) -> str:
    (address,) = (each for each in links(browser.get("/groups").text) if each.startswith("/groups/"))
    return address


def post(browser: TestClient, address: str, **fields: str) -> tuple[int, str]:
    """Send a form as a browser does: with each line end of a value as \\r\\n."""
    (token,) = set(re.findall(r'name="token" value="([^"]+)"', browser.get("/topics").text))
    sent = {name: re.sub("\r\n|\r|\n", "\r\n", value) for name, value in {"token": token, **fields}.items()}
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = browser.post(address, content=urlencode(sent), headers=headers, follow_redirects=False)
    return answer.status_code, answer.text


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_group_of_any_name_has_a_page(name: str) -> None:
    """The list links to it. Browsers keep the link: it has no control characters, and no dots between slashes."""
    client = ClientOfGroup(name)
    browser = browse(client, [DATA])
    address = address_of_group(browser)
    segments = re.sub("%2e", ".", urlsplit(address).path, flags=re.IGNORECASE).split("/")
    answer = browser.get(address)

    assert address.isprintable()
    assert not {".", ".."} & set(segments)
    assert (answer.status_code, client.asked) == (200, [name])
    assert f"<h1>{name_text(name)}</h1>" in unescape(answer.text)


@pytest.mark.parametrize("name", ["\n\r\t", "a\nb", "a/b", "100%", "日本"])
def test_group_is_found_by_its_quoted_name(name: str) -> None:
    """Without the list, for links from elsewhere."""
    client = ClientOfGroup(name)
    assert browse(client, [DATA]).get(f"/groups/{quote(name, safe='')}").status_code == 200
    assert client.asked == [name]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_form_of_a_group_is_sent_to_it(name: str) -> None:
    client = ClientOfGroup(name)
    browser = browse(client, [DATA])
    address = address_of_group(browser)
    assert f'action="{address}"' in unescape(browser.get(address).text)
    client.asked.clear()
    status, text = post(browser, address, what="move")

    assert (status, client.asked) == (400, [name])
    assert "has no offsets there to reset" in text


@pytest.mark.parametrize("name", ["\n\r\t", "", " ", "a\x1bb", "plain"])
def test_group_is_deleted_by_its_name_as_shown(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Nobody can enter a line end into the form."""
    deleted: list[str] = []
    monkeypatch.setattr("console.cluster.changes.delete_group", lambda _, group: deleted.append(group))
    browser = browse(ClientOfGroup(name), [DATA])
    address = address_of_group(browser)

    assert post(browser, address, what="delete", name="other")[0] == 400
    assert post(browser, address, what="delete", name=name_text(name))[0] == 303
    assert deleted == [name]


@pytest.mark.parametrize("name", ["a\rb", "a\r\nb", "\n", "a\nb", " a ", "%0A", "plain"])
def test_confirmed_name_is_the_one_of_the_link(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A browser changes line ends in the fields of a form, also in hidden ones."""
    removed: list[object] = []
    monkeypatch.setattr(quotas, "change", lambda *arguments: removed.append(arguments[1]))
    browser = browse(MadeUpClient(), [DATA])
    entity = {"of-client-id": "named", "client-id": name, "key": "producer_byte_rate"}
    text = browser.get(f"/access/quotas/remove?{urlencode(entity)}").text
    (confirmed,) = re.findall(r'name="confirmed" value="([^"]+)"', text)

    assert dict(parse_qsl(unescape(confirmed))) == entity
    assert post(browser, "/access/quotas/remove", confirmed=unescape(confirmed))[0] == 303
    assert removed == [{"client-id": name}]


def test_names_are_shown_unless_they_cannot_be_seen() -> None:
    shown = {"a b": "a b", "ä": "ä", "": '""', " a": '" a"', "a\n": "a\\n", "\x00\u202e": "\\x00\\u202e"}
    assert {name: name_text(name) for name in shown} == shown
