"""`pybroker produce` against a broker: files and pipes, keys, binary lines, lines that are too large."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually

pytestmark = pytest.mark.broker.with_args(OurBroker)


def command(broker: OurBroker, topic: str, *arguments: object) -> list[str]:
    options = ["--topic", topic, "--bootstrap-server", broker.bootstrap, *map(str, arguments)]
    return [sys.executable, "-m", "pybroker", "produce", *options]


def produce(
    broker: OurBroker, topic: str, *arguments: object, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(broker, topic, *arguments), input=stdin, capture_output=True, timeout=120)


def test_standard_input_is_sent_unchanged(broker: OurBroker) -> None:
    """Empty lines, bytes that are not UTF-8, a last line without a newline."""
    done = produce(broker, "stdin", stdin=b"one\n\n\xff\xfe\x00\r\nlast")

    assert (done.returncode, done.stderr) == (0, b"pybroker produce: 4 lines are in stdin\n")
    with DataClient(HOST, broker.port) as client:
        assert client.values("stdin") == [b"one", b"", b"\xff\xfe\x00\r", b"last"]
        assert [record.key for record in client.read_all("stdin")] == [None] * 4


def test_files_are_sent_with_keys_by_regex(broker: OurBroker, tmp_path: Path) -> None:
    """The key is the first group of the regular expression, or null without a match."""
    (tmp_path / "one").write_bytes(b"user=7 a\nnobody\n")
    (tmp_path / "two").write_bytes(b"user=8 b\n")
    done = produce(broker, "keys", tmp_path / "one", tmp_path / "two", "--key-regex", r"user=(\d+)")

    assert done.returncode == 0
    with DataClient(HOST, broker.port) as client:
        found = [(record.key and bytes(record.key), bytes(record.value or b"")) for record in client.read_all("keys")]
    assert found == [(b"7", b"user=7 a"), (None, b"nobody"), (b"8", b"user=8 b")]


def test_keys_are_split_by_a_separator(broker: OurBroker) -> None:
    """The first separator counts. A line without one has no key."""
    done = produce(broker, "parted", "--key-separator", "::", stdin=b"7::two::apples\nnobody\n::no key\n8::\n")

    assert done.returncode == 0
    with DataClient(HOST, broker.port) as client:
        found = [(record.key, record.value) for record in client.read_all("parted")]
    assert found == [(b"7", b"two::apples"), (None, b"nobody"), (b"", b"no key"), (b"8", b"")]


def test_oversized_line_is_cut_and_reported(broker: OurBroker, tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"short\n" + b"y" * 3_000_000 + b"\nend\n")
    done = produce(broker, "long", path)

    assert done.returncode == 0
    message = f"{path}: the line at byte 6 has 3000000 bytes: sent without its last 2000000\n"
    assert message.encode() in done.stderr
    with DataClient(HOST, broker.port) as client:
        assert [len(value) for value in client.values("long")] == [5, 1_000_000, 3]


def test_follower_skips_only_the_lines_that_are_rejected(broker: OurBroker, tmp_path: Path) -> None:
    """If many small lines make a batch too large, they are sent one by one."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic("small", configs={"max.message.bytes": 2000})
        lines = [b"%d" % number + b"x" * 100 for number in range(300)]
        path = tmp_path / "log"
        path.write_bytes(b"\n".join([*lines[:150], b"z" * 5000, *lines[150:]]) + b"\n")
        follow = ["--follow", path, "--from-beginning", "--position", tmp_path / "position"]
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen(command(broker, "small", *follow), stderr=output)
        try:
            eventually(lambda: lines[-1] in client.values("small"))
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
        assert list(dict.fromkeys(client.values("small"))) == lines
    start = sum(len(line) + 1 for line in lines[:150])
    message = (tmp_path / "output").read_text()
    assert f"{path}: the line at byte {start} is left out: 5000 bytes exceed the limit of small\n" in message


def test_interrupt_prints_how_many_were_sent(broker: OurBroker) -> None:
    """The user of a terminal would not notice lost lines otherwise."""
    line = [*command(broker, "typed"), "-"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        process.stdin.write("one\ntwo\n")
        with DataClient(HOST, broker.port) as client:
            client.create_topic("typed")
            eventually(lambda: client.values("typed"), equal_to=[b"one", b"two"])
        process.send_signal(signal.SIGINT)
        message = process.communicate(timeout=60)[1]
    assert (process.returncode, message) == (130, "pybroker produce: interrupted: 2 lines are acknowledged\n")


def test_rejected_records_are_an_error(broker: OurBroker) -> None:
    with DataClient(HOST, broker.port) as client:
        client.create_topic("tiny", configs={"max.message.bytes": 200})
    done = produce(broker, "tiny", stdin=b"z" * 1000 + b"\n")

    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.startswith(b"pybroker produce: tiny: ")
