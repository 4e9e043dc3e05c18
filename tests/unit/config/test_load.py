"""Loading from file, environment and overrides, with all problems reported at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from config import ConfigError, load
from config.keys import BROKER_KEYS
from config.values import Password
from tests.support.sample_files import DOCUMENTS_SAMPLE, KAFKA_SERVER_PROPERTIES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def problems(*args: object, **kwargs: object) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(*args, **kwargs)  # type: ignore[arg-type]
    return [str(problem) for problem in refused.value.problems]


def test_empty_configuration_is_valid() -> None:
    """It has Kafka's defaults, and node id 1."""
    config = load()

    assert config.node_id == 1
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.metadata_log_dir == "/tmp/kafka-logs"
    assert config.get_int("num.partitions") == 1
    assert not config.is_set("num.partitions")
    assert any("log.dirs is not set" in line for line in config.notices)
    assert config.warnings == ()


def test_kafkas_own_file_is_valid(file: Path) -> None:
    """The file that Apache Kafka 4.3 ships: broker and controller in one."""
    file.write_text(KAFKA_SERVER_PROPERTIES)
    config = load(file)

    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://:9092"]
    assert [str(listener) for listener in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert [str(listener) for listener in config.controller_listeners] == ["CONTROLLER://:9093"]
    assert config.is_combined
    assert not [line for line in config.notices if "CONTROLLER" in line]
    assert not [line for line in config.warnings if "unknown" in line]


def test_documented_sample_is_valid(file: Path) -> None:
    """S26.1-S26.14: earlier keys are accepted, with a warning if they have no effect."""
    file.write_text(DOCUMENTS_SAMPLE)
    config = load(file)

    assert config.node_id == 0
    assert config.get_int("num.partitions") == 2
    assert config.log_config().segment_bytes == 536870912
    assert config.get_bool("log.cleaner.enable") is False
    for line in (13, 14):
        assert any(
            re.search(rf"{re.escape(str(file))}:{line}: zookeeper\..* no effect", each) for each in config.warnings
        )


@pytest.mark.parametrize(
    "key",
    [
        "controller.performance.sample.period.ms",
        "metrics.num.samples",
        "metrics.recording.level",
        "sasl.kerberos.kinit.cmd",
        "sasl.login.refresh.window.factor",
        "server.max.startup.time.ms",
    ],
)
def test_keys_without_effect_are_reported(key: str) -> None:
    row = BROKER_KEYS[key]
    assert row.default_text is not None
    (warning,) = load(overrides={"node.id": "1", key: row.default_text}).warnings
    assert warning == f"--override: {key} has no effect here: {row.inert}"


def test_members_use_the_keys_of_clusters() -> None:
    """No warning says that they have no effect. Those of controllers still have none."""
    used = {"replica.lag.time.max.ms": "30000", "broker.session.timeout.ms": "9000", "server.max.startup.time.ms": "1"}
    assert load(overrides={**MEMBER, **used}).warnings == ()
    (warning,) = load(overrides={**MEMBER, "auto.leader.rebalance.enable": "true"}).warnings
    assert "no effect here: only the controller of a cluster uses it" in warning


def test_shipped_file_has_no_warnings() -> None:
    """`make run` uses it."""
    config = load("config/server.properties")

    assert config.warnings == ()
    assert config.get_int("offsets.topic.replication.factor") == 1
    assert config.log_dirs == ("./data",)


def test_later_sources_win(file: Path) -> None:
    """File, then environment, then overrides."""
    file.write_text("num.partitions=2\nlog.retention.hours=2\nbroker.rack=file\n")
    config = load(
        file,
        environ={"PYBROKER_LOG_RETENTION_HOURS": "3", "PYBROKER_BROKER_RACK": "environment", "HOME": "/"},
        overrides={"broker.rack": "override"},
    )

    assert config.get_int("num.partitions") == 2
    assert config.get_int("log.retention.hours") == 3
    assert config.rack == "override"


def test_last_duplicate_wins_and_is_reported(file: Path) -> None:
    """The last one counts, as in Java, but with a warning."""
    file.write_text("num.partitions=2\n#\nnum.partitions=3\n")
    config = load(file)

    assert config.get_int("num.partitions") == 3
    assert config.warnings == (f"{file}:3: num.partitions is set again; the value at {file}:1 is ignored",)


def test_all_invalid_values_are_reported(file: Path) -> None:
    """One start shows every mistake, with file, line, key, value and the allowed values."""
    file.write_text("num.partitions=zero\nlog.cleanup.policy=shred\n\nlog.segment.bytes=1\n")

    assert problems(file, environ={"PYBROKER_LOG_ROLL_HOURS": "0"}, overrides={"auto.create.topics.enable": "yes"}) == [
        f"{file}:1: num.partitions=zero: Not a number of type INT; allowed: int [1,...]",
        f"{file}:2: log.cleanup.policy=shred: String must be one of: compact, delete",
        f"{file}:4: log.segment.bytes=1: Value must be at least 1048576; allowed: [1048576,...]",
        "environment PYBROKER_LOG_ROLL_HOURS: log.roll.hours=0: Value must be at least 1; allowed: [1,...]",
        "--override: auto.create.topics.enable=yes: Expected value to be either true or false; allowed: true or false",
    ]


def test_broken_rules_are_reported_with_their_origin(file: Path) -> None:
    """A rule over several keys names the first of them that was set."""
    file.write_text("log.retention.ms=0\nlisteners=PLAINTEXT://nowhere\n")

    first, second = problems(file)
    assert first.startswith(f"{file}:1: log.retention.ms: ")
    assert second.startswith(f"{file}:2: listeners=PLAINTEXT://nowhere: ")


def test_a_secret_is_never_part_of_a_problem() -> None:
    """Whatever the error is."""
    config = load(overrides={"ssl.key.password": "hush", "listener.name.x.ssl.key.password": "hush"})

    assert config.get("ssl.key.password") == Password("hush")
    assert "hush" not in repr(config.get("ssl.key.password")) + str(config.warnings)


def test_unknown_keys_have_a_warning_with_the_nearest_key(file: Path) -> None:
    """Files have keys of plugins; a mistyped key should be noticed."""
    file.write_text("num.partitons=3\nsuper.users=User:a\nmy.plugin.key=1\n")
    config = load(file)

    assert config.warnings == (
        f"{file}:1: num.partitons: unknown key, did you mean num.partitions?; it has no effect",
        f"{file}:3: my.plugin.key: unknown key; it has no effect",
    )


def test_strict_makes_unknown_keys_errors(file: Path) -> None:
    """For users who want the start to fail."""
    file.write_text("num.partitons=3\nzookeeper.connect=localhost:2181\n")

    assert problems(file, strict=True) == [
        f"{file}:1: num.partitons: unknown key, did you mean num.partitions?; allowed: known keys"
    ]


@pytest.mark.parametrize(
    ("settings", "node_id"),
    [
        ({}, 1),
        ({"node.id": "7"}, 7),
        ({"broker.id": "7"}, 7),
        ({"broker.id": "0"}, 0),
        ({"node.id": "7", "broker.id": " 7"}, 7),
        ({"broker.id": "-1"}, 1001),
        ({"broker.id": "-1", "reserved.broker.max.id": "5"}, 6),
    ],
)
def test_node_id(settings: dict[str, str], node_id: int) -> None:
    """S27.1: node.id or broker.id; -1 generates an id above the reserved ones."""
    config = load(overrides=settings)

    assert config.node_id == node_id
    assert config.get_int("broker.id") == node_id


@pytest.mark.parametrize(
    "settings",
    [
        {"node.id": "1", "broker.id": "2"},
        {"node.id": "-1"},
        {"node.id": "one"},
        {"broker.id": "one"},
        {"broker.id": "-1", "broker.id.generation.enable": "false"},
        {"broker.id": "-1", "reserved.broker.max.id": "many"},
    ],
)
def test_invalid_node_ids(settings: dict[str, str]) -> None:
    """As in Kafka."""
    assert problems(overrides=settings)


CONTROLLER = {
    "process.roles": "controller",
    "node.id": "100",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:9093",
}


def test_controller_alone() -> None:
    """It opens controller listeners alone, and advertises what the file says."""
    alone = load(overrides=CONTROLLER)
    assert alone.is_controller
    assert alone.listeners == ()
    assert [each.port for each in alone.controller_listeners] == [9093]
    assert [each.host for each in alone.listening.advertised_controllers] == [None]
    advertised = load(overrides={**CONTROLLER, "advertised.listeners": "CONTROLLER://c1.example:19093"})
    assert [(each.host, each.port) for each in advertised.listening.advertised_controllers] == [("c1.example", 19093)]
    load(overrides={**CONTROLLER, "controller.quorum.voters": "100@localhost:9093"})
    load(overrides={**CONTROLLER, "controller.quorum.bootstrap.servers": "localhost:9093"})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"controller.quorum.voters": "9@elsewhere:9093"}, "the node id 100 must be included in the set of voters"),
        (
            {"controller.quorum.voters": "100@localhost:9093,101@elsewhere:9093"},
            "a quorum of several controllers is not supported (others: 101)",
        ),
        ({"controller.quorum.bootstrap.servers": "a:9093,b:9093"}, "a quorum of several controllers is not supported"),
        ({"controller.listener.names": None}, "must contain at least one value appearing in the 'listeners'"),
        ({"listeners": "CONTROLLER://:9093,PLAINTEXT://:9092"}, "must only contain KRaft controller listeners"),
    ],
)
def test_values_that_describe_no_controller(changes: dict[str, str | None], reason: str) -> None:
    """One line each, with the key."""
    settings = {key: value for key, value in {**CONTROLLER, **changes}.items() if value is not None}
    (found,) = problems(overrides=settings)
    assert reason in found


@pytest.mark.parametrize("value", ["2", "0"])
def test_several_processes_are_refused(value: str) -> None:
    """Earlier versions had them. One process is what a broker has."""
    (found,) = problems(overrides={"num.workers": value})
    assert f"num.workers={value}" in found
    assert "start several brokers of one cluster" in found
    load(overrides={"num.workers": "1"})


MEMBER = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092",
}


def test_member_knows_the_listener_of_its_controllers() -> None:
    assert load(overrides=MEMBER).listening.to_controllers == ("CONTROLLER", "PLAINTEXT")
    mapped = {**MEMBER, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"}
    assert load(overrides=mapped).listening.to_controllers == ("CONTROLLER", "SASL_SSL")
    assert load(overrides=MEMBER).is_member
    assert not load().is_member


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"controller.quorum.voters": "1@localhost:9093,2@localhost:9094"}, "node id 1 must not be included"),
        ({"controller.quorum.bootstrap.servers": ""}, "set controller.quorum.bootstrap.servers"),
        ({"controller.listener.names": None}, "must contain at least one value"),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "not found in listener.security.protocol.map"),
    ],
)
def test_values_that_describe_no_member(changes: dict[str, str | None], reason: str) -> None:
    """One line each."""
    settings = {key: value for key, value in {**MEMBER, **changes}.items() if value is not None}
    (found,) = problems(overrides=settings)
    assert reason in found


def test_quorum_of_several_controllers_is_rejected() -> None:
    """A node that started alone would be a second cluster beside the one of its quorum."""
    combined = {**MEMBER, "process.roles": "broker,controller", "listeners": "PLAINTEXT://:1,CONTROLLER://:2"}
    voters = "1@localhost:9093,2@localhost:9094"
    (found,) = problems(overrides={**combined, "controller.quorum.voters": voters})
    assert "a quorum of several controllers is not supported (others: 2)" in found
    load(overrides={**combined, "controller.quorum.voters": "1@localhost:9093"})


def test_java_classes_have_a_warning() -> None:
    """Users of a plugin have to know that it does not run."""
    config = load(
        overrides={
            "create.topic.policy.class.name": "org.example.Policy",
            "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        }
    )

    assert len(config.warnings) == 1
    assert "create.topic.policy.class.name" in config.warnings[0]


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    """It is not an error in the content."""
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.properties")


def test_problems_of_all_kinds_are_reported_at_once(file: Path) -> None:
    """Values, rules, invalid listeners, unknown keys with `strict`; but no problems that only follow from a bad
    value.
    """
    file.write_text(
        "num.partitions=zero\nlog.retention.ms=0\nlisteners=PLAINTEXT://a:99999,nonsense\n"
        "advertised.listeners=FOO://a:1\nno.such.key=1\nqueued.max.request.bytes=7\nsocket.request.max.bytes=many\n"
    )

    found = problems(file, strict=True)
    assert sorted(line.removeprefix(f"{file}:").split(":")[0] for line in found) == ["1", "2", "3", "3", "4", "5", "7"]


def test_warnings_are_reported_with_problems(file: Path) -> None:
    """A mistyped key may be the reason of a problem."""
    file.write_text("num.partition=2\nlisteners=nonsense\n")
    with pytest.raises(ConfigError) as refused:
        load(file)

    assert refused.value.warnings == (
        f"{file}:1: num.partition: unknown key, did you mean num.partitions?; it has no effect",
    )


def test_duplicate_entries_of_a_list_have_a_warning(file: Path) -> None:
    """As on Apache Kafka 4.3.1, they count once."""
    file.write_text("log.dirs=/a,/b,/a\n")
    config = load(file)

    assert config.log_dirs == ("/a", "/b")
    assert config.warnings == (f"{file}:1: log.dirs=/a,/b,/a has a duplicate entry: using /a,/b",)


def test_keys_of_controllers_have_an_effect_in_controllers() -> None:
    """All other nodes warn about them."""
    key = "metadata.max.idle.interval.ms"
    assert not [line for line in load(overrides={**CONTROLLER, key: "100"}).warnings if key in line]
    (line,) = [line for line in load(overrides={**MEMBER, key: "100"}).warnings if key in line]
    assert "only the controller of a cluster uses it" in line
