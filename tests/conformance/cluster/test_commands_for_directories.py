"""`pybroker reassign` with log directories, beside Apache Kafka's tool on the same cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.conformance.cluster.mixed_cluster import OURS, THEIRS, MixedCluster
from tests.conformance.test_cluster_commands import tool
from tests.conformance.test_cluster_guide import run
from tests.support.eventually import eventually

_TOOL = "reassign.ReassignPartitionsCommand"


def plan(file: Path, topic: str, directories: dict[int, Path | str]) -> Path:
    """Write an assignment: the brokers of the partition, each with its log directory."""
    partition = {
        "topic": topic,
        "partition": 0,
        "replicas": list(directories),
        "log_dirs": list(map(str, directories.values())),
    }
    file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return file


def other_directory(cluster: MixedCluster, topic: str, at: int) -> Path:
    """Return the log directory of a broker that does not have the partition."""
    home = cluster[at].directory
    (here,) = cluster.directories_of(topic, at)
    return home / ("more" if here.parent.name == "logs" else "logs")


def test_a_new_replica_and_an_old_one_get_their_directories(cluster: MixedCluster, tmp_path: Path) -> None:
    """Both programs print the same, and the new replica is in its directory from the beginning."""
    brokers = list(cluster.brokers.values())
    programs: dict[str, Callable[[str, Path], str]] = {
        "ours": lambda action, file: run(f"pybroker reassign {action} {file}", brokers),
        "theirs": lambda action, file: tool(brokers, _TOOL, f"--{action}", "--reassignment-json-file", str(file)),
    }
    printed: dict[str, list[str]] = {}
    for name, program in programs.items():
        topic = cluster.create(OURS)
        cluster.produce(topic, 0, 100, size=100)
        wanted: dict[int, Path | str] = {
            OURS: other_directory(cluster, topic, OURS),
            THEIRS: cluster[THEIRS].directory / "more",
        }
        former = cluster.directories_of(topic, OURS)[0].parent
        file = plan(tmp_path / f"{name}.json", topic, wanted)
        found = [program("execute", file).replace(str(former), "<former>")]
        for at, path in wanted.items():
            eventually(lambda at=at: cluster.directories_of(topic, at), equal_to=[path / f"{topic}-0"])  # type: ignore[misc]  # noqa: B023
        eventually(lambda: cluster.state(topic)[2], equal_to=[OURS, THEIRS])  # noqa: B023
        eventually(lambda: cluster.reassigning(), equal_to={})
        found.append(program("verify", file))
        found.append(program("cancel", file))
        printed[name] = [_lines(text.replace(topic, "moved"), cluster, wanted) for text in found]  # type: ignore[misc]
    for ours, theirs in zip(printed["ours"], printed["theirs"], strict=True):
        assert ours == theirs
    assert '"replicas":[1],"log_dirs":["<former>"]' in printed["ours"][0][1]
    assert "Successfully started moving log directory to <1> for replica moved-0 with broker 1" in printed["ours"][0]
    assert "Reassignment of replica moved-0-2 completed successfully." in printed["ours"][1]


def _lines(text: str, cluster: MixedCluster, wanted: dict[int, Path | str]) -> list[str]:
    """Return the lines. Kafka's tool leaves out the end of one line of cancel."""
    for at, path in wanted.items():
        text = text.replace(str(path), f"<{at}>")
    text = text.replace("active.Clearing", "active.\nClearing")
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_a_proposal_begins_with_the_present_directories(cluster: MixedCluster, tmp_path: Path) -> None:
    """Both programs print them, for the way back."""
    brokers = list(cluster.brokers.values())
    topic = cluster.create(OURS, THEIRS)
    file = tmp_path / "topics.json"
    file.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    words = ["--generate", "--broker-list", f"{OURS},{THEIRS}", "--topics-to-move-json-file", str(file)]
    theirs = tool(brokers, _TOOL, *words).splitlines()
    ours = run(f"pybroker reassign generate --broker-list {OURS},{THEIRS} --topic {topic}", brokers).splitlines()
    assert ours[:4] == theirs[:4]
    assert str(cluster.directories_of(topic, THEIRS)[0].parent) in ours[1]


def test_a_move_that_is_cancelled(cluster: MixedCluster, tmp_path: Path) -> None:
    """A throttle makes it slow; the throttle goes with the move."""
    brokers = list(cluster.brokers.values())
    topic = cluster.create(OURS)
    cluster.produce(topic, 0, 100, size=2000)
    here, to = cluster.directories_of(topic, OURS)[0].parent, other_directory(cluster, topic, OURS)
    file = plan(tmp_path / "plan.json", topic, {OURS: to})
    started = run(f"pybroker reassign execute {file} --replica-alter-log-dirs-throttle 1000", brokers)
    assert "The replica-alter-dir throttle limit was set to 1000 B/s\n" in started
    moving = run(f"pybroker reassign verify {file}", brokers)
    assert f"Reassignment of replica {topic}-0-{OURS} is still in progress.\n" in moving
    assert "Clearing" not in moving
    assert moving.rstrip() == tool(brokers, _TOOL, "--verify", "--reassignment-json-file", str(file)).rstrip()
    ended = run(f"pybroker reassign cancel {file}", brokers)
    assert f"Successfully started moving log directory to {here} for replica {topic}-0 with broker {OURS}" in ended
    after = eventually(
        lambda: run(f"pybroker reassign verify {file}", brokers),
        until=lambda text: "is not being moved" in text,
    )
    assert f"Partition {topic}-0 on broker {OURS} is not being moved from log dir {here} to {to}.\n" in after
    assert "Clearing broker-level throttles" in after
    described = run(f"pybroker configs describe --broker {OURS}", brokers)
    assert "replica.alter.log.dirs.io.max.bytes.per.second=1000" not in described.replace(" ", "")
    assert cluster.directories_of(topic, OURS) == [here / f"{topic}-0"]
