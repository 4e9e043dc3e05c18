"""The cleaner compiled: what its modules promise holds for both, and the interpreted one is the oracle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = next(
    line.split(":=")[1].split()
    for line in (ROOT / "Makefile").read_text().splitlines()
    if line.startswith("COMPILED :=")
)
TESTS = [
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/unit/storage/cleaner").glob("test_*.py")),
    "tests/property/test_compaction_model.py",
]
COPIED = "storage", "protocol", "tests/support", "tests/unit/storage", "tests/property"


def has_compiler() -> bool:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(compiler) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


def run(directory: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_tree(directory: Path) -> None:
    """What the tests need, without what may be compiled already."""
    for name in COPIED:
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "tests/__init__.py", "tests/conftest.py"):
        shutil.copy(ROOT / name, directory / name)
    (directory / "tests/data").symlink_to(ROOT / "tests/data")


if has_compiler():  # it is an option: where nothing compiles, there is nothing to be tested

    def test_compiled_cleaner_does_what_the_interpreted_one_does(tmp_path: Path) -> None:
        """Its unit tests, Apache Kafka's files among them, and the model of its histories."""
        copy_tree(tmp_path)
        for module in MODULES:
            run(tmp_path, "-m", "mypyc", module)
        names = [module.removesuffix(".py").replace("/", ".") for module in MODULES]
        files = run(tmp_path, "-c", f"import {','.join(names)}\nprint(*({'.__file__,'.join(names)}.__file__,))").split()
        assert [Path(file).parent for file in files] == [tmp_path / "storage/cleaner"] * len(MODULES)
        assert {Path(file).suffix for file in files} == {".so"}
        # The function goes to a worker by its name.
        run(
            tmp_path,
            "-c",
            "import pickle, storage.cleaner.round as c\nassert pickle.loads(pickle.dumps(c.clean)) is c.clean",
        )
        run(tmp_path, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS)


def test_no_compiled_module_is_older_than_its_source() -> None:
    """Or it would hide what was changed: `make compile` anew, or `make clean`."""
    for module in MODULES:
        source = ROOT / module
        for compiled in source.parent.glob(f"{source.stem}.*.so"):
            assert compiled.stat().st_mtime >= source.stat().st_mtime, f"{compiled} is older than {source}"
