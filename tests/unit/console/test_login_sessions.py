"""Sessions of a console with logins; the broker is a fake."""

from __future__ import annotations

import asyncio
import re
import time
import weakref
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

from console import main
from console.application import make_application
from console.cluster.client import Client
from console.errors import BrokerUnavailable, Refused
from console.login_sessions import LoginSessions
from console.logs.readable import ReadableLogDirectories
from console.pages.login import local_path
from console.protection import cookie_name
from console.sources import Sources
from tests.support.consoles import DATA, MadeUpClient

FORM = {"content-type": "application/x-www-form-urlencoded"}


class Clerk(MadeUpClient):
    """A user who may only read the groups' offsets."""

    def readable_topics(self) -> frozenset[str]:
        self._check()
        return frozenset({"__consumer_offsets"})


def enter(user: str, password: str) -> Sources:
    if password == "asleep":
        raise BrokerUnavailable("no broker answers")
    if (user, password) != ("clerk", "secret"):
        raise Refused("User or password is wrong")
    client = cast(Client, Clerk())
    return Sources(client, ReadableLogDirectories([str(DATA)], client))


@pytest.fixture
def sessions() -> LoginSessions:
    return LoginSessions(None, enter)


@pytest.fixture
def browser(sessions: LoginSessions) -> TestClient:
    application = make_application(sessions, frozenset({"localhost"}))
    return TestClient(application, base_url="http://localhost:8080", follow_redirects=False)


def log_in(browser: TestClient, user: str = "clerk", password: str = "secret", target: str = "/topics") -> Any:
    (token,) = re.findall(r'name="token" value="([^"]+)"', browser.get("/login").text)
    return browser.post("/login", data={"token": token, "user": user, "password": password, "next": target})


@pytest.mark.parametrize("path", ["/", "/topics", "/storage/0/orders-0", "/log", "/rates.json", "/nothing"])
def test_requests_without_login_are_redirected(browser: TestClient, path: str) -> None:
    """To the login page, which leads back. Scripts get an error."""
    answer = browser.get(f"{path}?a=b&c=d")
    if path.endswith(".json"):
        assert (answer.status_code, answer.text) == (401, "Log in first\n")
    else:
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/login?next={path}%3Fa%3Db%26c%3Dd"
    assert browser.post(path, headers=FORM).status_code == 401
    assert browser.get("/static/console.css").status_code == 200


def test_login_and_logout(browser: TestClient) -> None:
    """The login leads to the requested page with a cookie that scripts and other sites cannot use."""
    answer = log_in(browser, target="/topics?a=b")
    assert (answer.status_code, answer.headers["location"]) == (303, "/topics?a=b")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("pybroker-console-8080=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page = browser.get("/topics").text
    assert '<span class="user">clerk</span>' in page
    (token,) = set(re.findall(r'name="token" value="([^"]+)"', page))
    assert browser.post("/logout", data={"token": "guess"}).status_code == 403
    key = browser.cookies["pybroker-console-8080"]
    assert browser.post("/logout", data={"token": token}).headers["location"] == "/login"
    browser.cookies.set("pybroker-console-8080", key)
    assert browser.get("/topics").status_code == 303


@pytest.mark.parametrize(("user", "password"), [("clerk", "wrong"), ("", ""), ("other", "secret")])
def test_wrong_password_shows_the_login_again(browser: TestClient, user: str, password: str) -> None:
    answer = log_in(browser, user, password)
    assert "User or password is wrong" in answer.text
    assert "set-cookie" not in answer.headers
    assert browser.get("/topics").status_code == 303


def test_unreachable_broker_is_no_wrong_password(browser: TestClient) -> None:
    answer = log_in(browser, password="asleep")
    assert (answer.status_code, "no broker answers" in answer.text) == (503, True)


def test_login_form_of_another_site_is_rejected(browser: TestClient) -> None:
    """It could show the user the attacker's console."""
    form = {"user": "clerk", "password": "secret", "token": "guess"}
    assert browser.post("/login", data=form).status_code == 403
    (token,) = re.findall(r'name="token" value="([^"]+)"', browser.get("/login").text)
    form["token"] = token
    assert browser.post("/login", data=form, headers={"origin": "http://evil.example"}).status_code == 403


def test_files_of_unreadable_topics_are_hidden(browser: TestClient) -> None:
    """Their pages get error 404."""
    log_in(browser)
    page = browser.get("/storage").text
    assert "__consumer_offsets-0" in page
    folders = {path.name for path in DATA.iterdir() if path.is_dir()}
    hidden = [name for name in folders if not name.startswith("__consumer_offsets")]
    assert hidden
    for name in hidden:
        assert f">{name}<" not in page
        for path in (f"/storage/0/{name}", f"/storage/0/{name}/0", f"/storage/0/{name}/find?offset=0"):
            assert browser.get(path).status_code == 404
    assert browser.get("/storage/0/__consumer_offsets-0").status_code == 200
    assert browser.get("/log").status_code == 403


def test_sessions_expire(sessions: LoginSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an hour after the last request, twelve hours after the login, or as the oldest of too many."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    key = sessions.begin("clerk", "secret")
    for _ in range(24):
        now += 1790
        assert sessions.find(key) is not None
    now += 1790
    assert sessions.find(key) is None
    key = sessions.begin("clerk", "secret")
    session = sessions.find(key)
    assert session is not None
    now += 1801
    assert sessions.find(key) is None
    assert session.is_over
    keys = []
    for _ in range(33):
        now += 1
        keys.append(sessions.begin("clerk", "secret"))
    assert [sessions.find(each) is None for each in keys] == [True] + [False] * 32
    assert sessions.find("") is None


def test_expired_sessions_are_deleted_without_requests(
    sessions: LoginSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their passwords. Active sessions stay."""
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(main, "TIDY_S", 0)
    idle, seen = (sessions.begin("clerk", "secret") for _ in range(2))
    session = sessions.find(idle)
    assert session is not None
    client = weakref.ref(session.sources.client)
    now += 1_799
    assert sessions.find(seen) is not None
    now += 2

    async def tidy_for_a_while() -> None:
        tidying = asyncio.create_task(main.remove_expired_sessions(sessions))
        for _ in range(5):
            await asyncio.sleep(0)
        tidying.cancel()

    asyncio.run(tidy_for_a_while())
    assert session.is_over
    del session
    assert client() is None
    assert sessions.find(seen) is not None


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/topics/a?b=c", "/topics/a?b=c"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("http://evil.example", "/"),
        ("", "/"),
        ("/login", "/"),
        ("/a\r\nset-cookie: b", "/"),
    ],
)
def test_login_leads_to_pages_of_the_console_only(path: str, target: str) -> None:
    """Whatever address the link has."""
    assert local_path(path) == target


@pytest.mark.parametrize(
    ("host", "port"), [("localhost:8080", 8080), ("[::1]:81", 81), ("localhost", 80), ("a:;b", 80)]
)
def test_consoles_on_other_ports_have_other_cookies(host: str, port: int) -> None:
    """A browser sends a host's cookies to all its ports."""
    assert cookie_name(host) == f"pybroker-console-{port}"
