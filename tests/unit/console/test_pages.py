"""Pages of the console, requested without a port."""

from __future__ import annotations

import re
from html import unescape

import pytest
from starlette.testclient import TestClient

from console.cluster.records import RecordPage
from console.cluster.values import Message, Partition, Topic
from console.pages import messages
from tests.support.consoles import DATA, MadeUpClient, browse

FORM = {"content-type": "application/x-www-form-urlencoded"}
_LINK = re.compile(r'(?:href|src)="([^"#]+)')


def links(text: str) -> set[str]:
    """Return the paths on this host that a page links to."""
    return {unescape(each) for each in _LINK.findall(text)}


def test_every_link_leads_to_a_page(browser: TestClient) -> None:
    """From the start page to the bytes of records, some of each kind. No page has inline styles or scripts."""
    seen: dict[str, int] = {}
    wanted = ["/"]
    visits: dict[str, int] = {}
    of_a_broker = ("/messages", "/transactions", "/replicas")
    while wanted:
        path = wanted.pop()
        kind = re.sub(r"\d+|[^/]+-\d+", "N", path.partition("?")[0])
        if path in seen or visits.get(kind, 0) >= 12 or any(each in path for each in of_a_broker):
            continue
        visits[kind] = visits.get(kind, 0) + 1
        answer = browser.get(path)
        seen[path] = answer.status_code
        if "html" in answer.headers["content-type"]:
            assert not re.search(r"<style|style=|<script(?! src=)| on\w+=", answer.text), path
            assert answer.text.count("<h1>") == 1, path
            wanted += links(answer.text)

    assert {path: status for path, status in seen.items() if status != 200} == {}
    kinds = {"/storage/N/N", "/storage/N/N/N", "/storage/N/N/N/batch/N", "/storage/N/N/N/batch/N/record/N"}
    assert kinds <= set(visits)
    assert {"/static/console.css", "/static/console.js", "/static/icon.svg"} <= set(seen)


def test_read_only_console_has_no_forms(client: MadeUpClient) -> None:
    """It rejects all other methods."""
    browser = browse(client, [DATA], read_only=True)
    for path in ("/topics", "/topics/orders?edit=retention.ms", "/groups/shop"):
        assert 'method="post"' not in browser.get(path).text
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert browser.request(method, "/topics", headers=FORM).status_code == 405


def test_changes_need_a_form_of_the_page(browser: TestClient) -> None:
    """Forms of other sites, and without the page's token, are rejected; so are other methods."""
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert browser.request(method, "/topics").status_code == 405
    (token,) = set(re.findall(r'name="token" value="([^"]+)"', browser.get("/topics").text))
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "evil.example"},
    ):
        answer = browser.post("/topics", content=f"token={token}&name=a%20b", headers={**FORM, **headers})
        assert (headers, answer.status_code in (403, 421)) == (headers, True)
    for path in (
        "/topics",
        "/topics/orders/delete",
        "/topics/orders/messages",
        "/groups/shop",
        "/topics/orders/settings",
    ):
        for content in ("", "token=", "token=guess", f"token={token}x", "token=%C3%BC"):
            assert browser.post(path, content=content, headers=FORM).status_code == 403
    ours = {**FORM, "origin": "http://localhost:8080", "sec-fetch-site": "same-origin"}
    answer = browser.post("/topics", content=f"token={token}&name=a%20b", headers=ours)
    # the form was accepted as far as its fields
    assert (answer.status_code, "topic" in answer.text.lower()) == (400, True)


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ({}, "token=x"),
        ({"content-type": "multipart/form-data; boundary=x"}, "--x--"),
        ({"content-type": "application/x-www-form-urlencoded"}, "&".join(["a=b"] * 101)),
        ({"content-type": "application/x-www-form-urlencoded"}, "a=%ff"),
        ({"content-type": "application/x-www-form-urlencoded"}, "a=" + "b" * (4 << 20)),
    ],
)
def test_malformed_forms_are_rejected(browser: TestClient, headers: dict[str, str], content: str) -> None:
    """With one line."""
    assert browser.post("/topics", content=content, headers=headers).status_code == 400


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""])
def test_unknown_host_names_are_rejected(browser: TestClient, host: str) -> None:
    """Prevents DNS rebinding."""
    assert browser.get("/storage", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "LOCALHOST:1"])
def test_own_host_names_are_accepted(browser: TestClient, host: str) -> None:
    """With any port, as it may be forwarded."""
    assert browser.get("/storage", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 200), ("same-origin", 200), ("none", 200)]
)
def test_requests_from_other_sites_reach_no_broker(browser: TestClient, site: str, status: int) -> None:
    """Requests of users, links and pages of this machine do."""
    answer = browser.get("/storage", headers={"sec-fetch-site": site})
    assert (answer.status_code, "__consumer_offsets" in answer.text) == (status, status == 200)


@pytest.mark.parametrize("path", ["/storage", "/nothing", "/static/console.css"])
def test_security_headers_are_on_each_response(browser: TestClient, path: str) -> None:
    headers = browser.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "same-origin"


def test_hostile_names_are_escaped(browser: TestClient) -> None:
    """In markup and in URLs."""
    assert "&lt;b&gt;1&lt;/b&gt;" in browser.get("/topics/orders").text
    groups = browser.get("/groups").text
    assert "<i>" not in groups
    (address,) = (each for each in links(groups) if each.startswith("/groups/"))
    assert "a/b?c&amp;&lt;i&gt;" in browser.get(address).text


def test_metadata_log_is_not_listed(browser: TestClient) -> None:
    """Although its directory is like a partition's."""
    assert (DATA / "__cluster_metadata-0").is_dir()
    text = browser.get("/storage").text
    assert "__consumer_offsets-0" in text
    assert "__cluster_metadata" not in text


def test_lag_of_a_group(browser: TestClient) -> None:
    """By partition and in total. Without a commit, or if the partition was deleted, there is none."""
    text = browser.get("/groups/shop").text
    assert "<dt>Lag</dt><dd>7</dd>" in text
    assert "none yet" in text
    assert '<td class="n">gone</td>' in text
    assert "/topics/gone" not in text


def test_omitted_headers_are_counted(
    browser: TestClient, client: MadeUpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the page of messages."""
    record = Message(0, 0, 1_700_000_000_000, None, b"told", (("name", b"1"),), more_headers=1_999)
    orders = Topic("orders", "id", False, (Partition(0, 1, (1,), (1,), 0, 1),), ())
    monkeypatch.setattr(client, "topic", lambda name: orders)
    monkeypatch.setattr(messages, "read_messages", lambda *_: RecordPage([record], None, 1))
    text = browser.get("/topics/orders/messages").text
    assert "<dt>name</dt>" in text
    assert "and 1,999 more" in text


def test_storage_works_without_a_broker(browser: TestClient, client: MadeUpClient) -> None:
    """One line reports that the broker is unreachable."""
    client.is_down = True
    answer = browser.get("/topics")
    assert answer.status_code == 503
    assert "no broker answers" in answer.text
    assert browser.get("/storage").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/topics/unknown",
        "/storage/7/orders-0",
        "/storage/0/nothing-0",
        "/storage/0/a%00-0",
        "/storage/0/__cluster_metadata-0",  # it has credentials of users
        "/storage/0/orders-" + 5000 * "9",
        "/storage/9999999999999999999/orders-0",
        "/storage/0/orders-0/9" + 5000 * "9",
        "/storage/0/%2e%2e%2fx-0",
        "/storage/0/meta.properties",
        "/rates.json",
    ],
)
def test_missing_objects_get_a_page(browser: TestClient, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 404
    assert "<h1>" in answer.text


@pytest.mark.parametrize("query", ["first=x", "first=-1", "first=1e3", "first=99999999999999999999"])
def test_invalid_query_parameters_are_named(browser: TestClient, query: str) -> None:
    answer = browser.get(f"/storage/0/__consumer_offsets-0/0/index?{query}")
    assert answer.status_code == 400
    assert "first is a number" in answer.text
