"""`pybroker pipeline SPEC.yaml`: run a specification's streams on Spark until they end, or until SIGTERM or SIGINT.

Exit codes: 0 when all has ended or was told to; 1 when a stream failed, or Java, Spark or its jars are not there; 2 for
a specification that is not right.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybroker.cli.parser import OneLineParser
from pybroker.pipeline.jars import JarsUnavailableError
from pybroker.pipeline.java import JavaNotFoundError
from pybroker.pipeline.spec import Pipeline, SpecError, load

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.5


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = OneLineParser(prog="pybroker pipeline", description="Run a data pipeline on Spark.")
    parser.add_argument("spec", type=Path, help="the specification, a YAML file")
    parser.add_argument(
        "--once", action="store_true", help="read what is there now, whatever the triggers say, and end"
    )
    parser.add_argument("--check", action="store_true", help="check the specification and end")
    options = parser.parse_args(arguments)
    try:
        pipeline = load(options.spec, os.environ)
    except (SpecError, OSError) as error:
        return _refuse(f"{options.spec}: {error.strerror if isinstance(error, OSError) else error}", 2)
    if options.check:
        sources, streams = _count(len(pipeline.sources), "source"), _count(len(pipeline.streams), "stream")
        print(f"{options.spec}: nothing is wrong: {sources}, {streams}")
        return 0
    if find_spec("pyspark") is None:
        return _refuse("a pipeline needs Spark: pip install '.[pipeline]' in the folder of pybroker's sources", 1)
    try:
        return _run(pipeline, once=options.once)
    except SpecError as error:
        return _refuse(f"{options.spec}: {error}", 2)
    except (JavaNotFoundError, JarsUnavailableError) as error:
        return _refuse(str(error), 1)


def _run(pipeline: Pipeline, *, once: bool) -> int:
    from pyspark.errors import PySparkException, StreamingQueryException

    from pybroker.pipeline.session import open_session
    from pybroker.pipeline.streams import start

    stopping: list[int] = []
    spark = open_session(pipeline)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stopping.append(received))
    try:
        queries = start(spark, pipeline, once=once)
        _tell(f"{pipeline.name}: {', '.join(str(query.name) for query in queries)} started")
        _follow(queries, stopping)
        for query in queries:
            if (failure := query.exception()) is not None:
                return _refuse(f"{query.name}: {failure}", 1)
    except (PySparkException, StreamingQueryException) as error:
        return _refuse(str(error), 1)
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.stop()
    return 0


def _follow(queries: Sequence[StreamingQuery], stopping: Sequence[int]) -> None:
    """Tell of each batch, until all queries have ended, one has failed, or a signal came."""
    told: dict[str, int] = {}
    ended = False
    while not ended:
        ended = bool(stopping) or not any(query.isActive for query in queries)
        ended = ended or any(query.exception() is not None for query in queries)
        for query in queries:
            for progress in query.recentProgress:
                if progress["batchId"] > told.get(query.id, -1):
                    told[query.id] = progress["batchId"]
                    _tell(f"{query.name}: {_summary(progress)}")
        if not ended:
            time.sleep(_POLL_S)


def _summary(progress: Mapping[str, Any]) -> str:
    """Return one line about a batch, from the progress that Spark reports."""
    batch, rows = progress["batchId"], progress["numInputRows"]
    counted = progress["observedMetrics"].get("source")
    unparsed = f", {counted['unparsed']} of them could not be parsed" if counted and counted["unparsed"] else ""
    return f"batch {batch}: {rows} records{unparsed}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _tell(line: str) -> None:
    print(line, flush=True)


def _refuse(line: str, code: int) -> int:
    print(f"pybroker pipeline: {line}", file=sys.stderr)
    return code
