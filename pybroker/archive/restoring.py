"""An archived topic into a topic, by Spark: each partition's rows in order, by one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybroker.archive import parquet
from pybroker.archive.errors import ArchiveError, UnusableTarget
from pybroker.archive.jobs import told
from pybroker.archive.journal import Journal, Restoring, default_path
from pybroker.archive.restore_plan import PartitionPlan, TargetPartition, exact_problem, plan_restore
from pybroker.archive.store import Archive
from pybroker.source.columns import arrow_schema
from pybroker.source.reader import Reader, shared_reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Those that go to the writer, in its order.
_SENT = ("partition", "timestamp", "key", "value", "headers")
_REPORT = "partition INT, written BIGINT, found BIGINT"


@dataclass(frozen=True)
class Target:
    """Where an archive goes: a topic of a cluster, by a client's properties."""

    properties: Mapping[str, str]
    topic: str
    append: bool = False
    exact_offsets: bool = False


@dataclass(frozen=True)
class Restored:
    """Of one partition: rows that were written now, and that were there before; where the first of all lies.

    Rows below the archived offset `kept_below` have their old offsets.
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
    tell: Callable[[str], None] = lambda line: None,
) -> list[Restored]:
    """Restore what is not there yet; each partition's result.

    Errors: UnusableTarget, ArchiveBusy, ArchiveError, SourceError, OSError.
    """
    ranges = archive.manifest.of_topic(topic)
    if not ranges:
        topics = ", ".join(archive.manifest.topics()) or "none"
        raise ArchiveError(f"{archive.root} has no topic {topic}: there are {topics}")
    with Reader() as reader:
        properties = dict(target.properties)
        described = reader.ask(
            "describe_target", properties=properties, topics=[target.topic], pattern=None, assigned=None
        )
        _check_settings(target.topic, described["settings"], tell)
        cluster = described["cluster"] or ""
        with Journal(state or default_path(archive.inner, cluster, target.topic)) as journal:
            journal.check(topic, target.topic, cluster)
            partitions = [TargetPartition(*each) for each in described["partitions"]]
            plans = plan_restore(ranges, partitions, journal.now, append=target.append)
            ends = {place[1]: end for place, end in archive.manifest.ends().items() if place[0] == topic}
            if target.exact_offsets and (problem := exact_problem(plans, ends)) is not None:
                raise UnusableTarget(problem)
            old = journal.now
            producer = old.producer if old is not None else tuple(reader.ask("new_producer", properties=properties))
            bases = {each.partition: each.base for each in plans}
            journal.put(Restoring(topic, target.topic, cluster, producer, bases, {} if old is None else old.restored))
            written = _write(archive, topic, target, plans, producer, session)
            results = [_result(each, *written.get(each.partition, (0, each.there))) for each in plans]
            for plan, result in zip(plans, results, strict=True):
                if result.written + result.found != plan.total:
                    raise ArchiveError(
                        f"{topic}-{plan.partition}: the files have {result.written + result.found} of {plan.total} rows"
                    )
            journal.complete({each.partition: each.total for each in plans})
    return results


def _check_settings(topic: str, settings: Mapping[str, str | None], tell: Callable[[str], None]) -> None:
    """Errors: UnusableTarget for a topic that would not keep the timestamps."""
    if settings.get("message.timestamp.type") == "LogAppendTime":
        raise UnusableTarget(f"{topic} has message.timestamp.type=LogAppendTime, which would replace the timestamps")
    retention = settings.get("retention.ms")
    if "delete" in (settings.get("cleanup.policy") or "") and retention not in (None, "-1"):
        tell(f"{topic} has retention.ms={retention}: records that are older than that do not stay")


def _result(plan: PartitionPlan, written: int, found: int) -> Restored:
    return Restored(plan.partition, written, found, plan.base, plan.kept_below)


def _write(
    archive: Archive,
    topic: str,
    target: Target,
    plans: Sequence[PartitionPlan],
    producer: tuple[int, ...],
    session: Callable[[], SparkSession],
) -> dict[int, tuple[int, int]]:
    """Rows that were written, and that were found there, of partitions that were not complete."""
    left = {each.partition: each for each in plans if not each.is_complete}
    if not left:
        return {}
    wanted = {
        "topic": target.topic,
        "properties": dict(target.properties),
        "producer": list(producer),
        "partitions": {str(each.partition): {"base": each.base, "index": each.index} for each in left.values()},
    }
    spark = session()
    with told(), parquet.settings(spark):
        rows = parquet.read(spark, archive.root, archive.paths([topic]))
        ordered = _in_order(rows, list(left.values()))
        report = ordered.mapInArrow(_Writer(wanted), _REPORT).collect()
    done: dict[int, tuple[int, int]] = {}
    for row in report:
        done[row["partition"]] = (row["written"], row["found"] + left[row["partition"]].index)
    return done


def _in_order(rows: DataFrame, plans: Sequence[PartitionPlan]) -> DataFrame:
    """The rows that are left, a partition in one task, by their offsets."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    wanted = F.lit(False)
    for each in plans:
        wanted = wanted | ((F.col("partition") == each.partition) & (F.col("offset") >= each.start))
    placed = rows.where(wanted).repartition(len(plans), "partition")
    return placed.sortWithinPartitions("partition", "offset").select(*_SENT)


class _Writer:
    """Gives a task's rows to the process that writes them, and tells what became of them."""

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        self._wanted = dict(wanted)

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        schema = arrow_schema(_SENT)
        rows = (_as_records(batch, schema) for batch in batches)
        answer = shared_reader().tell("restore_topic", rows, **self._wanted)
        report = pa.schema([("partition", pa.int32()), ("written", pa.int64()), ("found", pa.int64())])
        columns = list(zip(*answer["partitions"], strict=True)) or [(), (), ()]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, report, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=report)


def _as_records(batch: Any, schema: Any) -> Any:
    import pyarrow as pa

    arrays = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
