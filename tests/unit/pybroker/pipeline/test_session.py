"""The Java that starts Spark, and Spark's packages."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from pybroker.pipeline import session
from pybroker.pipeline.jars import Artifact, JarsUnavailableError
from pybroker.pipeline.java import Java
from tests.support.specifications import document, loaded


def fake_java(tmp_path: Path, modules: str) -> Java:
    """Install a java that lists its modules, and otherwise prints its arguments."""
    launcher = tmp_path / "a home" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f'#!/bin/sh\ncase "$*" in --list-modules) echo "{modules}" ;; *) printf "<%s>" "$@" ;; esac\n')
    launcher.chmod(0o755)
    return Java(launcher, 21, ("-Doption=with space",))


def test_java_with_the_module_is_used_directly(tmp_path: Path) -> None:
    """As JAVA_HOME."""
    java = fake_java(tmp_path, "java.base@21\njdk.incubator.vector@21")

    assert session.java_home(java) == tmp_path / "a home"


def test_java_without_the_module_gets_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher omits the module's option and passes all others unchanged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = session.java_home(fake_java(tmp_path, "java.base@21"))

    given = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "Main", "$x 'y'"]
    printed = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout

    assert session.java_home(Java(home / "bin" / "java", 21)) == home, "child processes use the launcher, too"
    assert printed == "<-Doption=with space><-cp><a b:c><Main><$x 'y'>"


def test_packages_of_sinks_are_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their dependencies, each set in its own cache directory."""
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

    def missing(name: str, artifacts: list[Artifact], *, transitive: bool) -> list[Path]:
        if name != "org.y-y-2":
            return []
        raise JarsUnavailableError("cannot bring it")

    monkeypatch.setattr(session, "resolve", missing)
    with pytest.raises(JarsUnavailableError, match=r"^streams\.b\.sink\.packages\[1\]: cannot bring it$"):
        session.sink_jars(loaded(tmp_path, document(streams=streams)))


def test_jars_are_of_the_installed_spark() -> None:
    """Jars for another line of Spark may call what is missing. Delta Lake has the line in its name."""
    line = pyspark.__version__.rpartition(".")[0]

    connector, token_provider, *_ = session.CONNECTOR
    assert {each.version.rpartition(".")[0] for each in (connector, token_provider, *session.AVRO)} == {line}
    assert session.DELTA[0].name == f"delta-spark_{line}_2.13"


def test_a_set_with_another_version_is_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a cache from before the change would be refused until somebody removed it."""
    names = []
    monkeypatch.setattr(session, "resolve", lambda name, artifacts: names.append(name) or [])

    session.connector_jars()
    connector, token_provider, *others = session.CONNECTOR
    newer = Artifact(token_provider.group, token_provider.name, "9.9.9")
    monkeypatch.setattr(session, "CONNECTOR", (connector, newer, *others))
    session.connector_jars()
    assert len(set(names)) == 2


def test_formats_need_jars_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta Lake for a sink or table, Avro for a source. Without the jars, one line names the format."""
    asked = []

    def resolve(name: str, artifacts: tuple[Artifact, ...]) -> list[Path]:
        asked.append(name)
        return [Path(each.file_name) for each in artifacts]

    monkeypatch.setattr(session, "resolve", resolve)
    delta = {"q": {"from": "s", "sink": {"format": "delta", "path": "p"}}}
    avro = {"s": {"topics": ["t"], "parse": {"format": "avro", "schema": "{}"}}}
    plain = loaded(tmp_path, document())
    both = loaded(tmp_path, document(streams=delta, sources=avro))
    table = loaded(tmp_path, document(tables={"pages": {"format": "delta", "path": "p"}}))

    assert (session.format_jars(plain), session.format_settings(plain)) == ([], {})
    assert {each.name for each in session.format_jars(both)} == {
        *("delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar", "spark-avro_2.13-4.2.0.jar"),
    }
    assert asked == ["delta-spark_4.2_2.13-4.4.0-4.4.0", "spark-avro_2.13-4.2.0"]
    assert session.format_settings(table) == session.format_settings(both)
    assert {"spark.sql.extensions", "spark.sql.catalog.spark_catalog"} < set(session.format_settings(both))

    own = {"conf": {"spark.sql.extensions": "org.x.Y", "spark.sql.catalog.spark_catalog": "org.x.Z"}}
    with_own = loaded(tmp_path, document(streams=delta, spark=own))
    settings = session.format_settings(with_own)
    assert settings["spark.sql.extensions"] == "org.x.Y,io.delta.sql.DeltaSparkSessionExtension"
    assert settings["spark.sql.catalog.spark_catalog"] == "org.x.Z"

    def missing(name: str, artifacts: tuple[Artifact, ...]) -> list[Path]:
        raise JarsUnavailableError("cannot bring them")

    monkeypatch.setattr(session, "resolve", missing)
    with pytest.raises(JarsUnavailableError, match="format avro: cannot bring them"):
        session.format_jars(loaded(tmp_path, document(sources=avro)))


def test_invalid_sql_casts_give_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the specification's properties say otherwise."""
    started: list[Mapping[str, str]] = []
    monkeypatch.setattr(session, "all_jars", lambda pipeline: [])
    monkeypatch.setattr(session, "start_session", lambda name, master, settings: started.append(settings))

    for conf in ({}, {"spark.sql.ansi.enabled": True}):
        session.open_session(loaded(tmp_path, document(spark={"conf": conf})))

    assert [settings["spark.sql.ansi.enabled"] for settings in started] == ["false", "true"]
    assert [settings["spark.sql.mapKeyDedupPolicy"] for settings in started] == ["LAST_WIN"] * 2


def test_jars_of_the_specification_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example those of functions that SQL calls."""
    started: list[Mapping[str, str]] = []
    monkeypatch.setattr(session, "all_jars", lambda pipeline: [Path("/jars/kafka.jar")])
    monkeypatch.setattr(session, "start_session", lambda name, master, settings: started.append(settings))

    for conf in ({}, {"spark.jars": "/own/a.jar,/own/b.jar"}):
        session.open_session(loaded(tmp_path, document(spark={"conf": conf})))

    assert [settings["spark.jars"] for settings in started] == [
        *("/jars/kafka.jar", "/jars/kafka.jar,/own/a.jar,/own/b.jar"),
    ]
