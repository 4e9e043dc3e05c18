"""`pybroker pipeline VERB FILE`: data pipelines on Spark, from the specification in a YAML file.

Exit codes: 0 when all streams ended or were stopped; 1 when a stream failed, or when the broker, Java, Spark or its
jars are unavailable; 2 for an invalid command line or specification.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.parser import OneLineParser
from pybroker.pipeline.checkpoint import CheckpointError
from pybroker.pipeline.jars import JarsUnavailableError
from pybroker.pipeline.java import JavaNotFoundError
from pybroker.pipeline.spec import Pipeline, SpecError, load
from pybroker.schema_registry import RegistryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineError(Exception):
    """A pipeline cannot run, or has failed, although its file is valid."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    options = command_line().parse_args(arguments)
    act: Callable[[argparse.Namespace], int] = options.act
    try:
        return act(options)
    except SpecError as error:
        return _refuse(f"{options.spec}: {error}", 2)
    except RegistryError as error:
        return _refuse(f"{options.spec}: {error}", 1)
    except (PipelineError, CheckpointError, JavaNotFoundError, JarsUnavailableError) as error:
        return _refuse(str(error), 1)
    except BrokenPipeError:
        raise
    except OSError as error:  # for example a checkpoint without permission to read it
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)


def command_line() -> OneLineParser:
    """Return the parser of the command line. Its help is also a page of the documentation."""
    parser = OneLineParser(prog="pybroker pipeline", description="Data pipelines on Spark.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=OneLineParser)

    def verb(name: str, act: Callable[[argparse.Namespace], int], help: str) -> OneLineParser:
        one = verbs.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        one.add_argument("spec", type=Path, metavar="FILE", help="the specification, a YAML file")
        one.set_defaults(act=act)
        return one

    run = verb("run", _run, "run its streams until they end, or until SIGTERM")
    run.add_argument(
        "--once", action="store_true", help="process the existing records, whatever the triggers are, and end"
    )
    run.add_argument(
        "--metrics", type=Path, metavar="FILE", help="maintain metrics in this file, in Prometheus' text format"
    )
    for one in (
        verb("check", _check, "analyse it and its SQL; this starts nothing and touches no data"),
        verb("explain", _explain, "print Spark's plan of each stream"),
    ):
        one.add_argument("--offline", action="store_true", help="do not ask the broker whether topics exist")
    status = verb("status", _status, "show the position and the lag of each stream")
    status.add_argument("--json", action="store_true", help="one JSON object a stream")
    package = verb(
        "package", _package, "package it with everything that a Spark cluster needs to run it by spark-submit"
    )
    package.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR|FILE.zip", help="the output, which must not exist yet"
    )
    verb("init", _init, "write a small specification as a start")
    return parser


def _run(options: argparse.Namespace) -> int:
    pipeline = _load(options.spec)
    _prepare(options.spec, pipeline, ask_broker=True)
    from pybroker.pipeline.preflight import see_writable
    from pybroker.pipeline.running import Run

    if options.metrics is not None:
        try:
            see_writable(options.metrics.parent)
        except OSError as error:
            raise PipelineError(f"--metrics {options.metrics}: {error.strerror}") from error

    run = Run(pipeline, options.metrics)
    with _spark(pipeline) as spark:
        failure = run.streams(spark, once=options.once)
    if failure is not None:
        raise PipelineError(failure)
    return 0


def _check(options: argparse.Namespace) -> int:
    pipeline = _load(options.spec)
    _prepare(options.spec, pipeline, ask_broker=not options.offline)
    from pybroker.pipeline.plan import plan

    with _spark(pipeline) as spark:
        plan(spark, pipeline)
    sources, streams = _count(len(pipeline.sources), "source"), _count(len(pipeline.streams), "stream")
    print(f"{options.spec}: no problems: {sources}, {streams}")
    return 0


def _explain(options: argparse.Namespace) -> int:
    pipeline = _load(options.spec)
    _prepare(options.spec, pipeline, ask_broker=not options.offline)
    from pybroker.pipeline.plan import plan

    with _spark(pipeline) as spark:
        for one in plan(spark, pipeline):
            query = one.query
            print(f"{query.name}: {query.source_name} -> {query.sink.place()}, checkpoint {query.checkpoint}")
            one.rows.select("*").explain(mode="formatted")  # Spark does not know yet that the SQL's result is a stream
    return 0


def _status(options: argparse.Namespace) -> int:
    pipeline = _load(options.spec)
    _need("confluent_kafka")
    from pybroker.pipeline.status import statuses

    found, complaint = statuses(pipeline)
    for status in found:
        print(json.dumps(status.as_json()) if options.json else "\n".join(status.lines()))
    if complaint is not None:
        raise PipelineError(complaint)
    return 0


def _package(options: argparse.Namespace) -> int:
    pipeline = _load(options.spec)
    _need("pyspark")  # the Spark of the cluster must have the version of the connector
    from pybroker.pipeline.package import local_folders, write_package
    from pybroker.pipeline.session import all_jars

    try:
        script = write_package(options.spec, pipeline, all_jars(pipeline), options.output)
    except OSError as error:
        raise PipelineError(f"{error.filename or options.output}: {error.strerror}") from error
    for path, folder in local_folders(pipeline):
        print(
            f"{options.spec}: {path}: {folder} has to be the same folder on all machines of the cluster",
            file=sys.stderr,
        )
    where = f"{options.output} is written: " + ("unpack it, then: " if options.output.suffix == ".zip" else "")
    print(f"{where}{script} --master spark://HOST:7077")
    return 0


def _init(options: argparse.Namespace) -> int:
    from pybroker.pipeline.template import template

    try:
        with options.spec.open("x", encoding="utf-8") as file:
            file.write(template())
    except OSError as error:
        raise PipelineError(f"{options.spec}: {error.strerror}") from error
    print(f"{options.spec} is written: change it, then: pybroker pipeline check {options.spec}")
    return 0


def _load(spec: Path) -> Pipeline:
    _need("yaml")
    try:
        return load(spec, os.environ)
    except OSError as error:
        raise SpecError("", error.strerror or str(error)) from error


def _prepare(spec: Path, pipeline: Pipeline, *, ask_broker: bool) -> None:
    """Check everything that can be checked before Spark starts."""
    _need("pyspark")
    from pybroker.pipeline.preflight import check_folders, check_topics

    check_folders(pipeline)
    if ask_broker:
        _need("confluent_kafka")
        from pybroker.pipeline.cluster import Cluster, ClusterError

        try:
            check_topics(pipeline, Cluster(pipeline.kafka))
        except ClusterError as error:
            raise PipelineError(f"{spec}: kafka.bootstrap: {error}") from error


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise PipelineError(f"{package} is needed: pip install '.[pipeline]' in the folder of pybroker's sources")


@contextmanager
def _spark(pipeline: Pipeline) -> Iterator[SparkSession]:
    """Run Spark for the duration of the context. Its errors become PipelineError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from pybroker.pipeline.session import GONE, end_session, java_error, open_session

    spark = None
    try:
        spark = open_session(pipeline)
        yield spark
    except PySparkException as error:
        raise PipelineError(str(error).strip().partition("\n")[0]) from error
    except (Py4JError, *GONE) as error:
        raise PipelineError(f"Spark: {java_error(error)}") from error
    finally:
        if spark is not None:
            end_session(spark)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _refuse(line: str, code: int) -> int:
    print(f"pybroker pipeline: {line}", file=sys.stderr)
    return code
