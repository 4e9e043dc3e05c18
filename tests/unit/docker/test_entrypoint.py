"""The image's entry point: how it uses environment variables and mounted files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from config import load
from tests.support.image_entrypoint import entrypoint


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A mounted file, which does not exist yet, and the image's default."""
    default = tmp_path / "default.properties"
    default.write_text("listeners=HOST://:9092\nlog.dirs=/default\n")
    return tmp_path / "mounted.properties", default


def test_variables_are_properties_as_in_kafkas_image() -> None:
    """Dots are _, underscores __, dashes ___. Variables of its scripts and of Kubernetes are no properties."""
    environ = {
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LISTENER_NAME_PLAINTEXT__HOST_MAX_CONNECTIONS": "5",
        "KAFKA_A___B": "dash",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_JMX_PORT": "9999",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "KAFKA_SERVICE_PORT_CLIENT": "9092",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "PATH": "/bin",
    }
    assert entrypoint.properties_from(environ) == {
        "num.partitions": "3",
        "listener.name.plaintext_host.max.connections": "5",
        "a-b": "dash",
        "pybroker.cluster.id": "4L6g3nShT-eMCtK--X86sw",
    }


def test_without_settings_the_images_own_file_is_used(files: tuple[Path, Path]) -> None:
    """Its log directory stays. A cluster id alone changes nothing else."""
    text = entrypoint.configuration({"CLUSTER_ID": "id"}, *files)

    assert text == "listeners=HOST://:9092\nlog.dirs=/default\n\npybroker.cluster.id=id\n"


def test_listeners_of_a_mounted_file_are_not_derived(files: tuple[Path, Path]) -> None:
    """Listeners are derived from the advertised ones only if nothing else sets them."""
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://host:29092"}
    files[0].write_text("listeners=PLAINTEXT://:9092\nlog.dir=/mounted")
    assert "0.0.0.0:29092" not in entrypoint.configuration(advertised, *files)
    files[0].write_text("log.dir=/mounted")
    assert "\nlisteners=PLAINTEXT://0.0.0.0:29092\n" in entrypoint.configuration(advertised, *files)


def test_variables_win_over_a_mounted_file(files: tuple[Path, Path]) -> None:
    """They follow the file's lines, and the last value counts."""
    files[0].write_text("num.partitions=1\nlog.dir=/mounted")

    text = entrypoint.configuration({"KAFKA_NUM_PARTITIONS": "3"}, *files)

    assert text == "num.partitions=1\nlog.dir=/mounted\nnum.partitions=3\n"


def test_variables_alone_leave_the_default_file_out(files: tuple[Path, Path]) -> None:
    """As in Kafka's image. Only the log directory is added."""
    assert entrypoint.configuration({"KAFKA_NODE_ID": "7"}, *files) == "\nnode.id=7\nlog.dirs=/var/lib/kafka/data\n"


@pytest.mark.parametrize(
    ("volume", "directory"),
    [
        ("/tmp/kraft-combined-logs", "/tmp/kraft-combined-logs"),
        ("/bitnami/kafka", "/bitnami/kafka/data"),
        ("/bitnami", "/bitnami/kafka/data"),
    ],
)
def test_volume_where_other_images_write_is_used(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, volume: str, directory: str
) -> None:
    """A compose file for another image keeps its data where it was."""
    monkeypatch.setattr(os.path, "ismount", lambda path: path == volume)

    assert f"log.dirs={directory}\n" in entrypoint.configuration({"KAFKA_NODE_ID": "7"}, *files)


@pytest.mark.parametrize(
    ("given", "option"), [("DEBUG", ["--log-level=debug"]), ("warn", ["--log-level=warning"]), ("", [])]
)
def test_log_level_of_kafkas_image(given: str, option: list[str]) -> None:
    """KAFKA_LOG4J_ROOT_LOGLEVEL. An unknown level is left out."""
    command = entrypoint.broker_command({"KAFKA_LOG4J_ROOT_LOGLEVEL": given}, Path("x"), ["--strict"])

    assert command == ["pybroker", "x", *option, "--strict"]


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ("", ("localhost", 9092, False)),
        ("listeners=HOST://:9093,CONTAINERS://:19092", ("localhost", 9093, False)),
        (
            "listeners=A://:1\nlisteners = CONTROLLER://:29093, PLAINTEXT://[::]:9094\ncontroller.listener.names=CONTROLLER",
            ("localhost", 9094, False),
        ),
        (
            "listeners=PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092\n"
            "controller.listener.names=CONTROLLER",
            ("broker", 29092, False),
        ),
        ("listeners=SSL://[::1]:9093", ("::1", 9093, True)),
        ("listeners=A://[::0]:9093", ("localhost", 9093, False)),
        ("listeners=A://[::ffff:0.0.0.0]:9093", ("localhost", 9093, False)),
        ("listeners=A://[fe80::1%eth0]:9093", ("fe80::1%eth0", 9093, False)),
        ("listeners=HOST://:9093,\\\r\n  OTHER://:9094\r\n", ("localhost", 9093, False)),
        ("listeners=B://b:1\rlisteners : HOST\\://\\:9093\r", ("localhost", 9093, False)),
        ("#listeners=B://b:1\\\nlisteners=HOST://:9093", ("localhost", 9093, False)),
        ("controller.listener.names=ctl\nlisteners=CTL://:1,HOST://:9093", ("localhost", 9093, False)),
        ("process.roles=controller\ncontroller.listener.names=CTL\nlisteners=CTL://:9093", ("localhost", 9093, False)),
        (
            "listeners=IN://:9093,OUT://0.0.0.0:9094,\nlistener.security.protocol.map=in:SASL_SSL, OUT:SASL_PLAINTEXT",
            ("localhost", 9094, False),
        ),
    ],
)
def test_health_check_uses_the_brokers_first_listener(config: str, where: tuple[str, int, bool]) -> None:
    """At the address that it binds, and without TLS if possible. Only a controller alone opens a controller's."""
    assert entrypoint.asked_at(config, {}) == where


def test_health_check_uses_the_effective_listeners() -> None:
    """PYBROKER_* variables override the file, for the broker and for the health check."""
    environ = {
        "PYBROKER_LISTENERS": "CTL://:9,IN://0.0.0.0:19092,OUT://:19093",
        "PYBROKER_LISTENER_SECURITY_PROTOCOL_MAP": "CTL:PLAINTEXT,IN:SSL,OUT:PLAINTEXT",
        "PYBROKER_CONTROLLER_LISTENER_NAMES": "CTL",
    }

    assert entrypoint.asked_at("listeners=PLAINTEXT://:9092", environ) == ("localhost", 19093, False)


def test_other_commands_run_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """docker run IMAGE pybroker --version."""
    ran: list[list[str]] = []
    monkeypatch.setattr(sys, "argv", ["entrypoint.py", "pybroker", "--version"])
    monkeypatch.setattr(os, "execvp", lambda _, command: ran.append(command))

    entrypoint.main()

    assert ran == [["pybroker", "--version"]]


def test_only_the_user_reads_a_containers_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables may hold passwords."""
    monkeypatch.setattr(sys, "argv", ["entrypoint.py", "run"])
    monkeypatch.setattr(os, "execvp", lambda *_: None)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    (tmp_path / "server.properties").write_text("of the image, and everybody's to read")
    monkeypatch.setenv("ENTRYPOINT_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("KAFKA_SSL_KEYSTORE_PASSWORD", "hidden")
    entrypoint.main()

    assert "ssl.keystore.password=hidden" in (tmp_path / "server.properties").read_text()
    assert (tmp_path / "server.properties").stat().st_mode & 0o777 == 0o600


def test_log_goes_to_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that wait for a log line read it there."""
    done: list[object] = []
    monkeypatch.setattr(sys, "argv", ["entrypoint.py", "start", "kafka.properties"])
    monkeypatch.setattr(os, "dup2", lambda *descriptors: done.append(descriptors))
    monkeypatch.setattr(os, "execvp", lambda _, command: done.append(command))

    entrypoint.main()

    assert done == [(1, 2), ["pybroker", "kafka.properties"]]


def test_confluents_images_swap_dashes_and_underscores() -> None:
    """The cluster id is left to that image's scripts."""
    environ = {
        "KAFKA_LISTENER_NAME_PLAINTEXT___HOST_MAX_CONNECTIONS": "5",
        "KAFKA_A__B": "dash",
        "KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG": "as it is",
        "KAFKA_REST_BOOTSTRAP_SERVERS": "localhost:9092",
        "KAFKA_DATA_DIRS": "/var/lib/kafka/data",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    }
    assert entrypoint.properties_from(environ, as_confluent=True) == {
        "listener.name.plaintext_host.max.connections": "5",
        "a-b": "dash",
        "listener.name.secure.scram-sha-512.sasl.jaas.config": "as it is",
    }


def test_listeners_are_the_advertised_ones_unless_given() -> None:
    """They bind all addresses. An empty item after a comma is no listener."""
    environ = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,HOST://localhost:9092,"}
    assert entrypoint.properties_from(environ) == {
        "listeners": "PLAINTEXT://0.0.0.0:29092,HOST://0.0.0.0:9092",
        "advertised.listeners": "PLAINTEXT://broker:29092,HOST://localhost:9092",
    }
    assert entrypoint.properties_from(environ | {"KAFKA_LISTENERS": "A://:1"})["listeners"] == "A://:1"


def test_stores_and_their_passwords_are_files_among_the_secrets(tmp_path: Path) -> None:
    """As in the images of Apache Kafka and of Confluent. A newline is not part of a password."""
    for name, text in {"k.jks": "", "t.jks": "", "store": "one\n", "key": "two", "trust": "three\n"}.items():
        (tmp_path / name).write_text(text)
    environ = {
        "KAFKA_SSL_KEYSTORE_FILENAME": "k.jks",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "store",
        "KAFKA_SSL_KEY_CREDENTIALS": "key",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "t.jks",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "trust",
        "KAFKA_SSL_CLIENT_AUTH": "required",
    }
    assert entrypoint.properties_from(environ, secrets=tmp_path) == {
        "ssl.client.auth": "required",
        "ssl.keystore.location": str(tmp_path / "k.jks"),
        "ssl.keystore.password": "one",
        "ssl.key.password": "two",
        "ssl.truststore.location": str(tmp_path / "t.jks"),
        "ssl.truststore.password": "three",
    }


def test_a_missing_secret_ends_the_start(tmp_path: Path) -> None:
    """The message names its variable."""
    with pytest.raises(SystemExit) as refused:
        entrypoint.properties_from({"KAFKA_SSL_KEY_CREDENTIALS": "missing"}, secrets=tmp_path)

    assert str(refused.value) == f"KAFKA_SSL_KEY_CREDENTIALS=missing: {tmp_path}/missing does not exist"


BITNAMI = {
    "KAFKA_CFG_LISTENERS": "CLIENT://:9092,SASL_PLAINTEXT://:9094",
    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "KAFKA_CFG_LISTENER_NAME_SASL_PLAINTEXT_SASL_ENABLED_MECHANISMS": "PLAIN",
    "KAFKA_ENABLE_KRAFT": "yes",
    "KAFKA_KRAFT_CLUSTER_ID": "LelM2dIFQkiUFvXCEcqRWA",
    "KAFKA_BROKER_ID": "3",
    "KAFKA_HEAP_OPTS": "-Xmx1g",
    "ALLOW_PLAINTEXT_LISTENER": "yes",
}


def test_variables_of_bitnamis_image() -> None:
    """Each _ is a dot, except in the names of protocols. Only KAFKA_CFG_* are properties."""
    assert entrypoint.properties_from(BITNAMI) == {
        "listeners": "CLIENT://:9092,SASL_PLAINTEXT://:9094",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "broker.id": "3",
        "pybroker.cluster.id": "LelM2dIFQkiUFvXCEcqRWA",
    }


def test_users_of_bitnamis_image_log_in_by_plain() -> None:
    """At each listener. Users of other mechanisms are not used."""
    properties = entrypoint.properties_from(
        BITNAMI | {"KAFKA_CLIENT_USERS": "ann,bob", "KAFKA_CLIENT_PASSWORDS": "one;two"}
    )

    assert properties["listener.name.sasl_plaintext.plain.sasl.jaas.config"] == (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="one" user_bob="two";'
    )


def test_certificates_of_bitnamis_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JKS with one password, or PEM with the key in another file. A truststore makes clients send certificates."""
    monkeypatch.setattr(entrypoint, "CERTIFICATES", [tmp_path])
    for name in ("keystore.jks", "truststore.jks", "keystore.pem", "keystore.key"):
        (tmp_path / f"kafka.{name}").write_text(f"{name}\nend\n")
    environ = {"KAFKA_CFG_LISTENERS": "SSL://:9093", "KAFKA_CERTIFICATE_PASSWORD": "word"}

    assert entrypoint.properties_from(environ) == {
        "listeners": "SSL://:9093",
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": str(tmp_path / "kafka.keystore.jks"),
        "ssl.keystore.password": "word",
        "ssl.key.password": "word",
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": str(tmp_path / "kafka.truststore.jks"),
        "ssl.truststore.password": "word",
        "ssl.client.auth": "required",
    }
    assert entrypoint.properties_from(environ | {"KAFKA_TLS_TYPE": "PEM"}) == {
        "listeners": "SSL://:9093",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "keystore.pem\\nend\\n",
        "ssl.keystore.key": "keystore.key\\nend\\n",
        "ssl.key.password": "word",
    }


def test_a_container_that_has_not_started_is_unhealthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it waits for a start script, its file does not exist."""
    monkeypatch.setattr(sys, "argv", ["entrypoint.py", "health"])
    monkeypatch.setenv("ENTRYPOINT_CONFIG_DIR", str(tmp_path))

    with pytest.raises(SystemExit) as ended:
        entrypoint.main()
    assert ended.value.code == 1


def test_topics_of_wurstmeisters_image_are_created() -> None:
    """With one replica in any case."""
    given = {"KAFKA_CREATE_TOPICS": "orders:3:1, last:1:2:compact\nplain"}
    assert entrypoint.properties_from(given) == {"pybroker.topics": "orders:3;last:1:cleanup.policy=compact;plain"}
    text = entrypoint.properties_from(given)["pybroker.topics"]
    assert [each.name for each in load(overrides={"pybroker.topics": text}).declared_topics] == [
        "orders",
        "last",
        "plain",
    ]
