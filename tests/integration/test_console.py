"""The web console of a running broker over HTTP: every page, with few and many objects, and with hostile names."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from broker.console.process import Console as StartedConsole
from broker.network.listener import CannotBind
from protocol.records.builder import BatchBuilder
from pybroker.testing import Broker
from tests.support.console_visitor import PATIENCE_S, Console, links
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.producing import patched

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'
ESCAPED = "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"
GROUP = f"group/{HOSTILE}?a=b&c#d"


def is_alive(pid: int) -> bool:
    """Return whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a console and metrics."""
    any_port = "http://127.0.0.1:0"
    with Broker({"console.listeners": any_port, "metrics.listeners": any_port, "num.partitions": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def empty_pages(broker: Broker) -> dict[str, str]:
    """Pages of the broker while it has no topics, by path."""
    console = Console(broker)
    return {path: console.page(path) for path in ("/", "/topics", "/groups", "/storage")}


@pytest.fixture(scope="module")
def console(broker: Broker, empty_pages: dict[str, str]) -> Iterator[Console]:
    """The console after clients have written hostile names, while a group with such a name has a member."""
    broker.create_topic("orders", config={"cleanup.policy": "compact"})
    broker.create_topic("wide", partitions=1000)
    server = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer({**server, "client.id": HOSTILE})
    producer.produce("orders", HOSTILE, HOSTILE, headers={HOSTILE: HOSTILE, "null": None}, timestamp=1_700_000_000_000)
    producer.produce("orders", bytes(range(256)), "binary", timestamp=1_700_000_001_000)
    producer.produce("orders", None, "tombstone", timestamp=1_700_000_002_000)
    producer.produce("orders", '{"a": ["</pre>", "\\ud800"]}', "json", timestamp=1_700_000_003_000)
    assert producer.flush(PATIENCE_S) == 0
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
    eventually(lambda: (record := consumer.poll(1)) is not None and record.error() is None, "no record")
    consumer.commit(asynchronous=False)
    yield Console(broker)
    consumer.close()


def test_pages_of_a_broker_without_topics(empty_pages: dict[str, str]) -> None:
    assert "There are no topics." in empty_pages["/topics"]
    assert "There are no groups." in empty_pages["/groups"]
    assert "There are no partitions." in empty_pages["/storage"]
    assert "<dt>Topics</dt>" in empty_pages["/"]


def test_every_link_leads_to_a_page(console: Console) -> None:
    """Follows the links of two pages of each kind, down to the bytes of a record."""
    visited: dict[str, int] = {}
    wanted = deque(["/storage/0/orders-0", "/"])  # begin with the partition that has records
    seen = set(wanted)
    while wanted:
        path = wanted.popleft()
        kind = re.sub(r"(?<=/groups/).+", "N", re.sub(r"\d+|(?<=/)[\w.]+-\d+", "N", path.partition("?")[0]))
        visited[kind] = visited.get(kind, 0) + 1
        if visited[kind] <= 2 and "wide" not in path:  # its thousand partitions have their own test
            found = links(console.page(path)) - seen
            seen |= found
            wanted += sorted(found)

    assert {
        *("/", "/topics", "/topics/orders", "/topics/orders/messages", "/groups", "/groups/N", "/storage"),
        *("/storage/N/N", "/storage/N/N/N", "/storage/N/N/N/index", "/storage/N/N/N/timeindex"),
        *("/storage/N/N/N/batch/N", "/storage/N/N/N/batch/N/record/N"),
        *("/static/console.css", "/static/console.js", "/static/icon.svg"),
    } <= set(visited)


def test_hostile_names_are_escaped(console: Console) -> None:
    """Keys, values, headers, groups and client ids, on each page that shows them."""
    messages = console.page("/topics/orders/messages")
    assert messages.count(ESCAPED) == 4  # key, value, header name, header value
    assert console.page("/groups").count(ESCAPED) == 1
    (address,) = (each for each in links(console.page("/groups")) if each.startswith("/groups/"))
    group = console.page(address)
    assert f"<h1>group/{ESCAPED}?a=b&amp;c#d</h1>" in group
    assert f"<td>{ESCAPED}</td>" in group  # its member's client id
    find = "/storage/0/orders-0/find?offset=0"
    (batch,) = (each for each in links(console.page(find)) if "/batch/" in each)
    assert ESCAPED in console.page(f"{batch}/record/0")


def test_values_of_all_kinds_are_shown(console: Console) -> None:
    """Binary values, null, and JSON with half of a surrogate pair."""
    messages = console.page("/topics/orders/messages")
    assert "00000000  00 01 02 03" in messages
    assert "<em>null</em>" in messages
    assert "&lt;/pre&gt;" in messages
    assert "\\ud800" in messages
    for form in ("text", "hex", "json"):
        assert console.page(f"/topics/orders/messages?form={form}")


def test_header_name_that_is_not_utf8_is_shown(console: Console) -> None:
    """The batch is behind 49 others, so that the interpreter has optimised the code that reads headers."""
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


def test_messages_start_at_offset_or_time(console: Console) -> None:
    def offsets(query: str) -> list[str]:
        return re.findall(r'<th scope="row">(\d+)</th>', console.page(f"/topics/orders/messages?{query}"))

    assert offsets("") == ["0", "1", "2", "3"]
    assert offsets("offset=2") == ["2", "3"]
    assert offsets("offset=1&count=2") == ["1", "2"]
    assert offsets("time=@1700000001500") == ["2", "3"]
    assert offsets("time=@1800000000000") == []
    for query, status in (("partition=7", 404), ("offset=x", 400), ("form=x", 400), ("time=" + 9 * "9" * 999, 400)):
        assert console.ask(f"/topics/orders/messages?{query}").status == status


def test_topic_of_a_thousand_partitions_is_shown(console: Console) -> None:
    page = console.page("/topics/wide")
    assert len(re.findall(r"<td>0 to 0</td>", page)) == 1000
    assert "/topics/wide/messages?partition=999" in page
    assert "There are no records here." in console.page("/topics/wide/messages?partition=999")


def test_replicas_of_a_node_alone(console: Console) -> None:
    """It leads all partitions, none lacks a replica, and none moves."""
    text = console.page("/replicas")
    assert "All replicas are in sync." in text
    assert "No partition moves." in text
    assert ">1</th><td>127.0.0.1:" in text


def test_missing_objects_get_404(console: Console) -> None:
    """So does the metadata log, which has users' credentials."""
    assert (console.broker.data_directory / "__cluster_metadata-0").is_dir()
    topics = ("/topics/nothing", "/topics/no%20name", "/topics/%00", "/topics/" + 300 * "a")
    folders = ("/storage/0/nothing-0", "/storage/0/orders-0/7", "/storage/0/__cluster_metadata-0")
    for path in (*topics, "/groups/nothing", "/groups/%00", *folders, "/storage/0/orders-0/0/batch/1"):
        answer = console.ask(path)
        assert (path, answer.status) == (path, 404)
        assert "<h1>" in answer.text


def test_reading_creates_no_group() -> None:
    """The console commits nothing, and its pages do not create __consumer_offsets."""
    with Broker({"console.listeners": "http://127.0.0.1:0"}) as other:
        other.create_topic("only")
        console = Console(other)
        for path in ("/", "/topics", "/topics/only", "/topics/only/messages", "/groups", "/storage"):
            console.page(path)
        assert "__consumer_offsets" not in console.page("/topics")
        producer = Producer({"bootstrap.servers": other.bootstrap_servers})
        producer.produce("only", "value")
        assert producer.flush(PATIENCE_S) == 0
        assert '<pre tabindex="0">value</pre>' in console.page("/topics/only/messages")
        assert "There are no groups." in console.page("/groups")


def test_rates_have_the_names_of_the_charts(console: Console) -> None:
    samples = set(re.findall(r'data-(?:sample|per)="(\w{7,})"', console.page("/")))
    rates = console.ask("/rates.json")
    assert rates.headers["content-type"] == "application/json"
    assert set(re.findall(r'"(\w+)": ?[\d.]+', rates.text)) - {"at"} == samples


def test_unknown_host_names_are_rejected(console: Console) -> None:
    """Prevents DNS rebinding: another site's name that now resolves to 127.0.0.1."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example"):
        answer = console.ask("/topics/orders/messages", headers={"host": host})
        assert (answer.status, "alert" in answer.text) == (421, False)
    assert console.ask("/topics", headers={"host": "localhost:1"}).status == 200


def test_broker_logs_a_console_that_dies() -> None:
    """The broker runs on without it. A broker that is killed ends its console."""
    with Broker({"console.listeners": "http://127.0.0.1:0"}) as other:
        first = Console(other)
        first.page("/")
        os.kill(first.pid, signal.SIGKILL)
        eventually(lambda: "The console has ended with code -9; the broker goes on without it" in other.log, other.log)
        other.create_topic("afterwards")
        other.restart()
        second = Console(other)
        second.page("/")
        pid = second.pid
        other.kill()
        eventually(lambda: not is_alive(pid), "the console outlives its broker")


def test_console_ends_quietly_with_its_broker() -> None:
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


def test_port_in_use_leaves_no_other_port_open() -> None:
    """An unavailable port stops the start of the broker."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotBind, match="the port is in use"):
            StartedConsole([("127.0.0.1", 0), ("127.0.0.1", port)])
    free = StartedConsole([("127.0.0.1", port)])
    assert free.urls == [f"http://127.0.0.1:{port}"]
    free.close()


def test_broker_without_console_has_no_process_of_it() -> None:
    """It does not import the console's modules either."""
    script = (
        "import sys; from pybroker.engine_process import enter; enter(); import broker.main, broker.broker; "
        "print(*sorted({each.partition('.')[0] for each in sys.modules}))"
    )
    names = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True).stdout
    assert {"console", "starlette", "uvicorn", "jinja2", "confluent_kafka"} & set(names.split()) == set()
    with Broker() as broker:
        children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text()
        assert children == ""
        assert "console" not in broker.log
