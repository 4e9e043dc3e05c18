"""A cache of jars from Maven's central repository, downloaded once by Maven, or by the Ivy that PySpark includes.

The configuration of Maven and Ivy (mirrors, proxies) applies. Artifacts with a SHA-256 are verified before they are
cached, so Spark runs exactly the pinned jars.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from pybroker.pipeline.java import JavaNotFoundError, find_java

_MAVEN_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>pybroker</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"""

_IVY_SETTINGS = """<ivysettings><settings defaultResolver="central"/>
<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>"""

_IVY_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="pybroker" module="jars"/>
<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>"""


_COLOURS = re.compile("\x1b\\[[0-9;]*m")

# Error lines of Maven and Ivy. Ivy's "not found" may only mean that the network failed, which it reports as well
_COMPLAINT = re.compile(r"\bERROR\b|FAIL|access error|:: .*: not found")

# A repository may be busy, or a connection may break. Each attempt keeps what earlier ones have downloaded
_ATTEMPTS = 3


class JarsUnavailableError(Exception):
    """The artifacts cannot be downloaded, or differ from the pinned ones."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The Maven coordinates of a jar; `sha256` in hex, None when it is not pinned.

    `classifier` names another jar of the same artifact: `test` is that of its tests.
    """

    group: str
    name: str
    version: str
    sha256: str | None = None
    classifier: str = ""

    @property
    def file_name(self) -> str:
        return "-".join(filter(None, (self.name, self.version, self.classifier))) + ".jar"


def cache_directory() -> Path:
    """Return the folder of cached jars: $XDG_CACHE_HOME/pybroker, else ~/.cache/pybroker."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pybroker"


def resolve(name: str, artifacts: Sequence[Artifact], *, transitive: bool = False) -> list[Path]:
    """Return the jars of the set `name`; download them first unless they are cached.

    `transitive` adds the dependencies of the artifacts; otherwise the set has exactly the artifacts.
    Errors: JarsUnavailableError, with the error lines of each tool.
    """
    kept = cache_directory() / name
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=f".{name}-") as scratch:
            brought = _bring(artifacts, Path(scratch), transitive=transitive)
            try:
                brought.rename(kept)
            except OSError:  # another process was first: its set is the same
                if not kept.is_dir():
                    raise
    _check(kept, artifacts)
    return sorted(kept.glob("*.jar"))


def _bring(artifacts: Sequence[Artifact], scratch: Path, *, transitive: bool) -> Path:
    """Download the artifacts into a folder below `scratch`; return that folder."""
    complaints = {}
    for tool, command in [("Maven", _maven_command), ("Ivy", _ivy_command)] * _ATTEMPTS:
        into = scratch / tool
        into.mkdir(exist_ok=True)
        complaint = _run(command, artifacts, into, transitive=transitive)
        if complaint is None:
            _check(into / "jars", artifacts)
            return into / "jars"
        complaints[tool] = f"{tool}: {complaint}"
    wanted = ", ".join(f"{a.group}:{a.name}:{a.version}" for a in artifacts)
    raise JarsUnavailableError(f"cannot bring {wanted}: {'; '.join(complaints.values())}")


_Command = Callable[[Sequence[Artifact], Path, bool], list[str]]


class _ToolMissingError(Exception):
    pass


def _run(command: _Command, artifacts: Sequence[Artifact], into: Path, *, transitive: bool) -> str | None:
    """Run a tool that puts the jars into `into`/jars; return None, or why they are missing."""
    try:
        done = subprocess.run(command(artifacts, into, transitive), cwd=into, capture_output=True, text=True)
    except _ToolMissingError as error:
        return str(error)
    missing = [a.file_name for a in artifacts if not (into / "jars" / a.file_name).is_file()]
    if done.returncode == 0 and not missing:
        return None
    lines = _COLOURS.sub("", done.stdout + done.stderr).splitlines()
    said = sorted((line.strip() for line in lines if _COMPLAINT.search(line)), key=lambda line: "not found" in line)
    return " / ".join(said[:3]) or f"exit code {done.returncode}, without {', '.join(missing)}"


def _maven_command(artifacts: Sequence[Artifact], into: Path, transitive: bool) -> list[str]:
    maven = shutil.which("mvn")
    if maven is None:
        raise _ToolMissingError("mvn is not on PATH")
    alone = (
        ""
        if transitive
        else "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    )
    dependencies = "".join(
        f"<dependency><groupId>{a.group}</groupId><artifactId>{a.name}</artifactId><version>{a.version}</version>"
        + (f"<classifier>{a.classifier}</classifier>" if a.classifier else "")
        + f"{alone}</dependency>"
        for a in artifacts
    )
    (into / "pom.xml").write_text(_MAVEN_PROJECT.format(dependencies=dependencies))
    return [maven, "--batch-mode", "--quiet", "dependency:copy-dependencies", f"-DoutputDirectory={into / 'jars'}"]


def _ivy_command(artifacts: Sequence[Artifact], into: Path, transitive: bool) -> list[str]:
    pyspark = find_spec("pyspark")
    ivy = next(Path(pyspark.origin).parent.glob("jars/ivy-*.jar"), None) if pyspark and pyspark.origin else None
    if ivy is None:
        raise _ToolMissingError("PySpark, which includes it, is not installed")
    try:
        java = find_java()
    except JavaNotFoundError as error:
        raise _ToolMissingError(str(error)) from error
    dependencies = "".join(
        f"<dependency org={quoteattr(a.group)} name={quoteattr(a.name)} rev={quoteattr(a.version)}"
        f' transitive="{str(transitive).lower()}" conf="default->default">{_ivy_artifact(a)}</dependency>'
        for a in artifacts
    )
    (into / "ivysettings.xml").write_text(_IVY_SETTINGS)
    (into / "ivy.xml").write_text(_IVY_MODULE.format(dependencies=dependencies))
    options = [
        "-settings",
        "ivysettings.xml",
        "-ivy",
        "ivy.xml",
        "-cache",
        str(into / "cache"),
        "-types",
        "jar",
        "bundle",
    ]
    return [
        *(str(java.executable), *java.options, "-jar", str(ivy), *options),
        *("-retrieve", str(into / "jars" / "[artifact]-[revision](-[classifier]).[ext]")),
    ]


def _ivy_artifact(artifact: Artifact) -> str:
    """Return the element that selects the jar with the artifact's classifier; it has none by default."""
    if not artifact.classifier:
        return ""
    named = f"name={quoteattr(artifact.name)} m:classifier={quoteattr(artifact.classifier)}"
    return f'<artifact {named} type="jar" ext="jar"/>'


def _check(directory: Path, artifacts: Sequence[Artifact]) -> None:
    for artifact in artifacts:
        jar = directory / artifact.file_name
        if not jar.is_file():
            raise JarsUnavailableError(f"{directory} lacks {artifact.file_name}: remove the directory and try again")
        if artifact.sha256 is not None and (found := hashlib.sha256(jar.read_bytes()).hexdigest()) != artifact.sha256:
            raise JarsUnavailableError(f"{jar}: SHA-256 is {found}, pinned is {artifact.sha256}")
