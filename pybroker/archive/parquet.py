"""Write, read, count and sum up rows in Parquet files, with Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pybroker.source.bounds import TopicPartition
from pybroker.source.columns import SPARK_TYPES

#: The columns of the files. `topic` and `date`, the day of the timestamp in UTC, are folders.
COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
FOLDERS = ("topic", "date")
SCHEMA = ", ".join([*(f"{name} {SPARK_TYPES[name]}" for name in COLUMNS), "topic STRING, date DATE"])
_CODEC = "zstd"
_MODULUS = 1 << 64

#: Keep all timestamps unchanged, to the microsecond, and take days in UTC, whatever the session is set to.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}


class RowSums(NamedTuple):
    """Rows of one partition: their number, checksum, first and last offset."""

    topic: str
    partition: int
    records: int
    checksum: int
    first: int
    last: int

    @property
    def place(self) -> TopicPartition:
        """Return the partition of the rows."""
        return self.topic, self.partition


@contextmanager
def settings(spark: SparkSession) -> Iterator[None]:
    """Give the session the settings that these files need, until the context ends."""
    before = {key: spark.conf.get(key, None) for key in _SETTINGS}
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def write(rows: DataFrame, folder: Path, *, most_rows: int = 0) -> None:
    """Write rows below a folder that does not exist yet, at most `most_rows` in a file (0: no limit)."""
    dated = rows.withColumn("date", F.to_date("timestamp")).select(*COLUMNS, *FOLDERS)
    writer = dated.write.mode("error").option("compression", _CODEC).option("maxRecordsPerFile", most_rows)
    writer.partitionBy(*FOLDERS).parquet(str(folder))


def read(spark: SparkSession, root: Path, paths: Sequence[str]) -> DataFrame:
    """Return the rows of files below a folder."""
    reader = spark.read.schema(SCHEMA).option("basePath", str(root))
    return reader.parquet(*paths) if paths else spark.createDataFrame([], SCHEMA)


def sums(rows: DataFrame) -> list[RowSums]:
    """Count and sum up rows by partition."""
    grouped = rows.groupBy("topic", "partition").agg(
        F.count(F.lit(1)).alias("records"),
        checksum().alias("checksum"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
    )
    return sorted(
        RowSums(
            *(row["topic"], row["partition"], row["records"]),
            *(as_checksum(row["checksum"]), row["first"], row["last"]),
        )
        for row in grouped.collect()
    )


def checksum(where: Column | None = None) -> Column:
    """Return the sum of the row hashes, which no order of the rows changes; only of rows for which `where` holds."""
    # a null does not change Spark's hash, so the hash also covers which columns are null
    hashed = F.xxhash64(
        *("partition", "offset", "timestamp", "timestampType"),
        *(F.col("key").isNull(), "key", F.col("value").isNull(), "value", F.col("headers").isNull()),
        F.transform("headers", lambda header: F.struct(header["value"].isNull(), header)),
    ).cast("decimal(20, 0)")
    return F.sum(hashed if where is None else F.when(where, hashed))


def as_checksum(total: object) -> int:
    """Return a sum of hashes in the form of manifests."""
    return int(str(total or 0)) % _MODULUS


def count_rows(path: Path) -> int:
    """Return the number of rows of a file, from its footer."""
    import pyarrow.parquet as pq

    rows: int = pq.read_metadata(path).num_rows
    return rows


def of_partitions(rows: DataFrame, partitions: Iterable[int]) -> DataFrame:
    """Return the rows of the partitions."""
    return rows.where(F.col("partition").isin(*partitions))
