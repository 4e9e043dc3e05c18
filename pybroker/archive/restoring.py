"""Restore an archived topic into a topic, with Spark: one task writes the rows of a partition in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.archive import parquet
from pybroker.archive.errors import ArchiveError, UnusableTarget
from pybroker.archive.jobs import spark_errors
from pybroker.archive.journal import Journal, RestoreState, default_path
from pybroker.archive.restore_plan import PartitionPlan, TargetPartition, exact_problem, plan_restore
from pybroker.archive.restore_sink import SENT, RestoreSink
from pybroker.archive.store import Archive
from pybroker.source.reader import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Target:
    """The target of a restore: a topic of the cluster that the client properties name."""

    properties: Mapping[str, str]
    topic: str
    append: bool = False
    exact_offsets: bool = False


@dataclass(frozen=True)
class Restored:
    """The result for one partition: rows written now, rows that were there before, and the offset of the first row.

    Rows below the archived offset `kept_below` kept their offsets.
    """

    partition: int
    written: int
    found: int
    base: int
    kept_below: int


def restore(
    archive: Archive,
    topic: str,
    target: Target,
    session: Callable[[], SparkSession],
    state: Path | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[Restored]:
    """Restore the rows that the target lacks; return the result of each partition.

    Errors: UnusableTarget, ArchiveBusy, ArchiveError, SourceError, OSError.
    """
    ranges = archive.manifest.of_topic(topic)
    if not ranges:
        topics = ", ".join(archive.manifest.topics()) or "none"
        raise ArchiveError(f"{archive.root} has no topic {topic}. It has {topics}")
    with Reader() as reader:
        properties = dict(target.properties)
        asked = {"properties": properties, "topics": [target.topic], "pattern": None, "assigned": None}
        described = reader.ask("describe_target", **asked)
        _check_settings(target.topic, described["settings"], report)
        cluster = described["cluster"] or ""
        with Journal(state or default_path(archive.inner, cluster, target.topic)) as journal:
            journal.check(topic, target.topic, cluster)
            partitions = [TargetPartition(*each) for each in described["partitions"]]
            plans = plan_restore(ranges, partitions, journal.current, append=target.append)
            ends = {place[1]: end for place, end in archive.manifest.ends().items() if place[0] == topic}
            if target.exact_offsets and (problem := exact_problem(plans, ends)) is not None:
                raise UnusableTarget(problem)
            old = journal.current
            producer = old.producer if old is not None else tuple(reader.ask("new_producer", properties=properties))
            bases = {each.partition: each.base for each in plans}
            journal.put(
                RestoreState(topic, target.topic, cluster, producer, bases, {} if old is None else old.restored)
            )
            if any(not each.is_complete for each in plans):
                _write(archive, topic, target, plans, producer, session)
                partitions = [TargetPartition(*each) for each in reader.ask("describe_target", **asked)["partitions"]]
            results = _results(plans, partitions)
            journal.complete({each.partition: each.total for each in plans})
    return results


def _check_settings(topic: str, settings: Mapping[str, str | None], report: Callable[[str], None]) -> None:
    """Check the settings of the target. Errors: UnusableTarget when it would replace the timestamps."""
    if settings.get("message.timestamp.type") == "LogAppendTime":
        raise UnusableTarget(f"{topic} has message.timestamp.type=LogAppendTime, which would replace the timestamps")
    retention = settings.get("retention.ms")
    if "delete" in (settings.get("cleanup.policy") or "") and retention not in (None, "-1"):
        report(f"{topic} has retention.ms={retention}: the broker deletes older records")


def _results(plans: Sequence[PartitionPlan], partitions: Sequence[TargetPartition]) -> list[Restored]:
    """Return the results, from the plans and the ends of the target. Errors: ArchiveError when rows are missing."""
    ends = {each.partition: each.latest for each in partitions}
    for each in plans:
        if ends[each.partition] - each.base < each.total:
            raise ArchiveError(
                f"partition {each.partition} ends at {ends[each.partition]}, but {each.total} rows belong there from "
                f"{each.base} on: the files of the archive have fewer"
            )
    return [Restored(each.partition, each.total - each.there, each.there, each.base, each.kept_below) for each in plans]


def _write(
    archive: Archive,
    topic: str,
    target: Target,
    plans: Sequence[PartitionPlan],
    producer: tuple[int, ...],
    session: Callable[[], SparkSession],
) -> None:
    """Write the missing rows of the partitions that are not complete."""
    left = [each for each in plans if not each.is_complete]
    wanted = {
        "topic": target.topic,
        "properties": dict(target.properties),
        "producer": list(producer),
        "partitions": {str(each.partition): {"base": each.base, "index": each.index} for each in left},
    }
    spark = session()
    with spark_errors(), parquet.settings(spark):
        spark.dataSource.register(RestoreSink)
        rows = _in_order(parquet.read(spark, archive.root, archive.paths([topic])), left)
        rows.write.format(RestoreSink.name()).mode("append").option("wanted", json.dumps(wanted)).save()


def _in_order(rows: DataFrame, plans: Sequence[PartitionPlan]) -> DataFrame:
    """Return the remaining rows, ordered by offset, with one task for each partition."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    wanted = F.lit(False)
    for each in plans:
        wanted = wanted | ((F.col("partition") == each.partition) & (F.col("offset") >= each.start))
    placed = rows.where(wanted).repartition(len(plans), "partition")
    return placed.sortWithinPartitions("partition", "offset").select(*SENT)
