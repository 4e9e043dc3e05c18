"""`pybroker perf`, `top`, `conformance`, and options of other commands: formats, filters, profiles."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.testing import Broker
from tests.support.http_server import http_server
from tests.support.shell import Shell, on_terminal
from tools.wire.conformance import command as conformance


class Schemas(BaseHTTPRequestHandler):
    """A schema registry with one schema."""

    def do_GET(self) -> None:
        body = json.dumps({"schema": '["null", "string"]'}).encode()
        self.send_response(200 if self.path == "/schemas/ids/9" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def registry() -> Iterator[str]:
    with http_server(Schemas) as address:
        yield address


def test_perf_prints_figures(sh: Shell, tmp_path: Path) -> None:
    """In lines as those of Kafka's tools, and as JSON."""
    sh.good("topics", "create", "load")
    many = ("--topic", "load", "--num-records")
    line = r"500 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), .* ms max latency, \d+ ms 50th, .* ms 99.9th\.\n"
    assert re.fullmatch(line, sh.good("perf", "produce", *many, "500", "--record-size", "10").out)
    (tmp_path / "lines").write_text("a\nbc\n")
    file = ("--payload-file", str(tmp_path / "lines"))
    (row,) = sh.good("perf", "produce", *many, "4", *file, "--throughput", "1e4", "--json").rows
    assert (row["records"], row["bytes"]) == (4, 6)
    headings, figures = sh.good("perf", "consume", *many, "504").out.splitlines()
    assert len(headings.split(", ")) == len(figures.split(", ")) == 10
    (row,) = sh.good("perf", "consume", "--topic", "load", "--messages", "504", "--json").rows
    assert (row["records"], row["bytes"]) == (504, 5006)
    (row,) = sh.good("perf", "end-to-end", *many, "3", "--json").rows
    assert row["records"] == 3


def test_perf_produces_in_transactions(sh: Shell) -> None:
    """Each is committed after some time: readers of committed records see all."""
    sh.good("topics", "create", "sold")
    load = ("--topic", "sold", "--num-records", "40", "--throughput", "200")
    sh.good("perf", "produce", *load, "--transactional-id", "till", "--transaction-duration-ms", "50")
    sh.good("perf", "produce", *load, "-X", "transactional.id=other")
    sh.good("perf", "produce", *load, "--transaction-duration-ms", "50")

    read = sh.good(
        "consume", "sold", "--from-beginning", "--until-end", "--isolation-level", "read_committed", "--json"
    )
    assert len(read.rows) == 120
    assert int(read.rows[-1]["offset"]) >= 119 + 5  # markers between the records
    names = {str(row["transactional_id"]) for row in sh.good("transactions", "list", "--json").rows}
    assert {"till", "other"} < names
    assert any(name.startswith("performance-producer-") for name in names)
    assert sh("perf", "produce", *load, "--transactional-id", "till", "-X", "acks=1").code == 2


def test_perf_consumes_topics_by_pattern(sh: Shell) -> None:
    for topic in ("eur-1", "eur-2", "usd-1"):
        sh.good("topics", "create", topic)
        sh.good("perf", "produce", "--topic", topic, "--num-records", "30")
    line = sh.good("perf", "consume", "--include", "eur-.*", "--num-records", "60", "--hide-header").out
    assert line.split(", ")[4] == "60"
    fewer = ("perf", "consume", "--include", "eur-.*", "--num-records", "61", "--idle", "1.5")
    for words, code in ((fewer, 1), ((*fewer, "--allow-fewer"), 0)):
        done = sh(*words)
        assert (done.code, "60 of 61" in done.err) == (code, True)


def test_perf_prints_a_line_for_each_interval(sh: Shell) -> None:
    sh.good("topics", "create", "slow")
    sh.good("perf", "produce", "--topic", "slow", "--num-records", "30")
    words = ("--topic", "slow", "--num-records", "30", "--show-detailed-stats", "--date-format", "HH:mm")
    headings, *lines = sh.good("perf", "consume", *words, "--reporting-interval", "1").out.splitlines()
    assert headings.startswith("time, threadId, ")
    assert len(headings.split(", ")) == 10
    assert all(re.fullmatch(r"\d\d:\d\d, 0(, [\d.]+){8}", line) for line in lines)
    assert lines[-1].split(", ")[4] == "30"


def test_top_shows_topic_sizes_and_group_lag(sh: Shell, broker: Broker) -> None:
    sh.good("topics", "create", "seen", "--partitions", "2")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(3):
        producer.produce("seen", str(number), partition=0)
    assert producer.flush(60) == 0
    sh.good("consume", "seen", "--group", "slow", "--from-beginning", "--max-messages", "1")
    (row,) = sh.good("top", "--once", "--interval", "0.05", "--json").rows
    topics, groups = row["topics"], row["groups"]
    assert isinstance(topics, list)
    assert isinstance(groups, list)
    seen = {"topic": "seen", "partitions": 2, "records": 3, "records_per_s": 0.0, "lag": 2}
    assert next(each for each in topics if each["topic"] == "seen") == seen
    assert next(each for each in groups if each["group"] == "slow")["lag"] == 2
    expected = sh.good("top", "--count", "2", "--interval", "0.05", "--sort", "name").out
    assert expected.count("TOPIC ") == 2
    assert "\x1b" not in expected


@pytest.mark.parametrize("columns", [40, 60])
def test_top_keeps_figures_on_a_narrow_terminal(broker: Broker, columns: int) -> None:
    """Long topic names are cut instead."""
    broker.create_topic(f"{columns}-" + 8 * "long-name-")
    words = ["top", "--count", "1", "--interval", "0.05", "--bootstrap-server", broker.bootstrap_servers]
    screen = on_terminal([sys.executable, "-m", "pybroker", *words], columns=columns).decode().splitlines()
    rows = [line for line in screen if line.startswith(f"{columns}-long-name")]
    assert len(rows) == 1
    assert re.search(r"\.\. .*\b0\.0 .*0$", rows[0])
    assert max(map(len, screen[1:])) <= columns
    assert "records/s" in screen[0][:40]


def test_filters_select_records(sh: Shell, broker: Broker) -> None:
    """`--max-messages` counts the records that pass the filter."""
    sh.good("topics", "create", "sieved")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(20):
        producer.produce("sieved", f"v{number}", f"k{number % 2}", headers={"n": str(number)})
    assert producer.flush(60) == 0
    read = ("consume", "sieved", "--from-beginning", "--filter", "key=1")
    assert sh.good(*read, "--filter", "header.n=^1", "--until-end").out.split() == [
        "v1",
        "v11",
        "v13",
        "v15",
        "v17",
        "v19",
    ]
    assert sh.good(*read, "--max-messages", "2").out.split() == ["v1", "v3"]
    assert sh.good(*read, "--group", "sieve", "--max-messages", "1").out.split() == ["v1"]
    assert sh.good("consume", "sieved", "--group", "sieve", "--max-messages", "1").out.split() == ["v2"]


def test_values_with_a_schema_are_decoded(sh: Shell, broker: Broker, registry: str) -> None:
    """In formats and in JSON. Other values are printed as they are."""
    sh.good("topics", "create", "typed")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in (b"\0\0\0\0\x09\x02\x02a", b"plain", b"\0\0\0\0\x09\0"):
        producer.produce("typed", value)
    assert producer.flush(60) == 0
    read = ("consume", "typed", "--until-end", "--schema-registry", registry)
    assert sh.good(*read, "--from-beginning", "--format", "%v").out == '"a"\nplain\nnull\n'
    assert [row["value"] for row in sh.good(*read, "--from-beginning", "--json").rows] == ["a", "plain", None]
    producer.produce("typed", b"\0\0\0\0\x08x")
    assert producer.flush(60) == 0
    done = sh(*read, "--offset", "3")
    assert (done.code, done.out, done.err) == (
        0,
        "\0\0\0\0\x08x\n",
        f"{registry}/schemas/ids/8: 404 Not Found: such values are shown as they are\n",
    )


def test_profile_gives_the_address(
    broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Options of the command line have priority."""
    from pybroker.cli.cluster import main

    (tmp_path / "profiles.toml").write_text(f'[near]\nbootstrap-server = "{broker.bootstrap_servers}"\n')
    monkeypatch.setenv("PYBROKER_PROFILES", str(tmp_path / "profiles.toml"))
    assert main(["id", "--profile", "near"]) == 0
    assert main(["id", "--profile", "near", "--bootstrap-server", "127.0.0.1:1", "--timeout", "5"]) == 1
    assert main(["id", "--profile", "far"]) == 2
    assert "unknown profile far; known: near" in capsys.readouterr().err


def test_conformance_finds_nothing_wrong_with_ours(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints one result for each version of each API."""
    server = ["--bootstrap-server", broker.bootstrap_servers]
    assert conformance.main([*server, "--json"]) == 0
    *cards, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert summary["wrong"] == 0
    assert summary["ok"] > 200
    assert {"type": "card", "api": "Fetch", "key": 1, "version": 18, "result": "ok", "why": ""} in cards
    assert conformance.main([*server, "--api", "Metadata"]) == 0
    assert capsys.readouterr().out == "  3  Metadata                      v0-13    ok\n\n14 ok, 0 wrong, 0 not asked\n"


def test_conformance_finds_wrong_responses(
    broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stubs raise the latest offset by one and accept an unknown member."""
    from protocol.messages.join_group import JOIN_GROUP
    from protocol.messages.list_offsets import LIST_OFFSETS
    from protocol.schema import Api, Struct
    from tools.wire.conformance.stage import Stage

    ask = Stage.ask

    def wrong_response(stage: Stage, api: Api, version: int, *rest: object) -> Struct:
        answer = ask(stage, api, version, *rest)  # type: ignore[arg-type]
        if api is LIST_OFFSETS and version == 5:
            answer.topics[0].partitions[0].offset += 1
        if api is JOIN_GROUP:
            answer.error_code = 0
        return answer

    monkeypatch.setattr(Stage, "ask", wrong_response)
    only = ["--api", "ListOffsets", "--api", "JoinGroup"]
    assert conformance.main(["--bootstrap-server", broker.bootstrap_servers, *only]) == 1
    out = capsys.readouterr().out
    assert " 2  ListOffsets                   v5       WRONG      the latest offset is 1, not 0\n" in out
    assert "11  JoinGroup                     v0-9     WRONG      no error, but UNKNOWN_MEMBER_ID is expected\n" in out


def test_conformance_needs_create_topics_and_metadata(
    broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without CreateTopics, or with empty Metadata, it prints one line and exits with code 2."""
    from protocol.api_keys import ApiKey
    from protocol.messages.metadata import METADATA
    from protocol.schema import Api, Struct
    from tools.wire.conformance.stage import Stage

    init, ask = Stage.__init__, Stage.ask

    def without(stage: Stage, *rest: object) -> None:
        init(stage, *rest)  # type: ignore[arg-type]
        stage.versions[ApiKey.CREATE_TOPICS] = range(-1, 0)

    def empty(stage: Stage, api: Api, version: int, *rest: object) -> Struct:
        answer = ask(stage, api, version, *rest)  # type: ignore[arg-type]
        if api is METADATA:
            answer.topics = []
        return answer

    server = ["--bootstrap-server", broker.bootstrap_servers, "--timeout", "3"]
    with monkeypatch.context() as patch:
        patch.setattr(Stage, "__init__", without)
        assert conformance.main(server) == 2
    expected = "pybroker conformance: the broker has no version of CreateTopics that is known here\n"
    assert capsys.readouterr().err == expected
    monkeypatch.setattr(Stage, "ask", empty)
    assert conformance.main(server) == 2
    assert capsys.readouterr().err.startswith("pybroker conformance: an answer lacks what was asked for: IndexError")


def test_conformance_without_a_broker_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing listens, or a program that is no broker. One line, exit code 2."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        for address in ("127.0.0.1:1", f"127.0.0.1:{other.getsockname()[1]}"):
            assert conformance.main(["--bootstrap-server", address, "--timeout", "0.2"]) == 2
            assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit) as ended:
        conformance.main(["--api", "Fech"])
    assert ended.value.code == 2


def test_produce_has_common_options(
    sh: Shell, broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A profile, a properties file, and JSON output."""
    from pybroker.cli.produce import main

    (tmp_path / "profiles.toml").write_text(f'[near]\nbootstrap-server = "{broker.bootstrap_servers}"\n')
    (tmp_path / "client.properties").write_text("compression.type=lz4\n")
    (tmp_path / "lines").write_text("a\nb\n")
    monkeypatch.setenv("PYBROKER_PROFILES", str(tmp_path / "profiles.toml"))
    sh.good("topics", "create", "sent")
    capsys.readouterr()
    words = ["--topic", "sent", "--profile", "near", "--command-config", str(tmp_path / "client.properties"), "--json"]
    assert main([*words, str(tmp_path / "lines")]) == 0
    assert capsys.readouterr() == ('{"topic": "sent", "lines": 2}\n', "")
    assert main(["--topic", "sent", "--profile", "far"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
