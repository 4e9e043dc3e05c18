"""Forms of the web console that change things, its filter, its tail of a topic, its transactions and its log."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from pybroker.testing import Broker
from tests.support.console_visitor import PATIENCE_S, Console, Forms
from tests.support.eventually import eventually

HOSTILE = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    """The console of a broker with a topic of four records."""
    with Broker({"console.listeners": "http://127.0.0.1:0", "num.partitions": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number, key in enumerate(("text", "binary", "tombstone", "json")):
            producer.produce("orders", b"value", key, timestamp=1_700_000_000_000 + 1000 * number)
        assert producer.flush(PATIENCE_S) == 0
        yield Console(broker)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
def test_forms_of_other_sites_are_rejected(console: Console, origin: str | None) -> None:
    """A browser may send another site's form, but without the token of our page."""
    headers = {"content-type": "application/x-www-form-urlencoded", **({"origin": origin} if origin else {})}
    for path in (
        "/topics",
        "/topics/orders/delete",
        "/topics/orders/settings",
        "/topics/orders/messages",
        "/groups/any",
    ):
        assert console.ask(path, "POST", headers).status == 403
        for method in ("PUT", "DELETE"):
            assert console.ask(path, method, headers).status == 405
    assert "access-control-allow-origin" not in console.ask("/topics", headers=headers).headers


def test_topic_forms_create_alter_fill_and_delete(console: Console) -> None:
    """Errors of the broker appear in its own words."""
    forms = Forms(console)
    answer = forms.send(
        "/topics", name="formed", partitions="2", settings="cleanup.policy=compact\r\nretention.ms=1000"
    )
    assert (answer.status, answer.headers["location"]) == (303, "/topics/formed?done=made")
    page = console.page("/topics/formed?done=made&edit=retention.ms")
    assert "The topic was created." in page
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
    rendered = console.page(sent.headers["location"])
    assert "two\nlines" in rendered
    assert "<dt>a</dt>" in rendered
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


def test_group_form_resets_offsets_and_deletes(console: Console) -> None:
    """It works only while the group has no members."""
    forms = Forms(console)
    server = {"bootstrap.servers": console.broker.bootstrap_servers}
    consumer = Consumer({**server, "group.id": "moved", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    eventually(lambda: (record := consumer.poll(1)) is not None and record.error() is None, "no record")
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


def test_messages_are_filtered_and_avro_is_decoded(console: Console) -> None:
    """The schema of Avro values is a field of the form."""
    found = console.page("/topics/orders/messages?word=BINARY")
    assert re.findall(r'<th scope="row">(\d+)</th>', found) == ["1"]
    assert "4 records from offset 0 on were looked at" in found
    console.broker.create_topic("avro")
    producer = Producer({"bootstrap.servers": console.broker.bootstrap_servers})
    producer.produce("avro", b"\0\0\0\0\1\x06foo")
    producer.produce("avro", b"\x7f")
    assert producer.flush(PATIENCE_S) == 0
    rendered = console.page("/topics/avro/messages?form=avro&schema=string")
    assert '<pre tabindex="0">&#34;foo&#34;</pre>' in rendered
    assert "not an Avro value of this schema: truncated: expected -64 bytes at 1, the data has 1" in rendered
    assert console.ask("/topics/avro/messages?form=avro&schema=%7B").status == 400


def next_event_id(answer: http.client.HTTPResponse) -> str:
    """Return the id of the next event of the stream."""
    while not (line := answer.readline()).startswith(b"id:"):
        assert line
    return line.split()[1].decode()


def test_reconnected_tail_misses_no_record(console: Console) -> None:
    """A stream sends its start offset at once, so it can resume even if it ended before the first record."""
    console.broker.create_topic("silent")

    def follow(**headers: str) -> tuple[str, http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(*console.address, timeout=PATIENCE_S)
        connection.request("GET", "/topics/silent/tail", headers=headers)
        answer = connection.getresponse()
        return next_event_id(answer), connection, answer

    last, connection, _ = follow()
    connection.close()
    producer = Producer({"bootstrap.servers": console.broker.bootstrap_servers})
    producer.produce("silent", "meanwhile")
    assert producer.flush(PATIENCE_S) == 0
    again, connection, answer = follow(**{"last-event-id": last})
    assert (last, again, next_event_id(answer)) == ("-1", "-1", "0")
    connection.close()


def test_tails_are_limited(console: Console) -> None:
    """Each has a consumer. A connection that closes frees its place."""
    address = console.address
    path = "/topics/orders/tail?offset=1"
    assert console.ask("/topics/nothing/tail").status == 404
    assert console.ask("/topics/orders/tail?partition=9").status == 404
    connections = []
    try:
        for _ in range(8):
            connection = http.client.HTTPConnection(*address, timeout=PATIENCE_S)
            connections.append(connection)
            connection.request("GET", path, headers={"last-event-id": "1"})
            answer = connection.getresponse()
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert [next_event_id(answer), next_event_id(answer)] == ["1", "2"]
        assert console.ask(path).status == 429
    finally:
        for each in connections:
            each.close()

    def has_room() -> bool:
        connection = http.client.HTTPConnection(*address, timeout=PATIENCE_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        finally:
            connection.close()

    eventually(has_room, "there is no room again")


def test_transactions_and_log_are_shown(console: Console) -> None:
    """The transactions page shows a producer id and an open transaction, with hostile names escaped."""
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


def test_read_only_console_has_no_forms() -> None:
    """It rejects requests that change anything."""
    with Broker({"console.listeners": "http://127.0.0.1:0", "console.read.only": True}) as other:
        console = Console(other)
        page = console.page("/topics")
        assert "read only" in page
        assert 'method="post"' not in page
        access = console.page("/access")
        assert 'method="post"' not in access
        for path in ("/topics", "/access/acls", "/access/users", "/access/users/remove", "/access/quotas"):
            answer = console.ask(path, "POST", {"content-type": "application/x-www-form-urlencoded"}, "name=x")
            assert (path, answer.status) == (path, 405)
