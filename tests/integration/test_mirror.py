"""`pybroker mirror` between two brokers of ours: interrupted runs, followed topics, and copies that it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from threading import Timer

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from pybroker.mirror.gaps import Markers
from pybroker.testing import Broker
from tests.support.eventually import eventually
from tests.support.shell import Done, Shell

_LIMIT_S = 60


#: Retention would remove records of 2023 at its first check, and a copy without records cannot be compared.
_KEPT = {"log.retention.ms": -1}


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker(_KEPT) as running:
        yield running


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker(_KEPT) as running:
        yield running


@pytest.fixture
def sh(target: Broker, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(target.bootstrap_servers, capsys)


def write(broker: Broker, topic: str, *values: str, **properties: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **properties})
    for value in values:
        producer.produce(topic, value, "k", timestamp=1_700_000_000_000)
    assert producer.flush(_LIMIT_S) == 0


def ends(broker: Broker, sh: Shell, topic: str) -> list[object]:
    done = sh("topics", "describe", topic, "--json", server=broker.bootstrap_servers)
    if done.code:
        return []
    partitions = done.rows[0]["partitions"]
    assert isinstance(partitions, list)
    return [each["end_offset"] for each in partitions]


def mirror(sh: Shell, source: Broker, *arguments: str) -> Done:
    return sh("mirror", "--source", source.bootstrap_servers, "--until-end", *arguments)


def test_follows_topics_and_resumes_after_a_kill(source: Broker, target: Broker, sh: Shell) -> None:
    """A second process continues where the killed one stopped. Topics that appear later are copied too."""
    write(source, "followed", "a", "b")
    command = [sys.executable, "-m", "pybroker", "mirror", "--source", source.bootstrap_servers]
    command += ["--bootstrap-server", target.bootstrap_servers, "--topics", "followed.*", "--interval", "0.1"]
    command.append("--json")
    killed = subprocess.Popen(command, stdout=subprocess.PIPE)
    eventually(lambda: ends(target, sh, "followed") == [2])
    write(source, "followed", "c")
    write(source, "followed-too", "a")
    eventually(lambda: ends(target, sh, "followed") == [3] and ends(target, sh, "followed-too") == [1])
    killed.kill()
    killed.communicate()
    write(source, "followed", "d", "e")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
        eventually(lambda: ends(target, sh, "followed") == [5])
        second.send_signal(signal.SIGTERM)
        out, _ = second.communicate(timeout=_LIMIT_S)
    assert second.returncode == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[-1]["records"] == 2
    first = next(row for row in rows if row.get("topic") == "followed")
    assert (first["created"], first["copied_before"]) == (False, 3)
    read = ("consume", "followed", "--from-beginning", "--until-end", "--format", "%o %v %T;")
    assert sh.good(*read).out.replace("\n", "").split(";")[:5] == [
        f"{n} {v} 1700000000000" for n, v in enumerate("abcde")
    ]


def test_gap_offsets_are_filled_with_markers_or_records(source: Broker, sh: Shell) -> None:
    """Aborted records and markers leave gaps in the source. Filled in either way, the copy has the same offsets."""
    for name, gaps in (("seen", "records"), ("unseen", "markers")):
        producer = Producer({"bootstrap.servers": source.bootstrap_servers, "transactional.id": name})
        producer.init_transactions(_LIMIT_S)
        for finish in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.produce(name, "x", "key")
            assert producer.flush(_LIMIT_S) == 0  # an abort drops records that are still queued
            finish(_LIMIT_S)
        (row,) = [row for row in mirror(sh, source, "--topic", name, "--gaps", gaps, "--json").rows if "records" in row]
        assert (row["records"], row["filled_offsets"]) == (1, 3)
    read = ("--from-beginning", "--until-end", "--format", "%o %k %S;")
    assert sh.good("consume", "unseen", *read).out.split() == ["2", "key", "1;"]
    seen = sh.good("consume", "seen", *read).out.replace("\n", "")
    assert seen == "0 pybroker.mirror -1;1 pybroker.mirror -1;2 key 1;3 pybroker.mirror -1;"


@pytest.mark.parametrize("step", ["begin", "add", "end"])
def test_resumes_after_a_kill_while_writing_a_marker(
    source: Broker, sh: Shell, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The next run ends the open transaction before it compares the copy, so offsets stay the source's."""
    topic = f"killed-after-{step}"
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(_LIMIT_S)
    for value in "abc":
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.commit_transaction(_LIMIT_S)
    until_done = Markers._until_done

    def killed(markers: Markers, transactional_id: str, ask: Callable[[], int]) -> None:
        until_done(markers, transactional_id, ask)
        if ask.__name__ == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Markers, "_until_done", killed)
        assert mirror(sh, source, "--topic", topic).err == "pybroker mirror: interrupted\n"
    done = mirror(sh, source, "--topic", topic)
    assert (done.code, done.err) == (0, "")
    read = sh.good("consume", topic, "--from-beginning", "--until-end", "--format", "%o %v;").out
    assert read.replace("\n", "") == "0 a;2 b;4 c;"


def test_marker_in_place_of_a_record_is_not_a_copy(source: Broker, target: Broker, sh: Shell) -> None:
    """Only the offsets of such a topic match those of the source."""
    write(source, "marked", "a", "b", "c")
    producer = Producer({"bootstrap.servers": target.bootstrap_servers, "transactional.id": "marks"})
    producer.init_transactions(_LIMIT_S)
    producer.begin_transaction()
    producer.produce("marked", "a", "k", timestamp=1_700_000_000_000)
    producer.commit_transaction(_LIMIT_S)
    done = mirror(sh, source, "--topic", "marked")
    assert (done.code, ends(target, sh, "marked")) == (1, [2])
    assert "not a copy" in done.err


def test_copy_accepts_timestamps_beyond_the_limit(source: Broker, target: Broker, sh: Shell) -> None:
    """The source already rejects such records. The copy gets the limit only once it is complete."""
    sh("topics", "create", "dated", server=source.bootstrap_servers)
    producer = Producer({"bootstrap.servers": source.bootstrap_servers})
    for timestamp in (1, 1_700_000_000_000):
        producer.produce("dated", "x", timestamp=timestamp)
    assert producer.flush(_LIMIT_S) == 0
    limit = "message.timestamp.before.max.ms=1000"
    assert sh("configs", "alter", "--topic", "dated", "--add-config", limit, server=source.bootstrap_servers).code == 0
    assert mirror(sh, source, "--topic", "dated").code == 0
    (described,) = sh.good("topics", "describe", "dated", "--json").rows
    assert (described["configs"], ends(target, sh, "dated")) == ({"message.timestamp.before.max.ms": "1000"}, [2])


def test_topic_configs_and_new_partitions_are_copied(source: Broker, target: Broker, sh: Shell) -> None:
    """LogAppendTime is set only once the copy is complete, or the copy would lose the source's timestamps."""
    at_source = ("topics", "create", "shaped", "--config", "cleanup.policy=compact")
    sh(*at_source, "--config", "message.timestamp.type=LogAppendTime", server=source.bootstrap_servers)
    mirror(sh, source, "--topic", "shaped")
    sh("topics", "alter", "shaped", "--partitions", "3", server=source.bootstrap_servers)
    assert mirror(sh, source, "--topic", "shaped").code == 0
    (described,) = sh.good("topics", "describe", "shaped", "--json").rows
    assert described["configs"] == {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
    assert len(ends(target, sh, "shaped")) == 3


def test_committed_offsets_of_the_copy_do_not_go_back(source: Broker, target: Broker, sh: Shell) -> None:
    """Groups that `--groups` does not match are not copied."""
    write(source, "moved", "a", "b", "c")
    consume = ("consume", "moved", "--from-beginning", "--group")
    for group in ("ahead", "other"):
        sh(*consume, group, "--max-messages", "1", server=source.bootstrap_servers)
    done = mirror(sh, source, "--topic", "moved", "--groups", "ahead")
    assert "group ahead: 1 offsets" in done.out
    assert sh("groups", "describe", "other").code == 1
    assert sh.good(*consume, "ahead", "--max-messages", "1").out == "b\n"
    assert "group" not in mirror(sh, source, "--topic", "moved", "--groups", "ahead").out
    (described,) = sh.good("groups", "describe", "ahead", "--json").rows
    (place,) = described["partitions"]  # type: ignore[misc]
    assert place["offset"] == 2


def test_existing_topic_that_differs_is_refused(source: Broker, target: Broker, sh: Shell) -> None:
    """It has other records, more records or more partitions. Nothing is written to it."""
    for topic, ours, theirs in (("other", ["a"], ["b", "c"]), ("longer", ["a", "b"], ["a"])):
        write(target, topic, *ours)
        write(source, topic, *theirs)
        done = mirror(sh, source, "--topic", topic)
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "not a copy" in done.err
        assert ends(target, sh, topic) == [len(ours)]
    sh.good("topics", "create", "wider", "--partitions", "2")
    write(source, "wider", "a")
    done = mirror(sh, source, "--topic", "wider")
    assert done.err == "pybroker mirror: wider: the copy has 2 partitions, the source 1\n"


def test_foreign_record_in_the_copy_ends_the_mirror(source: Broker, target: Broker, sh: Shell) -> None:
    """The mirror reports that the topic is not a copy and exits with code 1."""
    write(source, "shared", "a")
    assert mirror(sh, source, "--topic", "shared").code == 0
    write(target, "shared", "mine")
    write(source, "shared", "b", "c")
    done = mirror(sh, source, "--topic", "shared")
    assert done.code == 1
    assert "not a copy" in done.err


def test_copy_emptied_by_retention_is_reported(source: Broker, target: Broker, sh: Shell) -> None:
    """The copy goes on: its own retention removed the records that could be compared."""
    write(source, "emptied", "a", "b")
    assert mirror(sh, source, "--topic", "emptied").code == 0
    sh.good("configs", "alter", "--topic", "emptied", "--add-config", "retention.ms=1")
    target.run_retention()
    write(source, "emptied", "c")
    done = mirror(sh, source, "--topic", "emptied")
    message = "pybroker mirror: partitions of the copy without a record to compare with the source: 1\n"
    assert (done.code, done.err, ends(target, sh, "emptied")) == (0, message, [3])


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--source", "127.0.0.1:1", "--timeout", "5"], 1, "127.0.0.1:1: "),
        (["--source", "SELF"], 2, "--source and --bootstrap-server are the same cluster"),
        (["--source", "SOURCE", "--topic", "nobodys"], 1, "nobodys: "),
        (["--source", "SOURCE", "--topics", "nobodys", "--until-end"], 1, "the source has no such topics"),
        (["--source", "SOURCE", "--topics", "("], 2, "argument --topics: '('"),
        (["--source", "SOURCE", "--topic="], 2, "which topic?"),
    ],
)
def test_bad_arguments_are_refused(
    source: Broker, target: Broker, sh: Shell, arguments: list[str], code: int, expected: str
) -> None:
    """The command prints one line and creates no topic."""
    names = {"SELF": target.bootstrap_servers, "SOURCE": source.bootstrap_servers}
    done = sh("mirror", *(names.get(each, each) for each in arguments))
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert expected in done.err
    assert "nobodys" not in AdminClient({"bootstrap.servers": target.bootstrap_servers}).list_topics(timeout=60).topics


def test_topic_deleted_while_mirrored_keeps_its_copy(source: Broker, target: Broker, sh: Shell) -> None:
    """One line reports the deletion, and other topics continue. A new topic of that name is not copied."""
    gone, stays = "gone", "stays"
    for topic in (gone, stays):
        write(source, topic, "a", "b")
    command = [sys.executable, "-m", "pybroker", "mirror", "--source", source.bootstrap_servers, "--interval", "0.1"]
    command += ["--bootstrap-server", target.bootstrap_servers, "--topic", gone, "--topic", stays]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: ends(target, sh, gone) == ends(target, sh, stays) == [2])
        assert sh("topics", "delete", gone, server=source.bootstrap_servers).code == 0
        assert process.stderr is not None
        watchdog = Timer(_LIMIT_S, process.kill)
        watchdog.start()
        line = process.stderr.readline()
        watchdog.cancel()
        write(source, gone, "x", "y", "z")
        write(source, stays, "c")
        eventually(lambda: ends(target, sh, stays) == [3])
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=_LIMIT_S)
    assert (process.returncode, err) == (0, ""), err
    expected = f"{gone}: it was deleted at the source: its copy stays unchanged, and the other topics continue"
    assert line == f"pybroker mirror: {expected}\n"
    assert out.endswith("of 1 topics; 0 offsets without a record\n")
    assert ends(target, sh, gone) == [2]


def test_topic_recreated_while_mirrored_ends_the_mirror(source: Broker, target: Broker, sh: Shell) -> None:
    """It has another topic id, so nothing of it is appended to the copy. The mirror ends as no topic is left."""
    write(source, "recreated", "a", "b")
    command = [sys.executable, "-m", "pybroker", "mirror", "--source", source.bootstrap_servers, "--topic", "recreated"]
    command += ["--bootstrap-server", target.bootstrap_servers, "--interval", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: ends(target, sh, "recreated") == [2])
        for action in ("delete", "create"):
            assert sh("topics", action, "recreated", server=source.bootstrap_servers).code == 0
        _, err = process.communicate(timeout=_LIMIT_S)
    assert process.returncode == 1
    first, last = err.splitlines()
    assert first.startswith("pybroker mirror: recreated: it was ")
    assert last == "pybroker mirror: the source no longer has any of these topics"
    assert ends(target, sh, "recreated") == [2]
