"""A visitor of a broker's console without a browser: it reads pages as text and sends forms as a browser does."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing
from html import unescape
from http.cookiejar import CookieJar
from pathlib import Path
from typing import NamedTuple

from pybroker.testing import Broker
from tests.support.eventually import eventually

PATIENCE_S = 60
_LINK = re.compile(r'(?:href|src)="([^"#]+)')
_OWN_CODE = re.compile(r"<style|style=|<script(?! src=)|<[^>]* on\w+=|javascript:")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Console:
    """A broker's console and its process."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        told = re.findall(r"The console is at http://(.+):(\d+)", broker.log)
        self._host, self._port = told[-1][0], int(told[-1][1])

    @property
    def address(self) -> tuple[str, int]:
        return self._host, self._port

    def ask(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: str | None = None
    ) -> Answer:
        """Send a request and return the answer; the console may listen a moment after the broker."""

        def attempt() -> Answer:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE_S)
            with closing(connection):
                connection.request(method, path, body, headers or {})
                answer = connection.getresponse()
                received = {name.lower(): value for name, value in answer.getheaders()}
                return Answer(answer.status, received, answer.read().decode())

        return eventually(attempt, "a console", retried=ConnectionRefusedError, timeout_s=PATIENCE_S)

    def page(self, path: str) -> str:
        """Return an existing page, which runs only the console's own scripts."""
        answer = self.ask(path)
        assert answer.status == 200, f"{path}: {answer.text}\n{self.broker.log[-4000:]}"
        assert "default-src 'none'" in answer.headers["content-security-policy"], path
        if "html" in answer.headers["content-type"]:
            assert _OWN_CODE.findall(answer.text) == [], path
            assert answer.text.count("<h1>") == 1, path
        return answer.text

    @property
    def pid(self) -> int:
        """Return the process id of the console."""
        children = Path(f"/proc/{self.broker.pid}/task/{self.broker.pid}/children").read_text().split()
        (found,) = (int(pid) for pid in children if b"console.main" in Path(f"/proc/{pid}/cmdline").read_bytes())
        return found


def links(text: str) -> set[str]:
    """Return the addresses of the console that a page links."""
    return {unescape(each) for each in _LINK.findall(text)}


class Forms:
    """Forms of the console, sent as a browser does."""

    def __init__(self, console: Console) -> None:
        self._console = console
        (self._token,) = set(re.findall(r'name="token" value="([^"]+)"', console.page("/topics")))

    def send(self, path: str, **fields: str) -> Answer:
        body = urllib.parse.urlencode({"token": self._token, **fields})
        return self._console.ask(path, "POST", {"content-type": "application/x-www-form-urlencoded"}, body)


class Visitor:
    """A browser with cookies, without scripts."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._token = ""
        nowhere = urllib.request.ProxyHandler({})
        self._opener = urllib.request.build_opener(nowhere, urllib.request.HTTPCookieProcessor(CookieJar()))

    def ask(self, path: str, **form: str) -> tuple[int, str]:
        """Return status and text, after redirections; the console may listen a moment after the broker."""
        data = urllib.parse.urlencode(form).encode() if form else None

        def attempt() -> tuple[int, str]:
            try:
                with self._opener.open(self._address + path, data, timeout=PATIENCE_S) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        return eventually(attempt, "a console", retried=urllib.error.URLError, timeout_s=PATIENCE_S)

    def log_in(self, user: str, password: str) -> tuple[int, str]:
        _, text = self.ask("/topics")
        (token,) = re.findall(r'name="token" value="([^"]+)"', text)
        status, text = self.ask("/login", token=token, user=user, password=password, next="/topics")
        self._token = (re.findall(r'name="token" value="([^"]+)"', text) or [""])[0]
        return status, text

    def send(self, path: str, **fields: str) -> tuple[int, str]:
        """Send a form of a page, after the login."""
        return self.ask(path, token=self._token, **fields)
