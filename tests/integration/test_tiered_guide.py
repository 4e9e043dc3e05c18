"""The lines of docs/guides/tiered-storage.md turn tiered storage on, and off again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from config import load
from config.properties import parse_properties
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.tiered_brokers import remote_directory
from tests.support.tiered_client import EARLIEST, TieredClient, await_remote, remote_starts

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guides/tiered-storage.md").read_text()
PROPERTIES = re.findall(r"^```properties\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CREATE, DEFAULTS, READ_ONLY, OFF = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def properties_of(block: str) -> dict[str, str]:
    return {each.key: each.value for each in parse_properties(block.encode())}


@pytest.mark.parametrize("block", PROPERTIES)
def test_start_accepts_the_properties(block: str) -> None:
    assert load(overrides=properties_of(block), to_serve=True).warnings == ()


def test_lines_of_the_guide(tmp_path: Path) -> None:
    """A topic is copied, becomes read-only, and what is remote is deleted."""
    properties = properties_of(PROPERTIES[0])
    assert properties["rsm.config.dir"] == "/mnt/archive"
    quick = {"rsm.config.dir": str(tmp_path / "archive"), "remote.log.manager.task.interval.ms": "100"}
    remote = remote_directory(tmp_path / "archive")

    with OurBroker(tmp_path / "broker", {**properties, **quick}) as broker, TieredClient(HOST, broker.port) as client:

        def run(lines: str) -> None:
            command = f"{sys.executable} -m pybroker"
            script = re.sub(r"^pybroker (\w+)", rf"{command} \1", lines, flags=re.MULTILINE).rstrip()
            script = f"{script} --bootstrap-server {broker.bootstrap}"
            done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stdout + done.stderr

        run(CREATE)
        client.set_topic_config("clicks", "internal.segment.bytes", "1000")
        for offset in range(3):
            assert client.produce("clicks", batch(bytes(900))) == offset
        await_remote(remote, "clicks", [0, 1])

        run(DEFAULTS)
        run(READ_ONLY)
        assert client.produce("clicks", batch(bytes(900))) == 3
        run(OFF)

        eventually(lambda: remote_starts(remote, "clicks"), equal_to=[], retried=OSError)
        assert client.offsets("clicks", [EARLIEST])[0].startswith("0 at"), "all records are still local"
