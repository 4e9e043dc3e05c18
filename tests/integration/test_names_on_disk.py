"""Installation of the wheel beside other packages that have names of the engine's rooms."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest

from pybroker.engine_process import PACKAGES
from tests.support.built_packages import ROOT, build_packages, send_and_receive
from tests.support.environments import Environment

FOREIGN = "foreign-0.0.0-py3-none-any.whl"

#: Tests of a project that uses all these packages and pybroker's fixtures.
TESTS = f"""
import importlib
import sys

import pybroker
import pytest
from confluent_kafka.admin import AdminClient

NAMES = {sorted(PACKAGES)}

@pytest.mark.kafka_topic(2)
def test_fixtures_start_a_broker(kafka_broker, kafka_topic):
    metadata = AdminClient({{"bootstrap.servers": kafka_broker.bootstrap_servers}}).list_topics(kafka_topic)
    assert len(metadata.topics[kafka_topic].partitions) == 2

@pytest.mark.parametrize("name", NAMES)
def test_names_are_the_projects(name):
    assert importlib.import_module(name).OWNER == "foreign"
    assert importlib.import_module(f"{{name}}.log").OWNER == "foreign"

def test_the_engine_is_not_on_the_path():
    assert not [entry for entry in sys.path if "engine" in entry]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_packages(tmp_path_factory.mktemp("dist"))[".whl"]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel with a package of each name that the engine has."""
    path = tmp_path_factory.mktemp("foreign") / FOREIGN
    info = "foreign-0.0.0.dist-info"
    files = {f"{name}/{file}.py": "OWNER = 'foreign'\n" for name in PACKAGES for file in ("__init__", "main", "log")}
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: foreign\nVersion: 0.0.0\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with ZipFile(path, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return path


def environment_of(folder: Path, *wheels: Path) -> Environment:
    """Install wheels one after another. Their requirements come from this environment."""
    environment = Environment(folder, folder)
    environment.borrow()
    for each in wheels:
        environment.install("pip", "--no-deps", str(each))
    return environment


def test_wheel_installs_one_name(wheel: Path) -> None:
    with ZipFile(wheel) as packed:
        names = packed.namelist()
    assert {name.partition("/")[0] for name in names} == {"pybroker", "pybroker-0.1.0.dist-info"}
    assert {name.split("/")[2] for name in names if name.startswith("pybroker/engine/")} == PACKAGES
    assert not [name for name in names if "tools/site" in name]


@pytest.mark.parametrize("first", ["foreign", "pybroker"])
def test_packages_of_equal_names_coexist(wheel: Path, foreign: Path, tmp_path: Path, first: str) -> None:
    """In either order of installation. Uninstalling the first leaves the other intact."""
    wheels = [foreign, wheel] if first == "foreign" else [wheel, foreign]
    environment = environment_of(tmp_path / "environment", *wheels)
    theirs = environment.files(*PACKAGES)

    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_project.py").write_text(TESTS)
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tests), str(tests)]
    done = environment.run("python", "-P", "-m", "pytest", *options)
    assert f"{len(PACKAGES) + 2} passed" in done.stdout

    assert environment.run("pybroker", "--version").stdout == "pybroker 0.1.0\n"
    data = tmp_path / "data"
    with environment.broker("--override", f"log.dirs={data}") as listeners:
        send_and_receive(listeners["PLAINTEXT"])
    segment = data / "orders-0" / f"{0:020}.log"
    dumped = environment.run("pybroker", "dump-log", "--files", str(segment), "--print-data-log").stdout
    assert "payload: two apples" in dumped
    read = f"import pybroker; print(pybroker.read({str(data / 'orders-0')!r}).read_all()['value'].to_pylist())"
    assert environment.run("python", "-c", read).stdout == "[b'two apples']\n"
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={tmp_path}/formatted\n")
    environment.run("pybroker", "format", "-c", str(config))
    assert (tmp_path / "formatted/meta.properties").is_file()
    assert environment.files(*PACKAGES) == theirs

    environment.uninstall(first)
    if first == "pybroker":
        assert environment.files(*PACKAGES) == theirs
        assert environment.files("pybroker") == {}  # except bytecode that pytest caches for plugins
    else:
        assert environment.run("pybroker", "random-uuid").stdout.strip()
        with environment.broker() as listeners:
            send_and_receive(listeners["PLAINTEXT"])


def test_module_loaded_before_the_engine_is_replaced(wheel: Path, foreign: Path, tmp_path: Path) -> None:
    """A .pth file imports packages of these names in every process, isolated ones too."""
    environment = environment_of(tmp_path, foreign, wheel)
    (environment.site / "early.pth").write_text("import storage.log, protocol, tools, broker.main\n")
    with environment.broker() as listeners:
        send_and_receive(listeners["PLAINTEXT"])
    assert environment.run("pybroker", "random-uuid").stdout.strip()


def test_editable_installation_exposes_one_name(tmp_path: Path) -> None:
    """The tree has the engine's packages at its root, but only pybroker can be imported."""
    environment = environment_of(tmp_path)
    environment.install("pip", "--no-deps", "--no-build-isolation", "--editable", str(copy_of_the_tree(tmp_path)))
    (finder,) = environment.site.glob("__editable___pybroker_*_finder.py")
    (mapping,) = re.findall(r"^MAPPING.* = (\{.*\})$", finder.read_text(), re.MULTILINE)
    assert mapping.count(":") == 1
    with environment.broker() as listeners:
        send_and_receive(listeners["PLAINTEXT"])


def copy_of_the_tree(folder: Path) -> Path:
    """Copy the files that git tracks, as an editable installation writes beside its sources."""
    tree = folder / "tree"
    for name in (*PACKAGES, "pybroker"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    return tree
