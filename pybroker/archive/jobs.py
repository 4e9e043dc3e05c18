"""The Spark jobs of an archive: write files from a log, rewrite files, and sum up the rows of logs and files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pybroker.archive import parquet
from pybroker.archive.compacting import Compaction
from pybroker.archive.errors import ArchiveError
from pybroker.archive.inputs import Input
from pybroker.archive.manifest import ArchivedRange
from pybroker.archive.store import Archive
from pybroker.pipeline.session import GONE, end_session, java_error, start_session
from pybroker.source.ranges import OffsetRange
from pybroker.spark import register

_PART = "topic STRING, partition INT, start BIGINT, end BIGINT, shared BIGINT"
#: An error of the reader process, as Spark's error text quotes it.
_SOURCE_ERROR = re.compile(r"pybroker\.source\.errors\.\w+: (.*)")


class Part(NamedTuple):
    """A range whose rows are summed up: all rows, and the rows from the offset `shared` on."""

    topic: str
    partition: int
    start: int
    end: int
    shared: int


class PartSums(NamedTuple):
    """Number and checksum of all rows of a part, and of its rows from `shared` on."""

    records: int
    checksum: int
    shared_records: int
    shared_checksum: int


NOTHING = PartSums(0, 0, 0, 0)
#: Rows that are in no part.
NOWHERE = ("", -1, -1)


class Spark:
    """A Spark session that opens at first use and stops with the context. Spark's errors become ArchiveError."""

    def __init__(self, master: str, memory: str) -> None:
        self._master = master
        self._memory = memory
        self._session: SparkSession | None = None

    def __call__(self) -> SparkSession:
        """Return the session, started if necessary. Errors: JavaNotFoundError."""
        if self._session is None:
            settings = {
                "spark.driver.memory": self._memory,
                "spark.ui.showConsoleProgress": "true" if sys.stderr.isatty() else "false",  # a bar for each stage
            }
            with spark_errors():
                session = start_session("pybroker archive", self._master, settings)
            session.sparkContext.setLogLevel("OFF")  # the command reports an error in one line
            register(session)
            self._session = session
        return self._session

    def stop(self) -> None:
        """Stop the session, if it was started."""
        if self._session is not None:
            end_session(self._session)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn Spark's errors into one-line ArchiveErrors."""
    try:
        yield
    except GONE as error:
        raise ArchiveError(f"Spark: {java_error(error)}") from error
    except (PySparkException, Py4JError) as error:
        text = str(error).strip()
        found = _SOURCE_ERROR.search(text)
        raise ArchiveError(found[1] if found else java_error(text)) from error


def write_ranges(
    session: Callable[[], SparkSession], source: Input
) -> Callable[[Sequence[OffsetRange], Path], list[parquet.RowSums]]:
    """Return a function that writes ranges of a log below a folder and reads them back."""

    def write(ranges: Sequence[OffsetRange], folder: Path) -> list[parquet.RowSums]:
        spark = session()
        with spark_errors(), parquet.settings(spark):
            parquet.write(source.rows(spark, ranges), folder)
            return parquet.sums(parquet.read(spark, folder, [str(folder)]))

    return write


def rewrite_files(
    session: Callable[[], SparkSession], archive: Archive
) -> Callable[[Compaction, Path], tuple[list[parquet.RowSums], list[parquet.RowSums]]]:
    """Return a function that rewrites the rows of files and sums up the old and the new files."""

    def rewrite(wanted: Compaction, folder: Path) -> tuple[list[parquet.RowSums], list[parquet.RowSums]]:
        spark = session()
        with spark_errors(), parquet.settings(spark):
            rows = parquet.read(spark, archive.root, [str(archive.root / each.path) for each in wanted.files])
            tasks = min(wanted.folders, spark.sparkContext.defaultParallelism)
            placed = rows.repartition(tasks, "date").sortWithinPartitions("topic", "date", "partition", "offset")
            parquet.write(placed, folder, most_rows=wanted.most_rows)
            return parquet.sums(rows), parquet.sums(parquet.read(spark, folder, [str(folder)]))

    return rewrite


def sums_of_parts(
    spark: SparkSession, rows: DataFrame, parts: Sequence[Part]
) -> Mapping[tuple[str, int, int], PartSums]:
    """Count and sum up rows by their part: (topic, partition, start), or NOWHERE."""
    known = spark.createDataFrame([tuple(each) for each in parts], _PART).select(
        *(F.col(name).alias(f"part_{name}") for name in Part._fields)
    )
    within = (
        (F.col("topic") == F.col("part_topic"))
        & (F.col("partition") == F.col("part_partition"))
        & (F.col("offset") >= F.col("part_start"))
        & (F.col("offset") < F.col("part_end"))
    )
    shared = F.col("offset") >= F.col("part_shared")
    grouped = (
        rows.join(F.broadcast(known), within, "left")
        .groupBy("part_topic", "part_partition", "part_start")
        .agg(
            F.count(F.lit(1)).alias("records"),
            parquet.checksum().alias("checksum"),
            F.count(F.when(shared, F.lit(1))).alias("shared_records"),
            parquet.checksum(shared).alias("shared_checksum"),
        )
    )
    found = {}
    for row in grouped.collect():
        place = NOWHERE if row["part_topic"] is None else (row["part_topic"], row["part_partition"], row["part_start"])
        found[place] = PartSums(
            *(row["records"], parquet.as_checksum(row["checksum"])),
            *(row["shared_records"], parquet.as_checksum(row["shared_checksum"])),
        )
    return found


def part_of(each: ArchivedRange, shared: int) -> Part:
    """Return the part of a range; from the offset `shared` on the log has the records as well."""
    return Part(each.topic, each.partition, each.start, each.end, min(max(each.start, shared), each.end))
