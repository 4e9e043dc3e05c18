"""`pybroker consume`: start and end positions, output of a record, and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from protocol.records.builder import BatchBuilder
from pybroker.testing import Broker
from tests.support.brokers import OurBroker
from tests.support.data_client import DataClient
from tests.support.producing import patched
from tests.support.shell import Done, Shell, write


def test_consume_starts_at_offset_or_time(sh: Shell, broker: Broker) -> None:
    """From the beginning, an offset or a time; one partition; to the end, or a number of records."""
    broker.create_topic("read", partitions=2)
    write(broker, "read", *((0, f"a{n}", 1_700_000_000_000 + n * 1000) for n in range(5)), (1, "b", 1_700_000_002_000))
    end = ("--until-end", "--format", "%p:%o=%v ")

    def read(*options: str) -> list[str]:
        return sorted(sh.good("consume", "read", *end, *options).out.split())

    assert read("--from-beginning") == ["0:0=a0", "0:1=a1", "0:2=a2", "0:3=a3", "0:4=a4", "1:0=b"]
    assert read("--offset", "3") == ["0:3=a3", "0:4=a4"]
    assert read("--offset", "-1") == ["0:4=a4", "1:0=b"]
    assert read("--from", "@1700000002000") == ["0:2=a2", "0:3=a3", "0:4=a4", "1:0=b"]
    assert read("--from", "2023-11-14T22:13:23+00:00", "--partition", "0") == ["0:3=a3", "0:4=a4"]
    assert read("--from", "-5m") == []
    assert read() == []
    assert read("--from-beginning", "--partition", "0", "--max-messages", "2") == ["0:0=a0", "0:1=a1"]


def test_consume_several_topics(sh: Shell, broker: Broker) -> None:
    """By name, or by a regular expression that the whole name has to match. Internal topics are left out."""
    for topic in ("shop-1", "shop-22", "old-shop-1"):
        broker.create_topic(topic, partitions=2)
        write(broker, topic, (0, "first", 1000), (1, "last", 1000))
    sh.good("consume", "shop-1", "--from-beginning", "--max-messages", "1", "--group", "makes-__consumer_offsets")
    end = ("--until-end", "--from-beginning", "--format", "%t:%p=%v ")

    def read(*options: str) -> list[str]:
        return sorted(sh.good("consume", *end, *options).out.split())

    both = ["shop-1:0=first", "shop-1:1=last", "shop-22:0=first", "shop-22:1=last"]
    assert read("shop-1", "shop-22", "shop-1") == both
    assert read("--topic", "shop-1", "--topic", "shop-22") == both
    assert read("--include", r"shop-\d+") == both
    assert read("--include", r"shop-\d+", "--max-messages", "1") in [[each] for each in both]
    assert read("--include", "(__consumer.*|old-.*)") == ["old-shop-1:0=first", "old-shop-1:1=last"]
    message = "pybroker consume: no topic matches\n"
    assert sh("consume", *end, "--include", "shop") == Done(1, "", message)


def test_consume_shows_a_header_name_that_is_not_utf8(sh: Shell, broker: Broker) -> None:
    """The header is read often enough that the interpreter has optimised that code."""
    broker.create_topic("strange")
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), None, b"value", [("name", b"")])
    strange = patched(builder.build().replace(b"name", b"\xff\xfe\xfd\xfc"), 21, ">h", 0)
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with DataClient(host, int(port)) as client:
        for records in (builder.build(), strange) * 20:
            client.produce("strange", records)
    read = ("consume", "strange", "--from-beginning", "--until-end")
    assert sh.good(*read, "--format", "%h %h").out == "name= name=\n\ufffd= \ufffd=\n" * 20
    headers = [row["headers"] for row in sh.good(*read, "--json").rows]
    assert headers == [[["name", ""]], [["\ufffd", None]]] * 20


def test_consume_ends_behind_a_transaction_marker(sh: Shell, broker: Broker) -> None:
    """A marker is the last entry of the partition but no record. Aborted records are left out if wanted."""
    broker.create_topic("settled")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "settled"})
    producer.init_transactions(60)
    for value, finish in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("settled", value)
        assert producer.flush(60) == 0
        finish(60)
    whole = ("consume", "settled", "--from-beginning", "--until-end")
    assert sh.good(*whole).out == "kept\ndropped\n"
    assert sh.good(*whole, "--isolation-level", "read_committed").out == "kept\n"


def test_consume_prints_all_fields_of_a_record(sh: Shell, broker: Broker) -> None:
    """With format letters, and as JSON."""
    broker.create_topic("shown")
    write(broker, "shown", (0, "ä", 1_700_000_000_123), headers={"trace": "7"})
    whole = ("consume", "shown", "--from-beginning", "--until-end")
    letters = sh.good(*whole, "--format", r"%t %p %o %k %v %K %S %h %T %D 100%%\n\n")
    assert letters.out == "shown 0 0 k ä 1 2 trace=7 1700000000123 2023-11-14T22:13:20.123Z 100%\n\n"
    assert sh.good(*whole, "--encoding", "hex").out == "c3a4\n"
    in_kafkas_words = ("print.timestamp=true", "print.headers=true", "print.key=true", "key.separator=|")
    properties = [word for each in in_kafkas_words for word in ("--formatter-property", each)]
    message = "Processed a total of 1 messages\n"
    assert sh(*whole, *properties) == Done(0, "CreateTime:1700000000123|trace:7|k|ä\n", message)
    (row,) = sh.good(*whole, "--json").rows
    assert row == {
        "topic": "shown",
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_123,
        "key": "k",
        "value": "ä",
        "headers": [["trace", "7"]],
    }


def consuming(broker: Broker, *options: str, stdout: int, before: str = "") -> subprocess.Popen[str]:
    """Start the command as a process; `before` is Python code that runs first."""
    words = ["consume", *options, "--from-beginning", "--bootstrap-server", broker.bootstrap_servers]
    command = [sys.executable, "-c", f"{before}\nfrom pybroker.cli.main import main; main()", *words]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_consume_ends_at_sigterm_without_error(broker: Broker) -> None:
    """SIGTERM has the effect of Ctrl-C."""
    topic = "going"
    broker.create_topic(topic)
    write(broker, topic, (0, "first", 1000))
    with consuming(broker, topic, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        write(broker, topic, (0, "second", 1000))
        assert process.stdout.readline() == "second\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_consume_ends_quietly_when_its_pipe_closes(broker: Broker) -> None:
    """As with `| head`: no traceback and no message."""
    broker.create_topic("long")
    write(broker, "long", *((0, "x" * 1000, 1000) for _ in range(300)))
    reading, writing = os.pipe()
    with consuming(broker, "long", "--until-end", stdout=writing) as process:
        os.close(writing)
        assert os.read(reading, 100)
        os.close(reading)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_consume_notices_a_closed_pipe_without_records(broker: Broker) -> None:
    """The shell waits for all processes of a pipe, so consume must not wait for the next record."""
    broker.create_topic("quiet")
    write(broker, "quiet", (0, "first", 1000))
    with consuming(broker, "quiet", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


@pytest.mark.parametrize("group", [(), ("--group", "later")])
def test_consume_follows_created_and_deleted_topics(broker: Broker, group: tuple[str, ...]) -> None:
    """New topics that match are read from their beginning. Deleted ones are no error."""
    name = f"late{len(group)}"
    administration = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def make(topic: str) -> None:
        broker.create_topic(f"{name}-{topic}")
        write(broker, f"{name}-{topic}", (0, topic, 1000))

    make("old")
    line = ("--include", f"{name}-.*", "--idle", "30", *group)
    often = "from pybroker.cli.client import reading; reading.LOOK_EVERY_S = 0.1"
    with consuming(broker, *line, stdout=subprocess.PIPE, before=often) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "old\n"
        make("new")
        assert process.stdout.readline() == "new\n"
        administration.delete_topics([f"{name}-old"])[f"{name}-old"].result(60)
        make("newer")
        assert process.stdout.readline() == "newer\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_consume_reads_the_other_partitions_of_an_offline_one(tmp_path: Path, sh: Shell) -> None:
    """Then it names the partition. A command that reports nothing would look like an empty topic."""
    directories = [tmp_path / "one", tmp_path / "two"]
    properties = {"log.dirs": ",".join(map(str, directories)), "num.partitions": "2"}
    broker = OurBroker(tmp_path / "broker", properties)
    try:
        server = f"127.0.0.1:{broker.port}"
        producer = Producer({"bootstrap.servers": server})
        for partition in (0, 1):
            producer.produce("half", f"p{partition}", partition=partition)
        assert producer.flush(60) == 0
        broker.stop()
        [lost] = directories[1].glob("half-?")
        shutil.rmtree(directories[1])
        directories[1].write_text("not a directory")
        broker.start()

        left = 1 - int(lost.name[-1])
        done = sh("consume", "half", "--from-beginning", "--until-end", server=server)
        message = f"pybroker consume: partitions without a leader were not read to their end: {lost.name}\n"
        assert done == Done(1, f"p{left}\n", message)
        whole = ("consume", "half", "--from-beginning", "--until-end", "--partition", str(left))
        assert sh(*whole, server=server) == Done(0, f"p{left}\n", "")
    finally:
        broker.stop()
