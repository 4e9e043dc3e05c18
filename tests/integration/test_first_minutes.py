"""The commands of the page "first minutes", except those that install, do what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from bench.first_minutes import STEPS, take
from tests.support.ports import free_port

PAGE = (Path(__file__).parents[2] / "docs/how-it-works/first-minutes.md").read_text()
SHOWN = re.search(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
INSTALLING = 2


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    """In an empty directory, with `pybroker` on PATH. Process id and port may differ."""
    port = free_port()
    programs = tmp_path / "programs"
    programs.mkdir()
    command = programs / "pybroker"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m pybroker "$@"\n')
    command.chmod(0o755)
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(f'[here]\nbootstrap-server = "127.0.0.1:{port}"\n')
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYBROKER_PROFILES": str(profiles),
    }
    folder = tmp_path / "empty"
    folder.mkdir()
    steps = [re.sub("9092", str(port), step) for step in STEPS[INSTALLING:]]
    steps = [re.sub(r"greetings\b", "greetings --profile here", step, count=1) for step in steps]
    try:
        done = take(steps, folder, environment)
    finally:
        subprocess.run([command, "stop"], cwd=folder, check=False)
    assert SHOWN is not None
    shown = re.split(r"^\[.*\] \$ .*\n", SHOWN[1], flags=re.MULTILINE)[1 + INSTALLING :]
    printed = [re.sub(r"process \d+", "process N", each.printed).replace(str(port), "9092") for each in done]
    assert printed == [re.sub(r"process \d+", "process N", each) for each in shown]
