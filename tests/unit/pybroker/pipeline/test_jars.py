"""Jars: downloaded once by Maven or Ivy, verified, and cached."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pybroker.pipeline import jars
from pybroker.pipeline.jars import Artifact, JarsUnavailableError, resolve

CONTENT = b"content of the jar"
PINNED = Artifact("org.example", "thing", "1.0", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no Ivy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "find_spec", lambda _: None)
    monkeypatch.setattr(jars.shutil, "which", lambda _: None)
    return tmp_path / "cache" / "pybroker"


def fake_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Install an mvn that runs `script` with the target directory as $out, and counts its calls."""
    tool = tmp_path / "bin" / "mvn"
    tool.parent.mkdir(exist_ok=True)
    out = 'for a in "$@"; do case "$a" in -DoutputDirectory=*) out="${a#*=}";; esac; done; mkdir -p "$out"'
    tool.write_text(f"#!/bin/sh\necho x >> {tmp_path}/calls\n{out}\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(jars.shutil, "which", lambda _: str(tool))
    return tmp_path / "calls"


def test_jars_are_downloaded_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later they come from the cache."""
    calls = fake_maven(tmp_path, monkeypatch, f'printf "{CONTENT.decode()}" > "$out/thing-1.0.jar"')

    assert resolve("set", [PINNED]) == resolve("set", [PINNED]) == [cache / "set" / "thing-1.0.jar"]
    assert calls.read_text() == "x\n"


def test_maven_and_ivy_select_a_classifier(tmp_path: Path) -> None:
    """A jar of tests has the coordinates of its artifact, and a classifier."""
    tests = Artifact("org.example", "thing", "1.0", classifier="test")
    jars._maven_command([tests, PINNED], tmp_path, False)

    assert tests.file_name == "thing-1.0-test.jar"
    assert (tmp_path / "pom.xml").read_text().count("<classifier>test</classifier>") == 1
    assert jars._ivy_artifact(tests) == '<artifact name="thing" m:classifier="test" type="jar" ext="jar"/>'
    assert jars._ivy_artifact(PINNED) == ""


def test_content_that_differs_from_its_pin_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SHA-256; it is not cached."""
    fake_maven(tmp_path, monkeypatch, 'printf "something else" > "$out/thing-1.0.jar"')

    with pytest.raises(JarsUnavailableError, match="SHA-256"):
        resolve("set", [PINNED])
    assert not (cache / "set").exists()


def test_changed_jar_in_the_cache_is_refused(cache: Path) -> None:
    """The cache is verified each time."""
    (cache / "set").mkdir(parents=True)
    (cache / "set" / "thing-1.0.jar").write_bytes(b"changed")

    with pytest.raises(JarsUnavailableError, match="SHA-256"):
        resolve("set", [PINNED])


def test_missing_tools_are_named(cache: Path) -> None:
    """With the reason for each."""
    with pytest.raises(JarsUnavailableError, match=r"org.example:thing:1.0: Maven: mvn is not on PATH; Ivy: PySpark"):
        resolve("set", [PINNED])


def test_broken_connection_is_retried(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that does not repeat is not reported."""
    fails_once = f'[ "$(wc -l < {tmp_path}/calls)" -gt 1 ] || exit 1'
    fake_maven(tmp_path, monkeypatch, f'{fails_once}; printf "{CONTENT.decode()}" > "$out/thing-1.0.jar"')

    assert resolve("set", [PINNED]) == [cache / "set" / "thing-1.0.jar"]


def test_failure_of_maven_has_its_error_lines(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_maven(tmp_path, monkeypatch, 'echo "[ERROR] no such artifact"; exit 1')

    with pytest.raises(JarsUnavailableError, match="no such artifact"):
        resolve("set", [PINNED])
