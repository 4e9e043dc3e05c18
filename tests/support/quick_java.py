"""A Java for short runs: its JVMs use only the first compiler, and collect garbage in one thread.

A JVM of the tests lives for seconds, most of which its second compiler would spend on code that runs a few times.
Without it, and without threads that collect garbage, Spark needs about half the CPU time to start and to run a small
query.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from pybroker.pipeline.java import JavaNotFoundError, find_java
from tests.support.java import QUICK

_HOME = Path(__file__).parents[2] / ".cache" / "quick-java"


def use_quick_java(home: Path = _HOME) -> None:
    """Set JAVA_HOME of this process and its children to a folder whose `bin/java` adds `QUICK`."""
    try:
        java = find_java()
    except JavaNotFoundError:
        return
    launcher = home / "bin" / "java"
    if java.executable != launcher:
        command = shlex.join([str(java.executable), *java.options, *QUICK])
        launcher.parent.mkdir(parents=True, exist_ok=True)
        written = launcher.with_name(f"java-{os.getpid()}")
        written.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        written.chmod(0o755)
        written.rename(launcher)
    os.environ["JAVA_HOME"] = str(home)
