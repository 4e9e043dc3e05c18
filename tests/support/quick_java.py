"""A Java for short runs: its JVMs use only the first compiler, and collect garbage in one thread.

A JVM of the tests lives for seconds, most of which its second compiler would spend on code that runs a few times.
Without it, and without threads that collect garbage, Spark needs about half the CPU time to start and to run a small
query. Where `support/class_data.py` has written archives, Spark and Apache Kafka start with them.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from pybroker.pipeline.java import JavaNotFoundError, find_java
from tests.support.java import KAFKA_VERSION, QUICK

HOME = Path(__file__).parents[2] / ".cache" / "quick-java"
#: The class data archives below `HOME`.
ARCHIVES = {"spark": "spark.jsa", "kafka": "kafka.jsa"}
#: Part of the class path of such a JVM.
_JARS = {"spark": "/pyspark/jars/", "kafka": f"/kafka-{KAFKA_VERSION}/"}

_LAUNCHER = """#!/bin/sh
case "$*" in
*spark.launcher.Main*) archive= ;;  # it composes a command line, in less time than the archive needs to be opened
{cases}
*) archive= ;;
esac
if [ -s "$archive" ]; then
    set -- -XX:SharedArchiveFile="$archive" -Xlog:cds=off -Xlog:cds+dynamic=off "$@"
fi
exec {command} "$@"
"""


def use_quick_java(home: Path = HOME) -> None:
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
        cases = (f"*{_JARS[kind]}*) archive={shlex.quote(str(home / ARCHIVES[kind]))} ;;" for kind in ARCHIVES)
        written.write_text(_LAUNCHER.format(cases="\n".join(cases), command=command))
        written.chmod(0o755)
        written.rename(launcher)
    os.environ["JAVA_HOME"] = str(home)
