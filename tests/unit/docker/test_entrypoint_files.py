"""The image's entry point: files of other systems, and variables that other images and orchestrators set."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("-----BEGIN-----\nMIIB\n-----END-----\n", "-----BEGIN-----\nMIIB\n-----END-----"),
        ("-----BEGIN-----\r\nMIIB", "-----BEGIN-----\nMIIB"),
        ('Module required \\\n  user="a" \\\n  password="b";\n', 'Module required user="a" password="b";'),
        ("C:\\\\\nnext.key=1", "C:\\\nnext.key=1"),
        ("one\n", "one"),
    ],
)
def test_value_of_several_lines_is_one_property(files: tuple[Path, Path], value: str, read: str) -> None:
    """A certificate in PEM, or the lines of a JAAS entry that backslashes join, as other images need them."""
    text = entrypoint.configuration({"KAFKA_SSL_KEYSTORE_KEY": value}, *files)
    assert entrypoint.entries(text) == {"ssl.keystore.key": read, "log.dirs": "/var/lib/kafka/data"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("KAFKA_URL", "https://mirror.example/kafka_2.13-4.1.1.tgz"), ("KAFKA_HEAP_OPTS", "-Xmx128m -Xms128m")],
)
def test_variable_of_a_script_alone_changes_no_file(files: tuple[Path, Path], name: str, value: str) -> None:
    """In some versions of Kafka's image it replaced the whole file by one wrong line."""
    assert entrypoint.configuration({name: value}, *files) == entrypoint.configuration({}, *files)


def test_health_check_needs_no_name_of_the_container() -> None:
    """Docker Swarm resolves a service's name only once the container is healthy."""
    environ = {
        "KAFKA_CFG_LISTENERS": "CLIENT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
        "KAFKA_CFG_ADVERTISED_LISTENERS": "CLIENT://kafka:9092",
        "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    text = entrypoint.configuration(environ, Path("none"), Path("none"))
    assert entrypoint.asked_at(text, {}) == ("localhost", 9092, False)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_mounted_file_of_another_system(files: tuple[Path, Path], end: str, mark: str) -> None:
    """With a byte order mark and other line ends. The health check asks at its listener."""
    mounted, _ = files
    mounted.write_bytes((mark + end.join(("listeners=HOST://:9095", "log.dirs=/mounted", ""))).encode())
    environ = {"KAFKA_ADVERTISED_LISTENERS": "HOST://example:9096", "KAFKA_MESSAGE_MAX_BYTES": "7"}
    text = entrypoint.configuration(environ, *files)
    mounted.write_text(text)
    config = load(
        mounted, overrides={"listener.security.protocol.map": "HOST:PLAINTEXT", "inter.broker.listener.name": "HOST"}
    )

    assert (str(config.listeners[0]), config.log_dirs) == ("HOST://:9095", ("/mounted",))
    assert config.get_int("message.max.bytes") == 7
    assert entrypoint.asked_at(text, {}) == ("localhost", 9095, False)


def test_mounted_file_in_latin_1(files: tuple[Path, Path]) -> None:
    mounted, _ = files
    mounted.write_bytes("# grö\nlog.dirs=/dä\n".encode("latin-1"))
    mounted.write_text(entrypoint.configuration({}, *files))

    assert load(mounted).log_dirs == ("/dä",)


@pytest.mark.parametrize(("data", "line"), [("a=1".encode("utf-16"), 1), (b"a=1\r\nb=\0", 2), (b"a=1\n\n\nb=\\u12", 4)])
def test_mounted_file_that_cannot_be_read(files: tuple[Path, Path], data: bytes, line: int) -> None:
    """The container ends with one line, which has file and line."""
    mounted, _ = files
    mounted.write_bytes(data)
    with pytest.raises(SystemExit, match=rf"^{mounted}:{line}: [^\n]+$"):
        entrypoint.configuration({}, *files)


@pytest.mark.parametrize(
    "data", [b"p\xc3\xa4ss", b"\xef\xbb\xbfp\xc3\xa4ss\r\n", b"p\xe4ss\n", b"p\xe4ss\r", b"p\xe4ss\r\n\r\n"]
)
def test_password_file_of_another_system(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "key").write_bytes(data)
    found = entrypoint.secrets_of({"KAFKA_SSL_KEY_CREDENTIALS": "key"}, tmp_path)

    assert found == {"ssl.key.password": "päss"}
