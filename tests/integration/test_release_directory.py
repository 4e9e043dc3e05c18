"""This tree opens a log directory that a release of pybroker wrote, and continues it."""

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.release_directory import GROUP, T0, contents, releases


def served(broker: OurBroker) -> dict[str, Any]:
    with DataClient(HOST, broker.port) as client:
        return contents(client)


@pytest.mark.parametrize("directory", releases(), ids=lambda path: path.name)
def test_directory_of_a_release_is_served(directory: Path, tmp_path: Path) -> None:
    """Topics, configs, records and committed offsets are unchanged, also after a stop and after kill -9."""
    shutil.copytree(directory, tmp_path / "logs", ignore=shutil.ignore_patterns("contents.json"))
    expected = json.loads((directory / "contents.json").read_text())
    broker = OurBroker(tmp_path)
    try:
        assert served(broker) == expected
        with DataClient(HOST, broker.port) as client:
            for name, topic in expected["topics"].items():
                start, end = topic["bounds"][0]
                assert client.produce(name, batch(b"more", key=b"key", timestamp=T0)) == end
                assert client.bounds(name) == (start, end + 1)
            client.commit(GROUP, {("codecs", 0): 38})
            written = contents(client)
        broker.stop()
        broker.start()
        assert served(broker) == written
        broker.kill()
        broker.start()
        assert served(broker) == written
    finally:
        broker.stop()


def test_this_release_has_a_directory() -> None:
    """tests/support/release_directory.py writes one when the version is raised."""
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    version = tomllib.loads(pyproject.read_text())["project"]["version"]
    assert f"pybroker-{version}" in {path.name for path in releases()}
