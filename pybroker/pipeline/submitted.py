"""Run a packaged pipeline under spark-submit, with the session, master and jars of spark-submit.

Spark properties of spark-submit win over those of the specification, whose `spark.master` is ignored. Exit codes are
those of `pybroker pipeline`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pybroker.cli.parser import OneLineParser
from pybroker.pipeline.checkpoint import CheckpointError
from pybroker.pipeline.preflight import check_folders
from pybroker.pipeline.running import Run
from pybroker.pipeline.session import (
    CONNECTOR,
    GONE,
    LENIENT,
    STACK,
    end_session,
    format_settings,
    java_error,
    silence_sql_errors,
)
from pybroker.pipeline.spec import Pipeline, SpecError, load
from pybroker.schema_registry import RegistryError

#: The versions of Spark that the jars are for, such as 4.2.
_SPARK = CONNECTOR[0].version.rpartition(".")[0] + "."
_DEFAULTS = {"spark.sql.session.timeZone": "UTC", "spark.executor.extraJavaOptions": STACK, **LENIENT}


def main(arguments: Sequence[str]) -> int:
    """Run the pipeline; return the exit code."""
    parser = OneLineParser(prog="main.py", description="A packaged pipeline.")
    parser.add_argument("spec", type=Path, metavar="FILE", help="the specification")
    parser.add_argument(
        "--once", action="store_true", help="process the existing records, whatever the triggers are, and end"
    )
    parser.add_argument(
        "--metrics", type=Path, metavar="FILE", help="maintain metrics in this file, in Prometheus' text format"
    )
    options = parser.parse_args(arguments)
    try:
        pipeline = load(options.spec, os.environ)
        check_folders(pipeline)
        failure = _run(pipeline, options.metrics, once=options.once)
    except SpecError as error:
        return _refuse(f"{options.spec}: {error}", 2)
    except RegistryError as error:
        return _refuse(f"{options.spec}: {error}", 1)
    except CheckpointError as error:
        return _refuse(str(error), 1)
    except OSError as error:
        return _refuse(f"{error.filename or options.spec}: {error.strerror or error}", 1)
    return 0 if failure is None else _refuse(failure, 1)


def _run(pipeline: Pipeline, metrics: Path | None, *, once: bool) -> str | None:
    """Run the streams; return why they failed, if they did."""
    run = Run(pipeline, metrics)
    spark = _session(pipeline)
    try:
        if not spark.version.startswith(_SPARK):
            return f"the jars are for Spark {_SPARK}x, and the cluster has {spark.version}"
        return run.streams(spark, once=once)
    except PySparkException as error:
        return str(error).strip().partition("\n")[0]
    except (Py4JError, *GONE) as error:
        return f"Spark: {java_error(error)}"
    finally:
        end_session(spark)


def _session(pipeline: Pipeline) -> SparkSession:
    silence_sql_errors()
    SparkContext._ensure_initialized()  # with the properties of spark-submit, which SparkConf then knows
    submitted = SparkConf()
    builder = SparkSession.builder
    given = {**_DEFAULTS, "spark.app.name": pipeline.name, **format_settings(pipeline)}
    for key, value in given.items():
        if not submitted.contains(key):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def _refuse(line: str, code: int) -> int:
    print(f"pybroker pipeline: {line}", file=sys.stderr)
    return code
