"""pybroker format: the files that it writes, and its errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.metadata_snapshot import read_snapshot
from metadata.framing import MetadataRecord
from protocol.id_text import id_bytes
from storage.checkpoints import read_meta_properties
from storage.fs import LOCAL
from tests.support.dump_log import LOGS
from tools import random_uuid
from tools.data.dump_log import main as dump
from tools.data.format import main

CLUSTER = "AAAAAAAAQACAAAAAAAAAAQ"
FORMATTED = LOGS.parent / "formatted"
SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
_TIMES = re.compile(r"(CreateTime|crc): \d+|(?<=\"lastContainedLogTimestamp\":)\d+")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with two directories."""
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=1\nlog.dirs={tmp_path}/a,{tmp_path}/b\n")
    return path


def add(config: Path, line: str) -> None:
    config.write_text(f"{config.read_text()}{line}\n")


def run(config: Path, *arguments: str) -> int:
    return main(["-c", str(config), *arguments])


def features(directory: Path) -> dict[str, int]:
    """Return the features in the directory's bootstrap.checkpoint."""
    records = read_snapshot(LOCAL, f"{directory}/bootstrap.checkpoint").records
    return {r.value.name: r.value.feature_level for r in records if isinstance(r, MetadataRecord)}


def test_new_directories_are_formatted(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each gets meta.properties with its own id, and the features. The metadata directory names the voter."""
    assert run(config, "-t", CLUSTER) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.",
        f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.3-IV0.",
    ]
    found = [read_meta_properties(LOCAL, str(tmp_path / name)) for name in "ab"]
    assert [(each.cluster_id, each.node_id, each.version) for each in found if each] == [(CLUSTER, 1, 1)] * 2
    assert len({each.directory_id for each in found if each}) == 2
    assert features(tmp_path / "a") == features(tmp_path / "b")
    assert (tmp_path / "a" / SNAPSHOT).exists()
    assert not (tmp_path / "b" / "__cluster_metadata-0").exists()


def test_bootstrap_checkpoint_equals_that_of_kafka(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Batch by batch, except for times."""
    assert run(config) == 0
    capsys.readouterr()
    dumps = []
    for directory in (tmp_path / "a", LOGS / "v4.3.1-clean-shutdown"):
        assert dump(["--files", f"{directory}/bootstrap.checkpoint", "--cluster-metadata-decoder"]) == 0
        dumps.append(_TIMES.sub("", capsys.readouterr().out).splitlines()[1:])
    assert dumps[0] == dumps[1]


@pytest.mark.parametrize("recorded", ["v4.4.0", "v4.4.0-static"])
def test_first_snapshot_of_4_4_equals_that_of_kafka(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], recorded: str
) -> None:
    """KIP-1170: the features are in the metadata log, and nothing else than meta.properties is beside it."""
    add(config, "listeners=PLAINTEXT://127.0.0.1:39092,CONTROLLER://127.0.0.1:39093")
    add(config, "controller.listener.names=CONTROLLER\nprocess.roles=broker,controller")
    if recorded.endswith("static"):
        add(config, "controller.quorum.voters=1@127.0.0.1:39093")
    assert run(config, "-r", "4.4") == 0
    assert "with metadata.version 4.4-IV2." in capsys.readouterr().out
    dumps = []
    for directory in (tmp_path / "a", FORMATTED / recorded):
        assert dump(["--files", f"{directory}/{SNAPSHOT}", "--cluster-metadata-decoder"]) == 0
        properties = read_meta_properties(LOCAL, str(directory))
        assert properties is not None
        assert properties.directory_id is not None
        text = capsys.readouterr().out.replace(properties.directory_id, "<id>")
        dumps.append(_TIMES.sub("", text).splitlines()[1:])
    assert dumps[0] == dumps[1]
    assert not list(tmp_path.glob("*/bootstrap.checkpoint"))
    assert not (tmp_path / "b" / "__cluster_metadata-0").exists()


def test_formatted_directory_is_an_error(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With Kafka's message. With --ignore-formatted the others are formatted for the same cluster."""
    assert run(config, "-t", CLUSTER) == 0
    before = (tmp_path / "a/meta.properties").read_bytes()
    capsys.readouterr()
    assert run(config, "-t", CLUSTER) == 1
    assert capsys.readouterr().err == (
        f"Log directory {tmp_path}/a is already formatted."
        " Use --ignore-formatted to ignore this directory and format the others.\n"
    )
    assert run(config, "-g") == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"
    config.write_text(f"node.id=1\nlog.dirs={tmp_path}/a,{tmp_path}/c\n")
    assert run(config, "-g") == 0
    added = read_meta_properties(LOCAL, str(tmp_path / "c"))
    assert added is not None
    assert added.cluster_id == CLUSTER
    assert (tmp_path / "a/meta.properties").read_bytes() == before


@pytest.mark.parametrize(
    ("line", "options", "reason"),
    [
        ("", ("-g", "-t", "BBBBBBBBQACAAAAAAAAAAQ"), "belongs to cluster"),
        ("node.id=2", ("-g",), "belongs to node 1, but node.id is 2"),
        ("pybroker.cluster.id=other", ("-g", "-t", CLUSTER), "pybroker.cluster.id is other"),
    ],
)
def test_directories_of_others_are_refused(
    config: Path, capsys: pytest.CaptureFixture[str], line: str, options: tuple[str, ...], reason: str
) -> None:
    """Of another cluster, or another node."""
    assert run(config, "-t", CLUSTER) == 0
    add(config, line)
    assert run(config, *options) == 1
    assert reason in capsys.readouterr().err


def test_configured_voters_are_not_in_the_log(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """kraft.version is 0 then, and --standalone is a contradiction."""
    add(config, "controller.quorum.voters=1@localhost:9093")
    assert run(config, "--standalone") == 1
    assert "contradict" in capsys.readouterr().err
    assert run(config) == 0
    assert not (tmp_path / "a" / SNAPSHOT).exists()
    assert f"Formatting metadata directory {tmp_path}/a" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-r", "3.9"), {"metadata.version": 21}),
        (("-r", "3.9", "-f", "transaction.version=2"), {"metadata.version": 21, "transaction.version": 2}),
        (("-f", "metadata.version=22"), {"metadata.version": 22, "group.version": 1}),
        (("-r", "4.0-IV0", "-f", "group.version=0", "-f", "kraft.version=1"), {"metadata.version": 22}),
    ],
)
def test_features_are_set(config: Path, tmp_path: Path, options: tuple[str, ...], expected: dict[str, int]) -> None:
    """Those of a release, and single ones."""
    assert run(config, *options) == 0
    assert features(tmp_path / "a") == expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("-r", "4.5"), "Unknown metadata.version '4.5'. Supported metadata.version are: 3.3-IV3, "),
        (("-f", "metadata.version=34"), "metadata.version has levels 7 to 33, not 34"),
        (("-r", "2.8"), "Unknown metadata.version '2.8'. Supported metadata.version are: 3.3-IV3, "),
        (("-r", "3.9", "-f", "metadata.version=21"), "Use --release-version instead of"),
        (("-f", "nope.version=2"), "Unsupported feature: nope.version. Supported features are: "),
        (("-f", "group.version=9"), "group.version has levels 0 to 1, not 9"),
        (("-f", "group.version"), "equals sign not found"),
        (("-f", "kraft.version=0"), "kraft.version is 0 with controller.quorum.voters, and 1 without"),
        (("-r", "3.8"), "a release before 3.9-IV0 needs controller.quorum.voters"),
    ],
)
def test_impossible_features_are_one_line(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], reason: str
) -> None:
    """Exit code 1, and nothing is written."""
    assert run(config, *options) == 1
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("text", ["log.dirs=\n", "num.io.threads=many\n"])
def test_invalid_configuration_has_the_brokers_message(
    config: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    config.write_text(text)
    assert run(config) == 1
    assert capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["-c"], ["--what"]])
def test_bad_options_are_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, as in Kafka's tool."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 1
    printed = capsys.readouterr().err
    assert printed.startswith("pybroker format: ")
    assert printed.count("\n") == 1


def test_missing_configuration_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "/nowhere/server.properties"]) == 1
    assert capsys.readouterr().err == "pybroker format: /nowhere/server.properties: No such file or directory\n"


@pytest.mark.parametrize("cluster_id", ["", "one\nnode.id=7", "a\tb"])
def test_invalid_cluster_id_is_refused(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], cluster_id: str
) -> None:
    """An empty one is probably an unset variable. A line break would start another key."""
    assert run(config, "-t", cluster_id) == 1
    assert f"{cluster_id!r} cannot be a cluster id" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_random_uuid_has_16_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert random_uuid.main([]) == random_uuid.main([]) == 0
    first, second = capsys.readouterr().out.split()
    assert id_bytes(first) != id_bytes(second)


MEMBER = "process.roles=broker\ncontroller.listener.names=C\ncontroller.quorum.bootstrap.servers=localhost:9093"


def test_member_gets_the_cluster_id_alone(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As by Apache Kafka 4.4: the controllers have the feature levels and the voters."""
    add(config, MEMBER)
    assert run(config, "-t", CLUSTER) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.",
        f"Formatting metadata directory {tmp_path}/a with metadata.version 4.3-IV0.",
    ]
    found = [read_meta_properties(LOCAL, str(tmp_path / name)) for name in "ab"]
    assert [(each.cluster_id, each.node_id) for each in found if each] == [(CLUSTER, 1)] * 2
    assert sorted(each.name for each in tmp_path.glob("[ab]/*")) == ["meta.properties"] * 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-t", CLUSTER, "--standalone"], "You can only use --standalone on a controller."),
        (["-t", CLUSTER, "-S", "SCRAM-SHA-256=[name=a,password=b]"], "--add-scram is for a broker that is its own"),
        ([], "set --cluster-id to the id of the controllers' cluster"),
    ],
)
def test_member_is_formatted_with_the_cluster_id(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    add(config, MEMBER)
    assert run(config, *options) == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


# -- a controller alone ----------------------------------------------------------------------------------------------

CONTROLLER = "process.roles=controller\ncontroller.listener.names=QUORUM\nlisteners=QUORUM://:9093"
DIRECTORY_ID = "JEXY6aqzQY-32P5TStzaFg"


@pytest.mark.parametrize("options", [[], ["--standalone"]])
def test_controller_alone_is_its_only_voter(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    add(config, f"{CONTROLLER}\nadvertised.listeners=QUORUM://c1.example:9093\nlog.dirs={tmp_path}/a")
    assert run(config, "-t", CLUSTER, *options) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.3-IV0."
    ]
    assert [each[:3] for each in voters(tmp_path / "a")] == [(1, "QUORUM", 9093)]


def test_initial_controller_is_this_node(config: Path, tmp_path: Path) -> None:
    """Its address and the id of its directory are the given ones."""
    add(config, f"{CONTROLLER}\nlog.dirs={tmp_path}/a")
    assert run(config, "-t", CLUSTER, "-I", f"1@[::1]:9193:{DIRECTORY_ID}") == 0
    assert voters(tmp_path / "a") == [(1, "QUORUM", 9193, "::1", id_bytes(DIRECTORY_ID))]
    found = read_meta_properties(LOCAL, str(tmp_path / "a"))
    assert found is not None
    assert found.directory_id == DIRECTORY_ID


def voters(directory: Path) -> list[tuple[int, str, int, str, bytes]]:
    quorum = read_snapshot(LOCAL, f"{directory}/{SNAPSHOT}").quorum
    assert quorum.voters is not None
    return [
        (each.voter_id, each.endpoints[0].name, each.endpoints[0].port, each.endpoints[0].host, each.voter_directory_id)
        for each in quorum.voters.voters
    ]


@pytest.mark.parametrize(
    ("lines", "options", "reason"),
    [
        (CONTROLLER, ["-N"], "--no-initial-controllers: this node is the only voter"),
        (CONTROLLER, ["-I", f"2@h:9093:{DIRECTORY_ID}"], "names other controllers (2), and node.id is 1"),
        (CONTROLLER, ["-I", f"1@h:9093:{DIRECTORY_ID},2@i:9093:{DIRECTORY_ID}"], "names other controllers (2)"),
        (CONTROLLER, ["-I", f"1@h:9093:{DIRECTORY_ID},1@i:9093:{DIRECTORY_ID}"], "names node 1 twice"),
        (CONTROLLER, ["-I", "1@h:9093"], "is not ID@HOST:PORT:DIRECTORY_ID"),
        (CONTROLLER, ["-I", f"1@h:99999:{DIRECTORY_ID}"], "is not ID@HOST:PORT:DIRECTORY_ID"),
        (CONTROLLER, ["-I", f"1@:9093:{DIRECTORY_ID}"], "is not ID@HOST:PORT:DIRECTORY_ID"),
        (
            f"{CONTROLLER}\ncontroller.quorum.voters=1@localhost:9093",
            ["-I", f"1@h:9093:{DIRECTORY_ID}"],
            "controller.quorum.voters and --initial-controllers contradict each other",
        ),
        (MEMBER, ["-I", f"1@h:9093:{DIRECTORY_ID}"], "You can only use --initial-controllers on a controller."),
    ],
)
def test_voters_that_cannot_be_are_refused(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: str, options: list[str], reason: str
) -> None:
    add(config, lines)
    assert run(config, "-t", CLUSTER, *options) == 1
    shown = capsys.readouterr().err
    assert reason in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_options_for_voters_exclude_each_other(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(config, "--standalone", "--no-initial-controllers")
    assert ended.value.code == 1
    assert "not allowed with argument" in capsys.readouterr().err


def test_member_has_no_initial_controllers(config: Path) -> None:
    """Apache Kafka has the option for brokers, too."""
    add(config, MEMBER)
    assert run(config, "-t", CLUSTER, "--no-initial-controllers") == 0
