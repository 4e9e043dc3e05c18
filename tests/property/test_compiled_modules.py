"""Compiled modules give the same results as their interpreted source, which is the oracle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = "storage/cleaner/walk.py"
SOURCES = SOURCE, "protocol/records/fields.py"
TESTS = [
    "tests/unit/protocol/records/test_fields.py",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/unit/storage/cleaner").glob("test_*.py")),
    "tests/property/test_compaction_model.py",
]
INSTALLED = "storage", "protocol"
ENGINE = "pybroker/engine/"
COPIED = *INSTALLED, "tests/support", "tests/unit/storage", "tests/unit/protocol/records", "tests/property"
IS_COMPILED = "from storage.cleaner import compiled_walk as w; print(w.IS_COMPILED, w.walk_kept.__module__)"


def has_compiler() -> bool:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(compiler) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


def run(directory: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=directory, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_tree(directory: Path, *names: str) -> Path:
    """Copy the installed files or the files that tests need, without compiled modules."""
    for name in names:
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "pybroker/engine_process.py"):
        (directory / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, directory / name)
    return directory


def wheel_of(directory: Path, **environment: str) -> tuple[str, list[str]]:
    """Build a wheel in the tree, and put its compiled modules beside their sources. Return the name of each."""
    run(directory, "setup.py", "-q", "bdist_wheel", **environment)
    [wheel] = (directory / "dist").iterdir()
    with zipfile.ZipFile(wheel) as opened:
        names = {name.removeprefix(ENGINE) for name in opened.namelist() if name.startswith(ENGINE)}
        compiled_modules = [name for name in names if name.endswith(".so")]
        for name in compiled_modules:
            (directory / name).write_bytes(opened.read(ENGINE + name))
    assert {each.replace(".py", suffix) for each in SOURCES for suffix in (".py", ".pxd")} <= names
    return wheel.name, compiled_modules


if has_compiler():  # optional: without a compiler there is nothing to test

    @pytest.fixture(scope="module")
    def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
        directory = copy_tree(tmp_path_factory.mktemp("compiled"), *COPIED)
        for name in ("tests/__init__.py", "tests/conftest.py"):
            shutil.copy(ROOT / name, directory / name)
        (directory / "tests/data").symlink_to(ROOT / "tests/data")
        wheel, compiled_modules = wheel_of(directory, PYBROKER_COMPILE="1")
        assert "none-any" not in wheel
        assert len(compiled_modules) == len(SOURCES)
        return directory

    def test_compiled_modules_equal_the_interpreted_ones(compiled: Path) -> None:
        """Their unit tests, including Apache Kafka's files, and the model of cleaning histories."""
        assert run(compiled, "-c", IS_COMPILED).startswith("True walk_")
        fields = "from protocol.records.compiled_fields import walk_fields; print(walk_fields.__module__)"
        assert run(compiled, "-c", fields).startswith("fields_")
        run(compiled, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS, PYBROKER_TEST_COMPILED="1")

    def test_compiled_module_of_another_source_is_not_used(compiled: Path, tmp_path: Path) -> None:
        """An edited source runs at once, and the next installation removes the old compiled module."""
        copy_tree(tmp_path, *INSTALLED)
        [module] = compiled.glob("storage/cleaner/*.so")
        there = Path(shutil.copy(module, tmp_path / "storage/cleaner"))
        assert run(tmp_path, "-c", IS_COMPILED).startswith("True")
        with open(tmp_path / SOURCE, "a") as source:
            source.write("# edited\n")
        assert run(tmp_path, "-c", IS_COMPILED) == "False storage.cleaner.walk\n"
        run(tmp_path, "setup.py", "-q", "build_ext", "--inplace", CC="false")
        assert not there.exists()

    def test_module_that_does_not_compile_is_left_out(tmp_path: Path) -> None:
        """A failing compiler must not prevent an installation."""
        assert wheel_of(copy_tree(tmp_path, *INSTALLED), CC="false")[1] == []
        assert run(tmp_path, "-c", IS_COMPILED) == "False storage.cleaner.walk\n"


@pytest.mark.parametrize("environment", [{"CC": "no-such-compiler"}, {"PYBROKER_COMPILE": "0"}])
def test_wheel_without_compiler_is_for_every_platform(tmp_path: Path, environment: dict[str, str]) -> None:
    wheel, compiled_modules = wheel_of(copy_tree(tmp_path, *INSTALLED), **environment)
    assert wheel.endswith("-py3-none-any.whl")
    assert compiled_modules == []
