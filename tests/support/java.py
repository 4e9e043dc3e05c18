"""Java for tests: jars of Apache Kafka, a compiler, and programs, in a JVM of their own or in one JVM (`JavaRunner`).

A JVM for every command would cost one to two seconds of two cores; in one JVM the same tool takes some 50 ms.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from protocol import kafka_release
from pybroker.pipeline.jars import Artifact, resolve
from pybroker.pipeline.java import find_java

# for short runs: no second compiler, no threads that collect garbage
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData")

_COMPILER = (
    Artifact("org.eclipse.jdt", "ecj", "3.43.0", "c786468c65e906498e7e36ece4e0d04c6d3dd34c9a61b34a3a5b512801911a82"),
)


def java_command(
    main: str, arguments: Sequence[str], classpath: Sequence[Path], *, options: Sequence[str] = QUICK
) -> list[str]:
    """Return the command line of a JVM that runs `main`."""
    java = find_java()
    paths = os.pathsep.join(str(path) for path in classpath)
    return [str(java.executable), *java.options, *options, "-cp", paths, main, *arguments]


def compile_java(sources: Sequence[Path], classpath: Sequence[Path], into: Path) -> None:
    """Compile `sources` into the folder `into`: by the JDK's compiler, or by Eclipse's where there is only a JRE."""
    java = find_java()
    if java.has_module("jdk.compiler"):
        compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "17", "-nowarn"]
    else:
        compiler = ["-jar", str(resolve("ecj", _COMPILER)[0]), "-17", "-nowarn"]
    paths = os.pathsep.join(str(path) for path in classpath)
    command = [str(java.executable), *compiler, "-cp", paths, "-d", str(into)]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(slots=True)
class Program:
    """A main class in a `JavaRunner`: its output so far, and its exit code at the end."""

    name: str
    _stop: object = field(repr=False)
    _lock: threading.Condition = field(default_factory=threading.Condition, repr=False)
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None

    def wait(self, timeout_s: float = 120) -> Program:
        """Wait until the program has ended; return itself."""
        with self._lock:
            ended = self._lock.wait_for(lambda: self.exit_code is not None, timeout_s)
        assert ended, f"{self.name} still runs after {timeout_s} s; so far:\n{self.stdout}\n{self.stderr}"
        return self

    def wait_for_output(self, text: str, timeout_s: float = 120) -> Program:
        """Wait until `text` is in its standard output; return itself."""
        with self._lock:
            seen = self._lock.wait_for(lambda: text in self.stdout or self.exit_code is not None, timeout_s)
        assert seen, f"{self.name} has not printed {text!r} in {timeout_s} s; so far:\n{self.stdout}\n{self.stderr}"
        assert text in self.stdout, f"{self.name} ended without {text!r}:\n{self.stdout}\n{self.stderr}"
        return self

    def stop(self, timeout_s: float = 120) -> Program:
        """End the program as SIGTERM does: its shutdown hooks run; return itself."""
        self._stop()  # type: ignore[operator]
        return self.wait(timeout_s)

    def on_event(self, event: dict[str, object]) -> None:
        """Handle an event of the runner about this program."""
        with self._lock:
            self.stdout += str(event.get("out", ""))
            self.stderr += str(event.get("err", ""))
            if "exit" in event:
                self.exit_code = int(str(event["exit"]))
            self._lock.notify_all()


class JavaRunner:
    """One JVM that runs main classes on request, several at a time, each with its own streams and exit code."""

    def __init__(self, classpath: Sequence[Path], log: IO[bytes] | int | None = None) -> None:
        # Without the option another thread, and so another program, may print a thread's log line.
        options = (*QUICK, "-Xmx512m", "-Dlog4j2.enable.direct.encoders=false")
        command = java_command("Runner", [], classpath, options=options)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self._programs: dict[int, Program] = {}
        self._ids = itertools.count()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, main: str, *arguments: str, stdin: str = "") -> Program:
        """Start the main class `main`; it reads `stdin` and then the end of file."""
        number = next(self._ids)
        program = Program(main, lambda: self._send({"id": number, "stop": True}))
        self._programs[number] = program
        self._send({"id": number, "main": main, "args": arguments, "stdin": stdin})
        return program

    def run(self, main: str, *arguments: str, stdin: str = "", timeout_s: float = 120) -> Program:
        """Run the main class `main` to its end."""
        return self.start(main, *arguments, stdin=stdin).wait(timeout_s)

    def close(self) -> None:
        """End the JVM."""
        self._process.terminate()
        self._process.wait(30)
        self._reader.join()

    def _send(self, request: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            self._programs[event["id"]].on_event(event)
        for program in self._programs.values():
            if program.exit_code is None:
                program.on_event({"err": "the JVM ended\n", "exit": -1})


#: `PYBROKER_TEST_KAFKA_VERSION` selects another release than the one that the project follows.
KAFKA_VERSION = os.environ.get("PYBROKER_TEST_KAFKA_VERSION") or kafka_release.KAFKA_VERSION
#: Such as (4, 4).
KAFKA_LINE = tuple(int(number) for number in KAFKA_VERSION.split(".")[:2])

_KAFKA = (
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    Artifact("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    Artifact("org.apache.logging.log4j", "log4j-core", "2.25.4"),
)


@functools.cache
def kafka_jars() -> tuple[Path, ...]:
    """Return the jars of Apache Kafka and its dependencies."""
    return tuple(resolve(f"kafka-{KAFKA_VERSION}", _KAFKA, transitive=True))


@functools.cache
def streams_jars() -> tuple[Path, ...]:
    """Return the jars of Kafka Streams and its dependencies."""
    streams = (Artifact("org.apache.kafka", "kafka-streams", KAFKA_VERSION), *_KAFKA[2:])
    return tuple(resolve(f"kafka-streams-{KAFKA_VERSION}", streams, transitive=True))


# The newest release of which Maven Central has the connectors for files; on Connect 4.4.0 they fail
_CONNECT_VERSION = "4.3.1"


@functools.cache
def connect_jars() -> tuple[Path, ...]:
    """Return the jars of Kafka Connect, its connectors for files, and their dependencies."""
    names = ("connect-runtime", "connect-file")
    connect = tuple(Artifact("org.apache.kafka", name, _CONNECT_VERSION) for name in names)
    return tuple(resolve(f"kafka-connect-{_CONNECT_VERSION}", (*connect, *_KAFKA[2:]), transitive=True))


def streams_classpath() -> Path:
    """Return the same jars as one entry of a class path."""
    return streams_jars()[0].parent / "*"


def old_client_jars(version: str) -> list[Path]:
    """Return the jars of an older release's Java clients."""
    clients = Artifact("org.apache.kafka", "kafka-clients", version)
    return resolve(f"kafka-clients-{version}", [clients], transitive=True)


def kafka_classpath() -> Path:
    """Return the same jars as one entry of a class path that a JVM accepts, but not every compiler."""
    return kafka_jars()[0].parent / "*"
