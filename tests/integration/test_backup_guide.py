"""The commands of docs/guides/backup.md back up a broker, check the copy and restore it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.data_client import DataClient, batch
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guides/backup.md").read_text()
BACKUP, VERIFY, RESTORE = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_restored_broker_has_the_state_of_the_backup(tmp_path: Path) -> None:
    """Records written after the backup are missing. Everything else is there."""
    port = free_port()
    (tmp_path / "config").mkdir()
    shutil.copy(ROOT / "config/server.properties", tmp_path / "config")
    command = tmp_path / "pybroker"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m pybroker "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYBROKER_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
    }

    def run(script: str) -> str:
        shell = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        run("pybroker serve config/server.properties --daemon")
        with DataClient("127.0.0.1", port) as client:
            client.create_topic("orders")
            client.produce("orders", batch(b"two apples"))
        run(BACKUP)
        with DataClient("127.0.0.1", port) as client:
            client.produce("orders", batch(b"one pear"))
        assert "no problems" in run(VERIFY)
        run(RESTORE)
        with DataClient("127.0.0.1", port) as client:
            assert client.values("orders") == [b"two apples"]
    finally:
        subprocess.run([command, "stop"], cwd=tmp_path, env=environment, check=False)
