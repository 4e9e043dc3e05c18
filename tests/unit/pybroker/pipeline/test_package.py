"""The content of a package, which needs nothing of ours on the target machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from pybroker.pipeline.main import main
from pybroker.pipeline.package import local_folders, write_package
from pybroker.pipeline.spec import load
from tests.support.specifications import document, written

NAMES = ["jars/connector.jar", "main.py", "pipeline.yaml", "pybroker.zip", "submit.sh"]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return written(tmp_path, document(name="it's", spark={"memory": "2g"}))


def package(spec: Path, output: Path) -> Path:
    jar = spec.with_name("connector.jar")
    jar.write_bytes(b"jar")
    return write_package(spec, load(spec, {}), [jar], output)


def test_directory_has_all_files_and_the_command(spec: Path, tmp_path: Path) -> None:
    """The unchanged specification, and a script that works from any directory and quotes its arguments."""
    script = package(spec, tmp_path / "out")
    found = sorted(each.relative_to(tmp_path / "out").as_posix() for each in (tmp_path / "out").rglob("*.*"))
    assert found == NAMES
    assert (tmp_path / "out" / "pipeline.yaml").read_bytes() == spec.read_bytes()

    submit = tmp_path / "spark-submit"
    submit.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    submit.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PIPELINE_OPTIONS": "--once --metrics m"}
    words = subprocess.run(
        [script, "--master", "spark://a b"], capture_output=True, text=True, env=environ, cwd="/", check=True
    )
    here = tmp_path / "out"
    assert words.stdout.splitlines() == [
        *("--name", "it's", "--driver-memory", "2g"),
        *("--py-files", f"{here}/pybroker.zip", "--jars", f"{here}/jars/connector.jar", "--master", "spark://a b"),
        *(f"{here}/main.py", f"{here}/pipeline.yaml", "--once", "--metrics", "m"),
    ]


def test_zip_equals_the_directory_and_is_reproducible(spec: Path, tmp_path: Path) -> None:
    """The script is executable."""
    assert package(spec, tmp_path / "out.zip") == Path("out/submit.sh")
    package(spec, tmp_path / "again" / "out.zip")

    assert (tmp_path / "out.zip").read_bytes() == (tmp_path / "again" / "out.zip").read_bytes()
    with ZipFile(tmp_path / "out.zip") as archive:
        assert archive.namelist() == [f"out/{name}" for name in NAMES]
        assert archive.getinfo("out/submit.sh").external_attr >> 16 == 0o755


def test_modules_need_only_pyspark(spec: Path, tmp_path: Path) -> None:
    """The specification is parsed with the YAML library in the zip."""
    package(spec, tmp_path / "out")
    modules = str(tmp_path / "out" / "pybroker.zip")
    code = (
        "import sys\n"
        f"sys.path.insert(0, {modules!r})\n"
        "sys.modules |= dict.fromkeys(('confluent_kafka', 'kafka', 'protocol', 'broker', 'storage', '_yaml'))\n"
        "import pathlib, yaml, pybroker.pipeline.submitted\n"
        "assert 'pybroker.zip' in yaml.__file__ and 'pybroker.zip' in pybroker.pipeline.submitted.__file__\n"
        f"print(pybroker.pipeline.submitted.load(pathlib.Path({str(spec)!r}), {{}}).name)\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "it's\n"), done.stderr


def test_existing_files_are_not_overwritten(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a directory nor a file. One line, exit code 1, and nothing is left behind."""
    monkeypatch.setattr("pybroker.pipeline.session.all_jars", lambda pipeline: [])
    (tmp_path / "out").mkdir()

    assert main(["package", str(spec), "-o", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr().err
    assert printed == f"pybroker pipeline: {tmp_path / 'out'}: it exists already\n"
    assert main(["package", str(spec), "-o", str(spec)]) == 1
    assert not list(tmp_path.glob(".*"))


def test_local_directories_are_named(spec: Path, tmp_path: Path) -> None:
    """Those of a shared file system are not."""
    streams = {"q": {"from": "s", "sink": {"format": "parquet", "path": "s3a://lake/s"}}}
    shared = written(tmp_path, document(checkpoint_root="hdfs:///state", streams=streams))
    assert list(local_folders(load(shared, {}))) == []

    streams["q"] = {"from": "s", "sink": {"format": "parquet", "path": "./lake"}}
    local = written(tmp_path, document(checkpoint_root="./state", streams=streams))
    assert dict(local_folders(load(local, {}))) == {"checkpoint_root": "./state", "streams.q.sink.path": "./lake"}
