"""Start errors and settings of tiered storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from config import BrokerConfig, ConfigError, load
from config.tiering import MetadataTopic, located, metadata_topic, storage_settings
from controller.auto_topic_creation import creatable_topic
from metadata.topic_names import REMOTE_LOG_METADATA
from remote.errors import SettingError

LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
GIVEN = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": LOCAL_CLASS,
    "rsm.config.dir": "/remote",
}
PREFIX = "rlmm.config.remote.log.metadata.topic"


def started(**settings: str | None) -> BrokerConfig:
    """Load the configuration of a start; None removes a key, and `__` is a dot in a name."""
    given = GIVEN | {key.replace("__", "."): text for key, text in settings.items()}
    return load(overrides={key: text for key, text in given.items() if text is not None}, to_serve=True)


def test_system_is_off_by_default() -> None:
    """Without the switch no other key is checked: a file for Kafka may name any class."""
    config = load(overrides={"remote.log.storage.manager.class.name": "com.example.Own"}, to_serve=True)

    assert config.get_bool("remote.log.storage.system.enable") is False
    assert config.warnings == ()


def test_settings_of_the_storage_have_a_prefix() -> None:
    assert storage_settings(started()) == (LOCAL_CLASS, {"dir": "/remote"}, "rsm.config.")
    own = started(remote__log__storage__manager__impl__prefix="own.", own__dir="/elsewhere", rsm__config__dir="/unused")
    assert storage_settings(own) == (LOCAL_CLASS, {"dir": "/elsewhere"}, "own.")
    assert own.warnings == ()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {"remote__log__storage__manager__class__name": None},
            "remote.log.storage.manager.class.name: must be set; allowed: "
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage, ",
        ),
        (
            {"remote__log__storage__manager__class__name": "com.example.Own"},
            "--override: remote.log.storage.manager.class.name=com.example.Own: this storage class is not supported; "
            "allowed: org.apache.kafka.server.log.remote.storage.LocalTieredStorage, ",
        ),
        ({"rsm__config__dir": None}, "rsm.config.dir: must be set"),
        (
            {"log__dirs": "/data/1,/data/2/", "rsm__config__dir": "/data/2/remote"},
            "--override: rsm.config.dir=/data/2/remote: is within the log directory /data/2; "
            "allowed: a directory beside log.dirs",
        ),
        (
            {"remote__log__metadata__manager__class__name": "com.example.Own"},
            "--override: remote.log.metadata.manager.class.name=com.example.Own: "
            "this metadata class is not supported; allowed: org.apache.kafka.",
        ),
        (
            {"remote__log__metadata__manager__listener__name": "INNER"},
            "--override: remote.log.metadata.manager.listener.name=INNER: "
            "Should be set as a listener name within valid broker listener name list; allowed: PLAINTEXT",
        ),
        (
            {f"{PREFIX}.num.partitions".replace(".", "__"): "0"},
            "--override: rlmm.config.remote.log.metadata.topic.num.partitions=0: Value must be at least 1; "
            "allowed: [1,...]",
        ),
        (
            {f"{PREFIX}.retention.ms".replace(".", "__"): "0"},
            "--override: rlmm.config.remote.log.metadata.topic.retention.ms=0: Value must be -1 or at least 1; "
            "allowed: -1 or [1,...]",
        ),
        (
            {f"{PREFIX}.replication.factor".replace(".", "__"): "x"},
            "--override: rlmm.config.remote.log.metadata.topic.replication.factor=x: Not a number of type SHORT; "
            "allowed: short [1,...]",
        ),
        (
            {"log__retention__ms": "5", "log__local__retention__ms": "6"},
            "--override: log.local.retention.ms=6: Value must not be more than log.retention.ms property value: 5",
        ),
        (
            {"log__retention__bytes": "5", "log__local__retention__bytes": "-1"},
            "--override: log.local.retention.bytes=-1: Value must not be -1 as log.retention.bytes value is set as 5.",
        ),
    ],
)
def test_settings_that_stop_a_start(settings: dict[str, str | None], line: str) -> None:
    """One problem, with the origin, the key, the value and what is allowed."""
    with pytest.raises(ConfigError) as refused:
        started(**settings)

    [problem] = refused.value.problems
    assert str(problem).startswith(line)


def test_problem_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("remote.log.storage.system.enable=true\nremote.log.storage.manager.class.name=com.example.Own\n")

    with pytest.raises(ConfigError) as refused:
        load(path, to_serve=True)
    assert str(refused.value.problems[0]).startswith(f"{path}:2: remote.log.storage.manager.class.name=com.example.Own")


@pytest.mark.parametrize("directory", ["/data", "/data/11", "/elsewhere"])
def test_remote_storage_beside_the_logs(directory: str) -> None:
    """Also around them, and with a name that begins alike."""
    assert started(log__dirs="/data/1", rsm__config__dir=directory).warnings == ()


def test_secrets_may_be_elsewhere(tmp_path: Path) -> None:
    """In a variable of the environment, or in a file. An error of the storage shows neither."""
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("dir=/hidden\n")
    given = GIVEN | {"config.providers": "file", "rsm.config.dir": f"${{file:{secrets}:dir}}"}
    given["config.providers.file.class"] = "org.apache.kafka.common.config.provider.FileConfigProvider"
    config = load(overrides=given, environ={"PYBROKER_RSM_CONFIG_DELETE_ENABLE": "false"}, to_serve=True)

    assert storage_settings(config).settings == {"dir": "/hidden", "delete.enable": "false"}
    problem = located(config, SettingError("rsm.config.dir", "/hidden", "/hidden cannot be made"))
    assert "/hidden" not in str(problem)
    assert str(problem).startswith(
        f"--override: rsm.config.dir=${{file:{secrets}:dir}}: the value from a config provider"
    )


def test_listener_is_found_in_any_case() -> None:
    """Kafka normalises its name."""
    assert started(remote__log__metadata__manager__listener__name="plaintext").warnings == ()


def test_settings_without_effect_are_warned_of() -> None:
    config = started(
        rlmm__config__remote__log__metadata__topic__num__partition="5",
        rlmm__config__remote__log__metadata__consumer__max__poll__records="5",
        rlmm__config__remote__log__metadata__consume__wait__ms="5",
    )

    assert sorted(config.warnings) == [
        "--override: rlmm.config.remote.log.metadata.consume.wait.ms: "
        "has no effect here: a record counts as soon as it is written",
        "--override: rlmm.config.remote.log.metadata.consumer.max.poll.records: "
        "has no effect here: no client is needed for __remote_log_metadata",
        "--override: rlmm.config.remote.log.metadata.topic.num.partition: unknown key, "
        "did you mean rlmm.config.remote.log.metadata.topic.num.partitions?; it has no effect",
    ]


def test_local_retention_may_be_wrong_without_the_system() -> None:
    """Kafka checks it only where it counts."""
    wrong = {"log.retention.ms": "5", "log.local.retention.ms": "6"}

    assert load(overrides=wrong, to_serve=True).get_int("log.local.retention.ms") == 6


def test_metadata_topic_by_default() -> None:
    """Kafka's defaults need three brokers; here fewer are enough unless the numbers are set."""
    assert metadata_topic(started(), brokers=1) == MetadataTopic(50, 1, 1, -1)
    assert metadata_topic(started(), brokers=5) == MetadataTopic(50, 3, 2, -1)


def test_metadata_topic_as_set() -> None:
    config = started(
        rlmm__config__remote__log__metadata__topic__num__partitions="7",
        rlmm__config__remote__log__metadata__topic__replication__factor="4",
        rlmm__config__remote__log__metadata__topic__min__isr="3",
        rlmm__config__remote__log__metadata__topic__retention__ms="86400000",
    )

    topic = creatable_topic(config, REMOTE_LOG_METADATA, brokers=1)
    assert (topic.num_partitions, topic.replication_factor) == (7, 4)
    assert topic.configs == {
        "cleanup.policy": "delete",
        "min.insync.replicas": "3",
        "remote.storage.enable": "false",
        "retention.ms": "86400000",
    }


def test_controllers_have_no_storage() -> None:
    """A controller of others checks topics, so it needs the switch alone."""
    overrides = {
        "remote.log.storage.system.enable": "true",
        "process.roles": "controller",
        "node.id": "7",
        "listeners": "CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:9093",
    }

    assert load(overrides=overrides, to_serve=True).is_controller
