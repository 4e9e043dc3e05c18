"""How the tests find a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import browsers


def test_npm_without_its_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed browser will do. Without one, tests are skipped with npm's message, and fail in CI."""

    def program(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    program("npm", "echo no registry >&2; exit 1")
    for ci, outcome in (("", pytest.skip.Exception), ("true", pytest.fail.Exception)):
        monkeypatch.setenv("CI", ci)
        with pytest.raises(outcome, match=r"npm does not bring one: .*no registry"):
            browsers._found()
    program("chromium", "")
    assert browsers._found() == (str(tmp_path / "chromium"), {})
