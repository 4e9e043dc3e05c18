"""kafkajs against the broker: administration, an idempotent producer, a group."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker
from tests.support.moved_records import check_round_trip
from tests.support.scale import scaled
from tests.support.toolchains import node_program

DIRECTORY = Path(__file__).parent / "node"


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_kafkajs_round_trip(reference: RunningBroker, name: str, codec: str) -> None:
    """kafkajs reads its own records back as a member of a group, whose offsets are then committed."""
    check_round_trip(node_program(DIRECTORY, "round_trip.js"), reference.bootstrap, name, scaled(200), codec)


def test_broker_of_a_node_programs_own(tmp_path: Path) -> None:
    """The lines of docs/reference/testing.md: a program starts a broker, finds its address, writes, reads, and stops
    it.
    """
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "testing.md").read_text()
    (lines,) = re.findall(r"^```js\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    node, program = node_program(DIRECTORY, "round_trip.js")
    script = Path(program).with_name(f"own_broker_{os.getpid()}.js")  # beside its packages
    script.write_text(lines)
    command = tmp_path / "pybroker"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pybroker "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            [node, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
    finally:
        script.unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["read"], told["code"]) == ("two apples", 0)
    assert not Path(told["data"]).exists()
