"""`pybroker serve --daemon`: an interrupted start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.cli import daemon


def test_interrupt_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its own session and would run on. Its PID file is removed."""
    brokers: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def slow(_: object, **options: object) -> subprocess.Popen[bytes]:
        code = "import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(600)"
        brokers.append(popen([sys.executable, "-c", code], **options))  # type: ignore[call-overload]
        return brokers[0]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(daemon.subprocess, "Popen", slow)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            daemon.start(["--daemon"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert brokers[0].returncode == -signal.SIGTERM
    assert os.listdir(tmp_path) == ["pybroker.log"]
