"""Addresses of listeners: the same ones are accepted as by Apache Kafka, and clients get the same addresses back.

There is one difference. A listener on all interfaces without an advertised address advertises the address to which the
client connected (config/listeners.py). Apache Kafka advertises the machine's name, or the wildcard address itself,
or refuses 0.0.0.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from config import ConfigError, load
from config.listeners import is_wildcard
from protocol.messages.metadata import METADATA
from tests.support.brokers import BROKERS, RunningBroker
from tests.support.java import JavaRunner
from tests.support.ports import free_port
from tests.support.recorded_answers import RecordedAnswers
from tests.support.wire import WireClient

CONTROLLER = "CONTROLLER://127.0.0.1:9093"
#: The host and port of one listener.
ADDRESSES = [
    *(
        "127.0.0.1:9092",
        ":9092",
        "0.0.0.0:9092",
        "0:9092",
        "[::]:9092",
        "[::0]:9092",
        "[0:0:0:0:0:0:0:0]:9092",
        "::9092",
    ),
    *("[::1]:9092", "::1:9092", "[::ffff:127.0.0.1]:9092", "[::ffff:0.0.0.0]:9092", "[127.0.0.1]:9092", "[]:9092"),
    *("[fe80::1%eth0]:9092", "[fe80::1%lo]:9092", "[fe80::1%]:9092", "[fe80::1%1]:9092", "[fe80::1%25eth0]:9092"),
    *(
        "fe80::1%eth0:9092",
        "127.0.0.1%eth0:9092",
        "[::1:9092",
        "::1]:9092",
        "[[::1]]:9092",
        "[::1]9092",
        "[::1]",
        "::1",
    ),
    *("localhost:9092", "LOCALHOST:9092", "localhost.:9092", "host_name:9092", "host-name.example:9092", "-x:9092"),
    *("a..b:9092", ".:9092", "x.:9092", "hôte:9092", "a b:9092", " localhost:9092", "localhost :9092", "a/b:9092"),
    *("user@host:9092", "a,b:9092", "*:9092", "999.1.1.1:9092", "1.2.3:9092", "0x7f.1:9092", "x" * 300 + ":9092"),
    *("localhost:0", "localhost:-1", "localhost:-0", "localhost:1", "localhost:65535", "localhost:65536", "localhost:"),
    *(
        "localhost",
        "",
        ":",
        "localhost:+1",
        "localhost:007",
        "localhost:9092/",
        "localhost:9092 ",
        "localhost:99999999999",
    ),
    *("localhost:٩٠٩٢", "localhost:9092,", ",localhost:9092", "localhost:9092,localhost:9094"),
]
#: Listeners of two names.
PAIRS = [
    *("A://127.0.0.1:9092,B://[::1]:9092", "A://127.0.0.1:9092,B://127.0.0.2:9092", "A://:9092,B://:9092"),
    *("A://0.0.0.0:9092,B://[::]:9092", "A://0.0.0.0:9092,B://[::1]:9092", "A://localhost:9092,B://[::1]:9092"),
    *("A://127.0.0.1:9092,B://[fe80::1%eth0]:9092", "A://127.0.0.1:0,B://127.0.0.1:0", "A://:9092,A://:9094"),
    *("A://127.0.0.1:9092,B://[::ffff:127.0.0.1]:9092", "a://x:1,A://y:2", "A://x:1,,B://x:2", "A://x:1, B://x:2"),
]


def settings_of(listeners: str, advertised: str | None) -> dict[str, str]:
    names = {"A", "B"} if listeners.startswith(("A", "a")) else {"PLAINTEXT"}
    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": "/nowhere",
        "listeners": f"{listeners},{CONTROLLER}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in (*sorted(names), "CONTROLLER")),
        "inter.broker.listener.name": min(names),
    }
    return settings if advertised is None else {**settings, "advertised.listeners": advertised}


CASES: dict[str, Mapping[str, str]] = {
    **{f"listeners={each}": settings_of(f"PLAINTEXT://{each}", "PLAINTEXT://broker:9092") for each in ADDRESSES},
    **{f"only listeners={each}": settings_of(f"PLAINTEXT://{each}", None) for each in ADDRESSES},
    **{f"advertised={each}": settings_of("PLAINTEXT://127.0.0.1:9092", f"PLAINTEXT://{each}") for each in ADDRESSES},
    **{f"listeners={each}": settings_of(each, "A://broker:9092,B://broker:9094") for each in PAIRS},
    **{f"advertised={each}": settings_of("A://127.0.0.1:9092,B://127.0.0.1:9094", each) for each in PAIRS},
}


def is_accepted(settings: Mapping[str, str]) -> bool:
    try:
        load(overrides=settings)
    except ConfigError:
        return False
    return True


#: Apache Kafka notices these when it opens the port.
LATER = {
    f"{place}localhost:{port}" for place in ("listeners=", "only listeners=", "advertised=") for port in (-1, 65536)
}


def test_the_same_addresses_are_accepted(java: JavaRunner) -> None:
    """A program asks the class that reads Apache Kafka's configuration."""
    asked = "".join(json.dumps(settings) + "\n" for settings in CASES.values())
    done = java.run("Listeners", stdin=asked)
    assert done.exit_code == 0, done.stderr
    refusals = dict(zip(CASES, map(json.loads, done.stdout.splitlines()), strict=True))
    found = {name: refusal for name, refusal in refusals.items() if is_accepted(CASES[name]) == bool(refusal)}
    assert "nonroutable meta-address 0.0.0.0" in found.pop("only listeners=0.0.0.0:9092")
    assert found == dict.fromkeys(LATER, "")


#: By the names of listeners: the address to open, and the one to advertise, if any. `port` is the listener's.
OPENED = {
    "EMPTY": ":port",
    "SIX": "[::]:port",
    "ZEROS": "[0::0]:port",
    "NAME": "localhost:port",
    "UPPER": "LOCALHOST:port",
    "LOOPBACK": "127.0.0.1:port",
    "OTHER": "127.0.0.2:port",
    "LOOPBACK6": "[::1]:port",
    "BARE6": "::1:port",
    "MAPPED": "[::ffff:127.0.0.1]:port",
    "ZONE": "[::1%lo]:port",
    "HALF": "[::1:port",
}
ADVERTISED = {
    "IPV6": "[::1]:port",
    "BARE": "::1:port",
    "LINK": "[fe80::1%eth0]:port",
    "LONG": "[0:0:0:0:0:0:0:1]:port",
    "MAPPED": "[::ffff:10.0.0.1]:port",
    "PROXY": "proxy.example:1",
    "DOT": "broker.:port",
    "UPPER": "BROKER:port",
    "NUMBER": "0x7f.1:port",
    "ZERO": "broker:0",
    "EMPTY": ":port",
    "WILDCARD": "[::]:port",
}


def started(kind: str, home: Path, addresses: Mapping[str, str], advertised: Mapping[str, str]) -> RunningBroker:
    """Start a broker with a listener for each address. Those without an advertised one advertise it."""
    ports = {name: free_port() for name in addresses}

    def entries(of: Mapping[str, str]) -> str:
        return "".join(f",{name}://{each.replace('port', str(ports[name]))}" for name, each in of.items())

    class Listening(BROKERS[kind]):  # type: ignore[misc]
        ports_by_name = ports

        def _own_properties(self) -> dict[str, str]:
            own: dict[str, str] = super()._own_properties()
            own["listeners"] += entries(addresses)
            own.pop("advertised.listeners", None)
            if advertised:
                own["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{self.port}" + entries(advertised)
            names = ("PLAINTEXT", "CONTROLLER", *addresses)
            own["listener.security.protocol.map"] = ",".join(f"{name}:PLAINTEXT" for name in names)
            own["inter.broker.listener.name"] = "PLAINTEXT"
            return own

    broker: RunningBroker = Listening(home)
    return broker


def answers(broker: RunningBroker) -> dict[str, dict[str, str | None]]:
    """Return what each listener answers to clients of 127.0.0.1 and ::1: its address, or None if none is there."""
    found: dict[str, dict[str, str | None]] = {}
    for name, port in broker.ports_by_name.items():  # type: ignore[attr-defined]
        found[name] = {}
        for loopback in ("127.0.0.1", "::1"):
            try:
                with WireClient(loopback, port) as client:
                    [node] = client.call(METADATA, 12, topics=[]).brokers
            except OSError:
                found[name][loopback] = None
            else:
                found[name][loopback] = f"{node.host} {'port' if node.port == port else node.port}"
    return found


@pytest.mark.parametrize("case", ["opened", "advertised"])
def test_clients_get_the_same_addresses(case: str, tmp_path: Path, recorded: RecordedAnswers) -> None:
    """Each listener is asked by both families."""
    opened, advertised = OPENED, {}
    if case == "advertised":
        opened, advertised = dict.fromkeys(ADVERTISED, "127.0.0.1:port"), ADVERTISED

    def ask(kind: str) -> dict[str, dict[str, str | None]]:
        with started(kind, tmp_path / kind, opened, advertised) as broker:
            return answers(broker)

    kafka = recorded.of(case, lambda: ask("kafka"))
    ours = ask("ours")
    for name in opened:
        address = (advertised or opened)[name]
        if is_wildcard(address.rpartition(":")[0].strip("[]")):
            assert [where for where, answer in ours[name].items() if answer] == [
                where for where, answer in kafka[name].items() if answer
            ]
            assert ours[name].items() <= {("127.0.0.1", "localhost port"), ("::1", "::1 port"), ("::1", None)}
        else:
            assert ours[name] == kafka[name], name
