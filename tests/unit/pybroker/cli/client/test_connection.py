"""The broker that a command connects to."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.cli import produce
from pybroker.cli.client.connection import Connection, connection, connection_of
from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.options import ClientParser

PROFILES = """\
[far]
bootstrap-server = "far:1"
"sasl.username" = "ann"
"client.id" = "profile"
[old]
"bootstrap.servers" = "old:1"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with profiles and properties files."""
    (tmp_path / "profiles.toml").write_text(PROFILES)
    (tmp_path / "file").write_text("bootstrap.servers=file:1\nclient.id=file\n")
    (tmp_path / "list").write_text("metadata.broker.list=list:1\n")
    monkeypatch.setenv("PYBROKER_PROFILES", str(tmp_path / "profiles.toml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "server"),
    [
        ("", "localhost:9092"),
        ("--profile far", "far:1"),
        ("--profile old", "old:1"),
        ("--profile far --command-config file", "file:1"),
        ("--profile far --command-config list", "list:1"),
        ("--profile far --command-config file -X bootstrap.servers=x:1", "x:1"),
        ("--command-config file -X metadata.broker.list=x:1", "x:1"),
        ("--profile far --bootstrap-server here:1", "here:1"),
        ("-b here:1", "here:1"),
        ("-b PLAINTEXT://here:1,there:2", "PLAINTEXT://here:1,there:2"),
        ("--profile old --bootstrap-server here:1", "here:1"),
        ("--command-config list --bootstrap-server here:1", "here:1"),
        ("--command-config file -X bootstrap.servers=x:1 --bootstrap-server here:1", "here:1"),
    ],
)
def test_command_line_has_priority_over_file_and_profile(words: str, server: str) -> None:
    """The client's properties have no second address."""
    parser = ClientParser("pybroker things", "Things.")
    parser.add_client_options()
    for options in (parser.parse(words.split()), produce.command_line().parse_args(["--topic", "t", *words.split()])):
        found = connection_of(options)
        assert found.server == server
        assert not found.properties.keys() & {"bootstrap.servers", "metadata.broker.list"}


def test_properties_of_all_sources_are_merged(folder: Path) -> None:
    """Under librdkafka's names."""
    given = [("ssl.truststore.location", "/ca")]
    found = connection(None, 2.5, profile="far", file=folder / "file", properties=given)
    properties = {"sasl.username": "ann", "client.id": "file", "ssl.ca.location": "/ca"}
    assert found == Connection("file:1", 2.5, properties)


def test_empty_address_is_an_error() -> None:
    """It does not mean the default address."""
    for text in ("", " ", ",", " , "):
        with pytest.raises(UsageError, match="which broker"):
            connection(text, 1)
    with pytest.raises(UsageError, match="which broker"):
        connection(None, 1, properties=[("bootstrap.servers", "")])


@pytest.mark.parametrize("key", ["print.key", "parse.key", "key.separator"])
def test_properties_of_console_tools_are_no_client_properties(key: str) -> None:
    """librdkafka does not know them; commands have options for them."""
    with pytest.raises(UsageError, match=rf"^{key} is not a property of the client: .*--(format|key-separator) of "):
        connection(None, 1.0, properties=[(key, "true")])


def test_url_is_no_bootstrap_server() -> None:
    """librdkafka would only report that no broker is configured."""
    with pytest.raises(UsageError, match=r"^http://here:1/: a broker does not speak http: HOST:PORT, as in here:1$"):
        connection("there:1,http://here:1/", 1.0)
