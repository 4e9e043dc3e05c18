"""`pybroker mirror` in trouble: it tries again, the other partitions continue, and offsets stay equal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pybroker.testing import Broker
from tests.support.eventually import eventually
from tests.support.mirrors import Mirror, delete_records, end, first, values, write
from tests.support.shell import Done, Shell

_KEPT = {"log.retention.ms": "-1"}  # the records of these tests are old
_SMALL = 2000
_RANDOM = Random(7).randbytes(2500).hex()  # 5000 bytes, of which half remain after compression


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with Broker({**config, "allow.everyone.if.no.acl.found": "true", **_KEPT}) as running:
        yield running


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker({"message.max.bytes": _SMALL, "auto.create.topics.enable": "true", **_KEPT}) as running:
        yield running


@pytest.fixture
def sh(target: Broker, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(target.bootstrap_servers, capsys)


def once(sh: Shell, source: Broker, *arguments: str) -> Done:
    """Mirror up to the end; give up on a partition after two seconds."""
    return sh("mirror", "--source", source.bootstrap_servers, "--until-end", "--timeout", "2", *arguments)


def topics(*names: str) -> list[str]:
    return [word for name in names for word in ("--topic", name)]


def test_records_that_the_source_removed_become_gaps(source: Broker, target: Broker, tmp_path: Path) -> None:
    """Retention was faster than the mirror. It says what is lost, and offsets behind the gap are the source's."""
    for topic in ("expired", "kept"):
        write(source, topic, "a", "b")
    with Mirror(source, target, tmp_path, *topics("expired", "kept")) as mirror:
        eventually(lambda: end(target, "expired") == end(target, "kept") == 2)
        mirror.freeze()
        write(source, "expired", *(f"lost {number}" for number in range(500)))
        delete_records(source, "expired", 502)
        write(source, "expired", "c")
        write(source, "kept", "c")
        mirror.thaw()
        eventually(
            lambda: end(target, "expired") == 503 and end(target, "kept") == 3 and first(target, "expired") == 502
        )
        write(source, "expired", "d")
        eventually(lambda: end(target, "expired") == 504)
        assert mirror.end() == 0
    assert values(target, "expired") == {502: b"c", 503: b"d"}
    assert mirror.lines == ["expired-0: the source removed the records from offset 2 to 501 before they were copied"]


def test_small_records_are_sent_singly_if_a_batch_is_too_large(source: Broker, target: Broker, sh: Shell) -> None:
    """Their order and their offsets stay those of the source."""
    sent = [f"{number} {'x' * 100}" for number in range(300)]
    write(source, "crowded", *sent)
    done = once(sh, source, "--topic", "crowded")
    assert (done.code, done.err) == (0, "")
    assert values(target, "crowded") == {number: value.encode() for number, value in enumerate(sent)}


def test_record_that_the_target_rejects_stops_its_partition(source: Broker, target: Broker, sh: Shell) -> None:
    """The records behind it do not take its offset. When the limit is raised, the copy goes on."""
    sent = ["small", *("y" * 100 for _ in range(100)), _RANDOM, "last"]
    write(source, "heavy", *sent)
    write(source, "light", "a", "b")
    done = once(sh, source, *topics("heavy", "light"))
    assert done.code == 1
    assert len(done.err.splitlines()) == 2, done.err
    first_line, last_line = done.err.splitlines()
    rejected = (
        "heavy-0: the target rejects offset 101, which has 5001 bytes: raise max.message.bytes of the topic there"
    )
    assert first_line == f"pybroker mirror: {rejected}: trying again, and the others continue"
    assert last_line == "pybroker mirror: not copied completely: heavy-0"
    assert (end(target, "heavy"), end(target, "light")) == (101, 2)

    sh.good("configs", "alter", "--topic", "heavy", "--add-config", "max.message.bytes=10000")
    assert once(sh, source, *topics("heavy", "light")).code == 0
    assert values(target, "heavy") == {number: value.encode() for number, value in enumerate(sent)}


def test_partition_with_a_foreign_record_does_not_end_the_others(
    source: Broker, target: Broker, sh: Shell, tmp_path: Path
) -> None:
    """It is left out for good, since its offsets can no longer be those of the source."""
    sh("topics", "create", "shared", "--partitions", "2", server=source.bootstrap_servers)
    for partition in (0, 1):
        write(source, "shared", "a", partition=partition)
    with Mirror(source, target, tmp_path, "--topic", "shared") as mirror:
        eventually(lambda: end(target, "shared") == end(target, "shared", 1) == 1)
        write(target, "shared", "mine")
        for partition in (0, 1):
            write(source, "shared", "b", partition=partition)
        eventually(lambda: end(target, "shared", 1) == 2)
        eventually(lambda: any("another producer" in line for line in mirror.lines))
        write(source, "shared", "c", partition=1)
        eventually(lambda: end(target, "shared", 1) == 3)
        assert mirror.end() == 1
    assert "shared-0: " in mirror.lines[0]
    assert mirror.lines[0].endswith("left out, and the others continue")
    assert mirror.lines[-1] == "not copied completely: shared-0"


def test_topic_that_is_not_a_copy_does_not_end_the_others(source: Broker, target: Broker, sh: Shell) -> None:
    write(source, "mine", "a")
    write(target, "mine", "other")
    write(source, "yours", "a")
    done = once(sh, source, *topics("mine", "yours"))
    assert done.code == 1
    assert "mine-0: offset 0 differs from the source: it is not a copy: left out" in done.err
    assert values(target, "yours") == {0: b"a"}


def test_unauthorized_topic_does_not_end_the_others(source: Broker, target: Broker, sh: Shell, tmp_path: Path) -> None:
    """It is copied once the mirror may read it."""
    for topic in ("secret", "public"):
        write(source, topic, "a")
    deny = ("--deny-principal", "User:ANONYMOUS", "--operation", "Read", "--topic", "secret")
    assert sh("acls", "add", *deny, server=source.bootstrap_servers).code == 0
    with Mirror(source, target, tmp_path, *topics("secret", "public")) as mirror:
        eventually(lambda: end(target, "public") == 1)
        eventually(lambda: mirror.lines)
        write(source, "public", "b")
        eventually(lambda: end(target, "public") == 2)
        assert sh("acls", "remove", *deny, server=source.bootstrap_servers).code == 0
        eventually(lambda: end(target, "secret") == 1)
        assert mirror.end() == 0
    assert mirror.lines[0].startswith("secret: ")
    assert "uthorization failed" in mirror.lines[0]


def test_deleted_copy_is_copied_again_from_its_start(source: Broker, target: Broker, sh: Shell, tmp_path: Path) -> None:
    """With the partitions and settings of the source, though the target creates topics by itself."""
    sh("topics", "create", "lost", "--partitions", "2", server=source.bootstrap_servers)
    write(source, "lost", "a", "b")
    write(source, "others", "a")
    with Mirror(source, target, tmp_path, *topics("lost", "others")) as mirror:
        eventually(lambda: end(target, "lost") == 2)
        sh.good("topics", "delete", "lost")
        write(source, "lost", "c")
        write(source, "others", "b")
        eventually(lambda: end(target, "lost") == 3 and end(target, "lost", 1) == 0)
        eventually(lambda: end(target, "others") == 2)
        assert mirror.end() == 0
    assert values(target, "lost") == {0: b"a", 1: b"b", 2: b"c"}
    assert "lost: its copy was deleted: it is copied again from its start" in mirror.lines


@pytest.mark.parametrize("side", [pytest.param("source", marks=pytest.mark.full_size), "target"])
def test_restart_of_a_broker_is_waited_for(source: Broker, target: Broker, tmp_path: Path, side: str) -> None:
    """Also when it takes longer than clients try to connect."""
    topic = f"during-{side}"
    write(source, topic, "a")
    broker = {"source": source, "target": target}[side]
    with Mirror(source, target, tmp_path, "--topic", topic) as mirror:
        eventually(lambda: end(target, topic) == 1)
        broker.pause()
        if side == "target":
            write(source, topic, "b")
        eventually(lambda: any(line.endswith(": waiting") for line in mirror.lines))
        broker.start()
        write(source, topic, "c")
        due = 2 + (side == "target")
        eventually(lambda: end(target, topic) == due)
        assert mirror.end() == 0
    assert values(target, topic) == values(source, topic)


def test_errors_that_pass_are_tried_again(source: Broker, target: Broker, sh: Shell) -> None:
    """Each request of the mirror may fail once."""
    write(source, "unlucky", "a", "b")
    for api in ("ListOffsets", "DescribeConfigs"):
        source.fail_next(api, "REQUEST_TIMED_OUT")
    target.fail_next("Produce", "KAFKA_STORAGE_ERROR")
    target.fail_next("ListOffsets", "REQUEST_TIMED_OUT")
    assert once(sh, source, "--topic", "unlucky", "--timeout", "10").code == 0
    assert values(target, "unlucky") == {0: b"a", 1: b"b"}


def test_truncated_source_does_not_end_the_others(source: Broker, target: Broker, sh: Shell) -> None:
    """The copy has records that the source lost, so later ones cannot get their offsets."""
    write(source, "truncated", "a", "b")
    write(source, "whole", "a")
    assert once(sh, source, *topics("truncated", "whole")).code == 0
    assert sh("topics", "delete", "truncated", server=source.bootstrap_servers).code == 0
    write(source, "truncated", "a")
    write(source, "whole", "b")
    done = once(sh, source, *topics("truncated", "whole"))
    assert done.code == 1
    assert "truncated-0: the copy ends at 2, the source at 1: not a copy, or the source has lost records" in done.err
    assert end(target, "whole") == 2


def test_first_offset_follows_without_new_records(source: Broker, target: Broker, tmp_path: Path) -> None:
    """Also to the middle of a batch."""
    write(source, "trimmed", *(str(number) for number in range(20)))
    with Mirror(source, target, tmp_path, "--topic", "trimmed") as mirror:
        eventually(lambda: end(target, "trimmed") == 20)
        delete_records(source, "trimmed", 7)
        eventually(lambda: first(target, "trimmed") == 7)
        assert mirror.end() == 0
    assert values(target, "trimmed") == values(source, "trimmed")
