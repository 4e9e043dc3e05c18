"""Files that are none, given to each command that reads a file: a line on standard error, exit code 1 or 2."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.brokers import OurBroker

BROKER = ["-b", "BROKER"]
#: Command lines with FILE, by the names of the tests.
COMMANDS: dict[str, Sequence[str]] = {
    "config": ["config", "validate", "FILE"],
    "format": ["format", "--config", "FILE", "--cluster-id", "AAAAAAAAQACAAAAAAAAAAQ"],
    "command-config": ["topics", "list", "--command-config", "FILE", *BROKER],
    "produce": ["produce", "t", "FILE", "--command-config", "FILE", *BROKER],
    "position": ["produce", "t", __file__, "--follow", "--position", "FILE", *BROKER],
    "password": ["users", "create", "u", "--password-file", "FILE", *BROKER],
    "offsets": ["groups", "reset-offsets", "g", "--from-file", "FILE", *BROKER],
    "settings": ["configs", "alter", "--topic", "t", "--add-config-file", "FILE", *BROKER],
    "source": ["mirror", "--source", "BROKER", "--source-config", "FILE", "--topic", "t", *BROKER],
    "replay": ["replay", "FILE", "--bootstrap-server", "BROKER"],
    "stop": ["stop", "--pid-file", "FILE"],
    "doctor": ["doctor", "FILE"],
    "serve": ["FILE"],
    "pipeline": ["pipeline", "check", "FILE"],
}
CONTENTS = {"utf-16": "client.id=x\n".encode("utf-16"), "zeros": b"client.id\0=x\n"}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OurBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("command", COMMANDS)
def test_nonsense_is_reported_in_a_line(command: str, bootstrap: str, tmp_path: Path) -> None:
    files = [tmp_path / name for name in [*CONTENTS, "missing", "directory", "pipe"]]
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it
    for file in (*files, Path("/dev/zero")):
        if command == "position" and not file.exists():
            continue  # it will be written
        words = [word.replace("FILE", str(file)).replace("BROKER", bootstrap) for word in COMMANDS[command]]
        done = subprocess.run(
            [sys.executable, "-m", "pybroker", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
        lines = (done.stdout + done.stderr).splitlines()
        assert done.returncode in (1, 2), (file, lines)
        assert any(str(file) in line for line in lines), (file, lines)
        assert "Traceback" not in done.stderr
