"""The web console of a broker that runs: every page over HTTP, of nothing, of much, and of what strangers wrote."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from broker.console import Console as StartedConsole
from broker.network.listener import CannotBind
from protocol.records.builder import BatchBuilder
from pybroker.testing import Broker
from tests.support.data_client import DataClient
from tests.support.producing import patched

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'
ESCAPED = "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"
GROUP = f"group/{HOSTILE}?a=b&c#d"
_LINK = re.compile(r'(?:href|src)="([^"#]+)')
_OWN_CODE = re.compile(r"<style|style=|<script(?! src=)|<[^>]* on\w+=|javascript:")
_PATIENCE_S = 60


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Console:
    """The console of a broker, and the process that it is."""

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
        """What it answers; it may take a moment after the broker to listen."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=_PATIENCE_S)
            try:
                connection.request(method, path, body, headers or {})
                answer = connection.getresponse()
                told = {name.lower(): value for name, value in answer.getheaders()}
                return Answer(answer.status, told, answer.read().decode())
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "nobody listens"
                time.sleep(0.05)
            finally:
                connection.close()

    def page(self, path: str) -> str:
        """A page that there is, which runs nothing that is not the console's own."""
        answer = self.ask(path)
        assert answer.status == 200, f"{path}: {answer.text}\n{self.broker.log[-4000:]}"
        assert "default-src 'none'" in answer.headers["content-security-policy"], path
        if "html" in answer.headers["content-type"]:
            assert _OWN_CODE.findall(answer.text) == [], path
            assert answer.text.count("<h1>") == 1, path
        return answer.text

    @property
    def pid(self) -> int:
        """Of its process."""
        children = Path(f"/proc/{self.broker.pid}/task/{self.broker.pid}/children").read_text().split()
        (found,) = (int(pid) for pid in children if b"console.main" in Path(f"/proc/{pid}/cmdline").read_bytes())
        return found


def links(text: str) -> set[str]:
    """Addresses of the console that a page names."""
    return {unescape(each) for each in _LINK.findall(text)}


def until(condition: Callable[[], object], about: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, about
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether a process is there that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """With a console and metrics."""
    nowhere = "http://127.0.0.1:0"
    with Broker({"console.listeners": nowhere, "metrics.listeners": nowhere, "num.partitions": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def bare(broker: Broker) -> dict[str, str]:
    """Pages of a broker that holds nothing yet, by their addresses."""
    console = Console(broker)
    return {path: console.page(path) for path in ("/", "/topics", "/groups", "/storage")}


@pytest.fixture(scope="module")
def console(broker: Broker, bare: dict[str, str]) -> Iterator[Console]:
    """After somebody has written what nobody should, and while a member of a group with such a name reads it."""
    broker.create_topic("orders", config={"cleanup.policy": "compact"})
    broker.create_topic("wide", partitions=1000)
    server = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer({**server, "client.id": HOSTILE})
    producer.produce("orders", HOSTILE, HOSTILE, headers={HOSTILE: HOSTILE, "null": None}, timestamp=1_700_000_000_000)
    producer.produce("orders", bytes(range(256)), "binary", timestamp=1_700_000_001_000)
    producer.produce("orders", None, "tombstone", timestamp=1_700_000_002_000)
    producer.produce("orders", '{"a": ["</pre>", "\\ud800"]}', "json", timestamp=1_700_000_003_000)
    assert producer.flush(_PATIENCE_S) == 0
    consumer = Consumer(
        {
            **server,
            "group.id": GROUP,
            "client.id": HOSTILE,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    until(lambda: (record := consumer.poll(1)) is not None and record.error() is None, "no record")
    consumer.commit(asynchronous=False)
    yield Console(broker)
    consumer.close()


def test_broker_without_topics(bare: dict[str, str]) -> None:
    """Each page says that there are none."""
    assert "There are no topics." in bare["/topics"]
    assert "There are no groups." in bare["/groups"]
    assert "There are no partitions." in bare["/storage"]
    assert "<dt>Topics</dt>" in bare["/"]


def test_every_page(console: Console) -> None:
    """Whatever a page leads to is there, down to the bytes of records, some pages of each kind."""
    visits: dict[str, int] = {}
    wanted = deque(["/storage/0/orders-0", "/"])  # of a kind, those of what was written come first
    seen = set(wanted)
    while wanted:
        path = wanted.popleft()
        kind = re.sub(r"(?<=/groups/).+", "N", re.sub(r"\d+|(?<=/)[\w.]+-\d+", "N", path.partition("?")[0]))
        visits[kind] = visits.get(kind, 0) + 1
        if visits[kind] <= 2 and "wide" not in path:  # a thousand partitions have a test of their own
            found = links(console.page(path)) - seen
            seen |= found
            wanted += sorted(found)

    assert {
        *("/", "/topics", "/topics/orders", "/topics/orders/messages", "/groups", "/groups/N", "/storage"),
        *("/storage/N/N", "/storage/N/N/N", "/storage/N/N/N/index", "/storage/N/N/N/timeindex"),
        *("/storage/N/N/N/batch/N", "/storage/N/N/N/batch/N/record/N"),
        *("/static/console.css", "/static/console.js", "/static/icon.svg"),
    } <= set(visits)


def test_what_strangers_wrote_is_text(console: Console) -> None:
    """Keys, values, headers, groups, client ids: in each place where they are shown."""
    messages = console.page("/topics/orders/messages")
    assert messages.count(ESCAPED) == 4  # key, value, a header's name and value
    assert console.page("/groups").count(ESCAPED) == 1
    (address,) = (each for each in links(console.page("/groups")) if each.startswith("/groups/"))
    group = console.page(address)
    assert f"<h1>group/{ESCAPED}?a=b&amp;c#d</h1>" in group
    assert f"<td>{ESCAPED}</td>" in group  # its member's client id
    find = "/storage/0/orders-0/find?offset=0"
    (batch,) = (each for each in links(console.page(find)) if "/batch/" in each)
    assert ESCAPED in console.page(f"{batch}/record/0")


def test_values_of_all_kinds(console: Console) -> None:
    """Bytes that are no text, none at all, and JSON with half a character in it."""
    messages = console.page("/topics/orders/messages")
    assert "00000000  00 01 02 03" in messages
    assert "<em>null</em>" in messages
    assert "&lt;/pre&gt;" in messages
    assert "\\ud800" in messages
    for form in ("text", "hex", "json"):
        assert console.page(f"/topics/orders/messages?form={form}")


def test_header_whose_name_is_no_text(console: Console) -> None:
    """Clients do not send such names; whoever speaks the protocol may, behind others, when the interpreter is warm."""
    console.broker.create_topic("strange")
    host, _, port = console.broker.bootstrap_servers.rpartition(":")
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), None, b"value", [("name", b"")])
    with DataClient(host, int(port)) as client:
        for _ in range(49):
            client.produce("strange", builder.build())
        client.produce("strange", patched(builder.build().replace(b"name", b"\xff\xfe\xfd\xfc"), 21, ">h", 0))
    assert "<dt>\ufffd</dt><dd><em>null</em>" in console.page("/topics/strange/messages")
    (batch,) = (each for each in links(console.page("/storage/0/strange-0/find?offset=49")) if "/batch/" in each)
    assert "0xfffefdfc" in console.page(f"{batch}/record/0")


def test_a_page_of_records_begins_where_one_likes(console: Console) -> None:
    """By offset, by time, by count."""

    def offsets(query: str) -> list[str]:
        return re.findall(r'<th scope="row">(\d+)</th>', console.page(f"/topics/orders/messages?{query}"))

    assert offsets("") == ["0", "1", "2", "3"]
    assert offsets("offset=2") == ["2", "3"]
    assert offsets("offset=1&count=2") == ["1", "2"]
    assert offsets("time=@1700000001500") == ["2", "3"]
    assert offsets("time=@1800000000000") == []
    for query, told in (("partition=7", 404), ("offset=x", 400), ("form=x", 400), ("time=" + 9 * "9" * 999, 400)):
        assert console.ask(f"/topics/orders/messages?{query}").status == told


def test_topic_of_a_thousand_partitions(console: Console) -> None:
    """Each has a line."""
    page = console.page("/topics/wide")
    assert len(re.findall(r"<td>0 to 0</td>", page)) == 1000
    assert "/topics/wide/messages?partition=999" in page
    assert "There are no records here." in console.page("/topics/wide/messages?partition=999")


def test_nothing_that_is_not_there(console: Console) -> None:
    """Is said in a line; the metadata log, with users' credentials, is not there for a browser."""
    assert (console.broker.data_directory / "__cluster_metadata-0").is_dir()
    topics = ("/topics/nothing", "/topics/no%20name", "/topics/%00", "/topics/" + 300 * "a")
    folders = ("/storage/0/nothing-0", "/storage/0/orders-0/7", "/storage/0/__cluster_metadata-0")
    for path in (*topics, "/groups/nothing", "/groups/%00", *folders, "/storage/0/orders-0/0/batch/1"):
        answer = console.ask(path)
        assert (path, answer.status) == (path, 404)
        assert "<h1>" in answer.text


def test_looking_leaves_no_group() -> None:
    """Reading records commits nothing, and looking at anything else does not even make __consumer_offsets."""
    with Broker({"console.listeners": "http://127.0.0.1:0"}) as other:
        other.create_topic("only")
        console = Console(other)
        for path in ("/", "/topics", "/topics/only", "/topics/only/messages", "/groups", "/storage"):
            console.page(path)
        assert "__consumer_offsets" not in console.page("/topics")
        producer = Producer({"bootstrap.servers": other.bootstrap_servers})
        producer.produce("only", "value")
        assert producer.flush(_PATIENCE_S) == 0
        assert '<pre tabindex="0">value</pre>' in console.page("/topics/only/messages")
        assert "There are no groups." in console.page("/groups")


def test_rates(console: Console) -> None:
    """What the charts are drawn from, by the names that the page has."""
    samples = set(re.findall(r'data-(?:sample|per)="(\w{7,})"', console.page("/")))
    told = console.ask("/rates.json")
    assert told.headers["content-type"] == "application/json"
    assert set(re.findall(r'"(\w+)": ?[\d.]+', told.text)) - {"at"} == samples


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
def test_nothing_is_changed_for_other_sites(console: Console, origin: str | None) -> None:
    """A page of one can have a browser send a form: not with a token that it would have to read here."""
    headers = {"content-type": "application/x-www-form-urlencoded", **({"origin": origin} if origin else {})}
    group = urllib.parse.quote(f"/groups/{GROUP}")
    for path in ("/topics", "/topics/orders/delete", "/topics/orders/settings", "/topics/orders/messages", group):
        assert console.ask(path, "POST", headers).status == 403
        for method in ("PUT", "DELETE"):
            assert console.ask(path, method, headers).status == 405
    assert "access-control-allow-origin" not in console.ask("/topics", headers=headers).headers


class Forms:
    """Forms of the console, sent as a browser would."""

    def __init__(self, console: Console) -> None:
        self._console = console
        (self._token,) = set(re.findall(r'name="token" value="([^"]+)"', console.page("/topics")))

    def send(self, path: str, **fields: str) -> Answer:
        body = urllib.parse.urlencode({"token": self._token, **fields})
        return self._console.ask(path, "POST", {"content-type": "application/x-www-form-urlencoded"}, body)


def test_a_life_of_a_topic(console: Console) -> None:
    """Made, altered, filled, followed, deleted by forms; what the broker declines is said in its words."""
    forms = Forms(console)
    answer = forms.send(
        "/topics", name="formed", partitions="2", settings="cleanup.policy=compact\r\nretention.ms=1000"
    )
    assert (answer.status, answer.headers["location"]) == (303, "/topics/formed?done=made")
    page = console.page("/topics/formed?done=made&edit=retention.ms")
    assert "The topic is made." in page
    assert 'value="1000"' in page
    answer = forms.send("/topics", name="formed")
    assert (answer.status, "already exists" in answer.text) == (409, True)
    for fields in ({"name": "a b"}, {"name": "x", "partitions": "0"}, {"name": "x", "settings": "nothing"}):
        assert forms.send("/topics", **fields).status == 400
    assert forms.send("/topics", name="x", settings="no.such.key=1").status == 409

    settings = "/topics/formed/settings"
    assert forms.send(settings, key="retention.ms", value="2000").status == 303
    assert re.search(r"retention.ms</th>\s*<td>2000</td><td>dynamic topic config", console.page("/topics/formed"))
    assert forms.send(settings, key="retention.ms", value="much").status == 409
    assert forms.send(settings, key="retention.ms", reset="1").status == 303
    assert "dynamic topic config</td>" in console.page("/topics/formed")  # of cleanup.policy
    assert not re.search(r"retention.ms</th>\s*<td>\d+</td><td>dynamic", console.page("/topics/formed"))
    assert forms.send(settings, key="", value="1").status == 400
    assert forms.send("/topics/formed/partitions", count="3").status == 303
    assert forms.send("/topics/formed/partitions", count="2").status == 409

    messages = "/topics/formed/messages"
    sent = forms.send(messages, partition="2", key="k", value="two\r\nlines", headers="a: b\r\nc:")
    assert (sent.status, sent.headers["location"]) == (303, f"{messages}?partition=2&offset=0&done=sent")
    shown = console.page(sent.headers["location"])
    assert "two\nlines" in shown
    assert "<dt>a</dt>" in shown
    assert forms.send(messages, partition="2", key="k", **{"is-null": "1"}).status == 303
    assert "<em>null</em>" in console.page(f"{messages}?partition=2")
    assert forms.send(messages, value="no key").status == 409  # compacted
    for fields, status in (
        ({"headers": "nothing"}, 400),
        ({"headers": "a\0b: c"}, 400),
        ({"partition": "x"}, 400),
        ({"partition": "7"}, 404),
        ({"key": "k", "value": "x" * 2_000_000}, 409),
    ):
        assert (fields, forms.send(messages, **fields).status) == (fields, status)
    for path in ("/topics/a%00b/delete", "/topics/a%00b/settings", "/topics/a%00b/messages", "/groups/a%00b"):
        assert (path, forms.send(path, name="a\0b", what="delete", key="a").status) == (path, 404)
    assert forms.send("/topics/nothing/messages", value="x").status == 404

    assert forms.send("/topics/formed/delete", name="other").status == 400
    assert forms.send("/topics/formed/delete", name="formed").status == 303
    assert console.ask("/topics/formed").status == 404


def test_group_goes_on_elsewhere(console: Console) -> None:
    """If nobody is in it: to the first record, the last, an offset, a time; and goes itself."""
    forms = Forms(console)
    server = {"bootstrap.servers": console.broker.bootstrap_servers}
    consumer = Consumer({**server, "group.id": "moved", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    until(lambda: (record := consumer.poll(1)) is not None and record.error() is None, "no record")
    consumer.commit(asynchronous=False)
    answer = forms.send("/groups/moved", what="move", to="earliest")
    assert (answer.status, "has members" in answer.text) == (409, True)
    consumer.close()
    for fields, lag in (
        ({"to": "latest"}, 0),
        ({"to": "earliest"}, 4),
        ({"to": "offset", "offset": "3", "place": "orders-0"}, 1),
        ({"to": "offset", "offset": "999"}, 0),
        ({"to": "time", "offset": "@1700000001500"}, 2),
    ):
        assert forms.send("/groups/moved", what="move", **fields).status == 303
        assert f"<dt>Lag</dt><dd>{lag}</dd>" in console.page("/groups/moved")
        assert f'"lag":{lag}' in console.ask("/lag.json?group=moved").text
    for fields in ({"to": "offset", "offset": "x"}, {"to": ""}, {"to": "time", "offset": "when"}, {"place": "other-0"}):
        assert forms.send("/groups/moved", **{"what": "move", "to": "earliest", **fields}).status == 400
    assert forms.send("/groups/moved").status == 400
    assert forms.send("/groups/moved", what="delete", name="other").status == 400
    assert forms.send("/groups/moved", what="delete", name="moved").status == 303
    assert console.ask("/groups/moved").status == 404


def test_filter_and_avro(console: Console) -> None:
    """Only records with a word; values by a schema that one enters."""
    found = console.page("/topics/orders/messages?word=BINARY")
    assert re.findall(r'<th scope="row">(\d+)</th>', found) == ["1"]
    assert "4 records from offset 0 on were looked at" in found
    console.broker.create_topic("avro")
    producer = Producer({"bootstrap.servers": console.broker.bootstrap_servers})
    producer.produce("avro", b"\0\0\0\0\1\x06foo")
    producer.produce("avro", b"\x7f")
    assert producer.flush(_PATIENCE_S) == 0
    shown = console.page("/topics/avro/messages?form=avro&schema=string")
    assert '<pre tabindex="0">&#34;foo&#34;</pre>' in shown
    assert "no Avro of this schema: the bytes end before the value does" in shown
    assert console.ask("/topics/avro/messages?form=avro&schema=%7B").status == 400


def test_followers_are_few(console: Console) -> None:
    """Each has a consumer; one that hangs up leaves its place to the next."""
    address = console.address
    path = "/topics/orders/tail?offset=1"
    assert console.ask("/topics/nothing/tail").status == 404
    assert console.ask("/topics/orders/tail?partition=9").status == 404
    open_ones = []
    try:
        for _ in range(8):
            connection = http.client.HTTPConnection(*address, timeout=_PATIENCE_S)
            open_ones.append(connection)
            connection.request("GET", path, headers={"last-event-id": "1"})
            answer = connection.getresponse()
            assert answer.headers["content-type"].startswith("text/event-stream")
            while not (line := answer.readline()).startswith(b"id:"):
                assert line
            assert line == b"id: 2\n"
        assert console.ask(path).status == 429
    finally:
        for each in open_ones:
            each.close()

    def has_room() -> bool:
        connection = http.client.HTTPConnection(*address, timeout=_PATIENCE_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        finally:
            connection.close()

    until(has_room, "there is no room again")


def test_transactions_and_the_log(console: Console) -> None:
    """Who writes in transactions, who numbers what it writes, and what the broker says of itself."""
    server = {"bootstrap.servers": console.broker.bootstrap_servers}
    producer = Producer({**server, "transactional.id": HOSTILE})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", "in a transaction", "tx")
    producer.flush()
    page = console.page("/transactions?topic=orders")
    assert ESCAPED in page
    assert "ongoing" in page
    assert "offset 4</a>" in page
    producer.abort_transaction()
    assert "The console is at" in console.page("/log?word=CONSOLE")
    assert "There are none." in console.page("/access")


def test_read_only() -> None:
    """There is no form, and none is taken."""
    with Broker({"console.listeners": "http://127.0.0.1:0", "console.read.only": True}) as other:
        console = Console(other)
        page = console.page("/topics")
        assert "read only" in page
        assert 'method="post"' not in page
        assert (
            console.ask("/topics", "POST", {"content-type": "application/x-www-form-urlencoded"}, "name=x").status
            == 405
        )


def test_other_sites_names_lead_nowhere(console: Console) -> None:
    """One whose name points to 127.0.0.1 by now reads nothing."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example"):
        answer = console.ask("/topics/orders/messages", headers={"host": host})
        assert (answer.status, "alert" in answer.text) == (421, False)
    assert console.ask("/topics", headers={"host": "localhost:1"}).status == 200


def test_console_that_dies_is_told_of() -> None:
    """And the broker goes on without it; killed itself, it takes its console along."""
    with Broker({"console.listeners": "http://127.0.0.1:0"}) as other:
        first = Console(other)
        first.page("/")
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: "The console has ended with code -9; the broker goes on without it" in other.log, other.log)
        other.create_topic("afterwards")
        other.restart()
        second = Console(other)
        second.page("/")
        pid = second.pid
        other.kill()
        until(lambda: not is_alive(pid), "the console outlives its broker")


def test_console_ends_with_its_broker_and_says_nothing() -> None:
    """A stop in good order, by which nobody is surprised."""
    broker = Broker({"console.listeners": "http://127.0.0.1:0"}).start()
    try:
        console = Console(broker)
        console.page("/")
        pid = console.pid
        broker.pause()
        assert not is_alive(pid)
        assert "The console has ended" not in broker.log
        assert "Traceback" not in broker.log
    finally:
        broker.stop()


def test_ports_that_are_taken_leave_no_other_open() -> None:
    """One that is not to be had stops the start of the broker."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotBind, match="the port is in use"):
            StartedConsole([("127.0.0.1", 0), ("127.0.0.1", port)])
    free = StartedConsole([("127.0.0.1", port)])
    assert free.urls == [f"http://127.0.0.1:{port}"]
    free.close()


def test_broker_without_a_console_knows_nothing_of_it() -> None:
    """Neither a process nor a module, of ours or others."""
    known = "import broker.main, broker.broker, sys; print(*sorted({each.partition('.')[0] for each in sys.modules}))"
    names = subprocess.run([sys.executable, "-I", "-c", known], capture_output=True, text=True, check=True).stdout
    assert {"console", "starlette", "uvicorn", "jinja2", "confluent_kafka"} & set(names.split()) == set()
    with Broker() as broker:
        children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text()
        assert children == ""
        assert "console" not in broker.log
