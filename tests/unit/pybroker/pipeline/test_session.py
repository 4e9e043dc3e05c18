"""The Java that Spark is started with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pybroker.pipeline import session
from pybroker.pipeline.jars import Artifact
from pybroker.pipeline.java import Java
from tests.support.specifications import document, loaded


def fake_java(tmp_path: Path, modules: str) -> Java:
    """A java that lists its modules, and else prints its arguments."""
    launcher = tmp_path / "a home" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f'#!/bin/sh\ncase "$*" in --list-modules) echo "{modules}" ;; *) printf "<%s>" "$@" ;; esac\n')
    launcher.chmod(0o755)
    return Java(launcher, 21, ("-Doption=with space",))


def test_java_with_the_module_is_used_as_it_is(tmp_path: Path) -> None:
    """JAVA_HOME is its own home."""
    java = fake_java(tmp_path, "java.base@21\njdk.incubator.vector@21")

    assert session.java_home(java) == tmp_path / "a home"


def test_java_without_the_module_gets_a_launcher_that_leaves_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other arguments come through, whatever is in them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = session.java_home(fake_java(tmp_path, "java.base@21"))

    given = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "Main", "$x 'y'"]
    printed = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout

    assert session.java_home(Java(home / "bin" / "java", 21)) == home, "a child finds the launcher as its Java"
    assert printed == "<-Doption=with space><-cp><a b:c><Main><$x 'y'>"


def test_packages_of_sinks_are_brought_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that they need, each as a set of its own in the cache."""
    asked = []

    def resolve(name: str, artifacts: list[Artifact], *, transitive: bool) -> list[Path]:
        asked.append((name, artifacts, transitive))
        return [Path(f"{name}.jar"), Path("shared.jar")]

    monkeypatch.setattr(session, "resolve", resolve)
    sink = {"format": "x", "packages": ["org.x:x:1", "org.y:y:2"]}
    streams = {name: {"from": "s", "sink": sink} for name in ("a", "b")}

    jars = session.sink_jars(loaded(tmp_path, document(streams=streams)))

    assert asked == [
        ("org.x-x-1", [Artifact("org.x", "x", "1")], True),
        ("org.y-y-2", [Artifact("org.y", "y", "2")], True),
    ]
    assert jars == [Path("org.x-x-1.jar"), Path("shared.jar"), Path("org.y-y-2.jar"), Path("shared.jar")]
