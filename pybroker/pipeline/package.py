"""`pybroker pipeline package`: a folder, or a zip of one, that spark-submit runs on a cluster with nothing of ours.

The package has the unchanged specification, `main.py`, `pybroker.zip` for --py-files (this package, and PyYAML without
its compiled part), the pinned jars, and `submit.sh` with the command. Environment variables are read when it runs.
"""

from __future__ import annotations

import errno
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import yaml

import pybroker
from pybroker.pipeline import checkpoint
from pybroker.pipeline.queries import queries
from pybroker.pipeline.spec import Pipeline

SPEC, MODULES, SCRIPT, MAIN = "pipeline.yaml", "pybroker.zip", "submit.sh", "main.py"

#: The modules that the pipeline package imports.
_OURS = (
    "__init__.py",
    "cli/__init__.py",
    "cli/terminal_escape.py",
    "cli/parser.py",
    "schema_registry.py",
    "text_files.py",
    "pipeline",
)

_MAIN = '''"""Runs the pipeline of a specification: spark-submit main.py pipeline.yaml [--once] [--metrics FILE]."""

import sys

if sys.version_info < (3, 11):
    sys.exit(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: PYSPARK_DRIVER_PYTHON names another")

from pybroker.pipeline.submitted import main

sys.exit(main(sys.argv[1:]))
'''

_SCRIPT = """#!/bin/sh
# submit.sh OPTIONS: spark-submit's, such as --master spark://host:7077; the pipeline's are in PIPELINE_OPTIONS
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC2086  # they are words
exec "${{SPARK_HOME:+$SPARK_HOME/bin/}}spark-submit" --name {name} --driver-memory {memory} \\
    --py-files "$here/{modules}" --jars "{jars}" \\
    "$@" "$here/{main}" "$here/{spec}" ${{PIPELINE_OPTIONS:-}}
"""

_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_package(spec: Path, pipeline: Pipeline, jars: Iterable[Path], output: Path) -> Path:
    """Write the package of the specification in the file `spec`; return its script's path.

    Errors: OSError; FileExistsError when `output` exists.
    """
    if output.exists():
        raise FileExistsError(errno.EEXIST, "it exists already", str(output))
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as scratch:
        folder = Path(scratch) / output.name.removesuffix(".zip")
        folder.mkdir()
        _fill(folder, spec, pipeline, jars)
        if output.suffix != ".zip":
            folder.rename(output)
            return output / SCRIPT
        with ZipFile(Path(scratch) / "whole", "w") as archive:
            for file in sorted(each for each in folder.rglob("*") if each.is_file()):
                _add(archive, f"{folder.name}/{file.relative_to(folder)}", file.read_bytes(), mode=file.stat().st_mode)
        (Path(scratch) / "whole").rename(output)
        return Path(folder.name) / SCRIPT


def local_folders(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Yield path and value of each key that names a local folder. Each machine of a cluster has its own."""
    if checkpoint.local(pipeline.checkpoint_root) is not None:
        yield "checkpoint_root", pipeline.checkpoint_root
    for query in queries(pipeline):
        if query.sink.path is not None and checkpoint.local(query.sink.path) is not None:
            yield f"{query.path}.sink.path", query.sink.path


def _fill(folder: Path, spec: Path, pipeline: Pipeline, jars: Iterable[Path]) -> None:
    shutil.copyfile(spec, folder / SPEC)
    (folder / MAIN).write_text(_MAIN, encoding="utf-8")
    (folder / "jars").mkdir()
    names = []
    for jar in jars:
        shutil.copyfile(jar, folder / "jars" / jar.name)
        names.append(f"$here/jars/{jar.name}")
    script = _SCRIPT.format(
        name=shlex.quote(pipeline.name),
        memory=shlex.quote(pipeline.spark.memory),
        jars=",".join(names),
        modules=MODULES,
        main=MAIN,
        spec=SPEC,
    )
    (folder / SCRIPT).write_text(script, encoding="utf-8")
    (folder / SCRIPT).chmod(0o755)
    with ZipFile(folder / MODULES, "w") as modules:
        for name, file in sorted(_modules()):
            _add(modules, name, file.read_bytes())


def _modules() -> Iterator[tuple[str, Path]]:
    """Yield the names in the zip of modules, and their files."""
    ours, yamls = Path(pybroker.__file__).parent, Path(yaml.__file__).parent
    for name in _OURS:
        found = [ours / name] if name.endswith(".py") else (ours / name).rglob("*.py")
        for file in found:
            yield f"pybroker/{file.relative_to(ours)}", file
    for file in yamls.glob("*.py"):
        yield f"yaml/{file.name}", file
    for licence in yamls.parent.glob("[Pp]y[Yy][Aa][Mm][Ll]-*.dist-info/licenses/LICENSE"):
        yield "yaml/LICENSE", licence


def _add(archive: ZipFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    """Add a file with fixed metadata, so that each build of the package is identical."""
    info = ZipInfo(name, _EPOCH)
    info.external_attr = (mode & 0o777) << 16
    info.compress_type = ZIP_STORED if name.endswith((".jar", ".zip")) else ZIP_DEFLATED
    archive.writestr(info, data)
