"""Client metrics in `pybroker client-metrics`, in the broker's endpoint and on the web console."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker.testing import Broker
from tests.support.console_visitor import Console, Forms
from tests.support.eventually import eventually
from tests.support.shell import Shell
from tests.support.telemetry import Pusher, counter, gauge, point, report
from tests.support.wire import WireClient

ANY_PORT = "http://127.0.0.1:0"
HOSTILE = "<img src=x onerror=alert(1)>"
NAME = "<b>&'"


pytestmark = pytest.mark.broker(Broker, {"metrics.listeners": ANY_PORT, "console.listeners": ANY_PORT})


@pytest.fixture(scope="module")
def url(broker: Broker) -> str:
    """The URL of the broker's metrics."""
    (found,) = re.findall(r"Metrics are at (http://\S+)/metrics", broker.log)
    return str(found)


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    host, _, port = broker.bootstrap_servers.partition(":")
    with WireClient(host, int(port), client_id="till-1") as connected:
        yield connected


def test_subscription_is_created_altered_and_deleted(sh: Shell) -> None:
    """With pybroker's options and with Kafka's."""
    made = sh.good(
        "client-metrics", "alter", "shop", "--metrics", "a.,b.", "--match", "client_id=x", "--interval", "500"
    )
    assert made.out == "shop: metrics=a.,b.\nshop: interval.ms=500\nshop: match=client_id=x\n"
    row = {"name": "shop", "metrics": "a.,b.", "interval_ms": "500", "match": "client_id=x"}
    assert sh.good("client-metrics", "list", "--json").rows == [row]
    sh.good("client-metrics", "--alter", "--name", "shop", "--metrics", "c.", "--metrics", "d.", "--interval", "")
    assert sh.good("client-metrics", "--describe", "--name", "shop", "--json").rows == [
        {"name": "shop", "key": "interval.ms", "value": "300000", "source": "default"},
        {"name": "shop", "key": "match", "value": "client_id=x", "source": "client_metrics"},
        {"name": "shop", "key": "metrics", "value": "c.,d.", "source": "client_metrics"},
    ]
    (generated,) = sh.good("client-metrics", "alter", "--generate-name", "--metrics", "*", "--json").rows
    assert len(str(generated["name"])) == 22
    assert sh.good("client-metrics", "delete", str(generated["name"])).out == f"deleted {generated['name']}\n"
    sh.good("client-metrics", "delete", "shop")
    assert sh.good("client-metrics", "list").out == ""


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("alter shop", 2, "client-metrics: nothing to change"),
        ("alter --metrics a.", 2, "client-metrics: which subscription?"),
        ("alter shop --generate-name --metrics a.", 2, "client-metrics: --generate-name is for one without a name"),
        ("alter shop --interval 10", 1, "client-metrics: shop: "),
        ("alter shop --metrics a. --match colour=red", 1, "client-metrics: shop: "),
        ("delete nobodys", 1, "client-metrics: there is no subscription nobodys"),
        ("describe nobodys", 1, "client-metrics: there is no subscription nobodys"),
        ("clients --from localhost:1", 2, "client-metrics: --from: 'localhost:1' is not a URL"),
        ("clients --from http://127.0.0.1:1", 1, "client-metrics: http://127.0.0.1:1/clients: "),
        ("clients --from {url} --id none", 1, "client-metrics: {url}/clients: 400 id= is a client's instance id"),
        ("clients --from {url} --id AQEBAQEBAQEBAQEBAQEBAQ", 1, "client-metrics: there is no client AQEB"),
    ],
)
def test_errors_are_one_line(sh: Shell, url: str, line: str, code: int, message: str) -> None:
    """The exit code is 2 for a bad command line, 1 for an error of the broker."""
    done = sh("client-metrics", *line.format(url=url).split())
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert done.err.startswith(f"pybroker {message}".format(url=url))


def test_clients_command_shows_pushed_metrics(sh: Shell, url: str, client: WireClient) -> None:
    """A client is listed from its first request until some time after it disconnects."""
    sh.good("client-metrics", "alter", "tills", "--metrics", "*", "--interval", "100", "--match", "client_id=till-.*")
    before_ms = time.time_ns() // 1_000_000
    pusher = Pusher(client)

    def row() -> dict[str, Any]:
        """Return the client's row without its address."""
        (found,) = (
            each
            for each in sh.good("client-metrics", "clients", "--from", url, "--json").rows
            if each["instance_id"] == pusher.instance_id
        )
        assert str(found.pop("address")).startswith("127.0.0.1:")
        return found

    subscribed = {
        "client_id": "till-1",
        "instance_id": pusher.instance_id,
        "software": "unknown unknown",
        "connected": True,
        "subscriptions": ["tills"],
        "pushed": None,
        "numbers": 0,
        "last_answer": "NONE",
    }
    assert row() == subscribed
    pusher.push(
        report(gauge("org.apache.kafka.g", point(1.5, node_id="7"), point(float("inf"))), counter("sold", point(2)))
    )
    pushed = row()
    assert str(pushed.pop("pushed")) >= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(before_ms // 1000))
    assert pushed == {key: value for key, value in {**subscribed, "numbers": 3}.items() if key != "pushed"}
    numbers = sh.good("client-metrics", "clients", "--from", url, "--id", pusher.instance_id, "--json").rows
    assert numbers == [
        {"metric": "org.apache.kafka.g", "labels": {"node_id": "7"}, "value": 1.5},
        {"metric": "org.apache.kafka.g", "labels": {}, "value": None},
        {"metric": "sold", "labels": {}, "value": 2.0},
    ]
    pusher.push(b"no metrics")
    assert (row()["last_answer"], row()["numbers"]) == ("INVALID_RECORD", 3)

    sh.good("client-metrics", "alter", "tills", "--metrics", "a.")
    assert Pusher(client, pusher.id).metrics == ["a."]  # the client has pushed before
    assert row()["pushed"] is not None
    client.close()
    eventually(lambda: not row()["connected"])
    assert row()["numbers"] == 3
    sh.good("client-metrics", "delete", "tills")


def test_clients_endpoint_returns_json(url: str) -> None:
    """A malformed instance id is a bad request."""
    with urllib.request.urlopen(f"{url}/clients", timeout=60) as answer:
        assert answer.headers["content-type"] == "application/json"
        assert isinstance(json.loads(answer.read())["clients"], list)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"{url}/clients?id=%C3%A9", timeout=60)


def test_console_shows_clients_and_edits_subscriptions(broker: Broker, client: WireClient) -> None:
    """Names that clients choose are escaped. The console asks before it removes a subscription."""
    console = Console(broker)
    forms = Forms(console)
    answer = forms.send("/clients", name=NAME, metrics="*", interval="100", match="client_id=till-.*")
    assert (answer.status, answer.headers["location"]) == (303, "/clients?done=subscribed")
    pusher = Pusher(client)
    pusher.push(report(gauge(HOSTILE, point(1234.5, topic=HOSTILE))))
    text = console.page("/clients")
    assert NAME not in text
    assert f'href="/clients/{pusher.instance_id}"' in text
    assert "client_id=till-.*" in text
    one = console.page(f"/clients/{pusher.instance_id}")
    assert HOSTILE not in one
    assert "1,234.5" in one
    assert console.ask("/clients/AQEBAQEBAQEBAQEBAQEBAQ").status == 404
    assert console.ask("/clients/none").status == 404
    for fields, status in (
        ({"name": ""}, 400),
        ({"name": "x" * 1001}, 400),
        ({"name": "short", "metrics": "*", "interval": "10"}, 409),
    ):
        assert forms.send("/clients", **fields).status == status
    question = console.page("/clients/remove?name=%3Cb%3E%26%27")
    assert "Remove this subscription?" in question
    assert forms.send("/clients/remove", name=NAME).headers["location"] == "/clients?done=unsubscribed"
    assert "No subscriptions: clients send no metrics." in console.page("/clients")
    assert forms.send("/clients/remove", name=NAME).status == 503
