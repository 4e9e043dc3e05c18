"""Streams that fail for a while restart with growing delays, or end the pipeline; each row is in the files once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pybroker.pipeline.cluster import Cluster
from pybroker.pipeline.spec import Kafka, Pipeline
from tests.conformance.conftest import StartBroker
from tests.support.brokers import RunningBroker
from tests.support.pipelines import Scenario, Supervised, produce, read
from tests.support.specifications import document, loaded

#: time-outs of Kafka's clients without a broker
SHORT_PATIENCE = {
    "request.timeout.ms": 1000,
    "default.api.timeout.ms": 2000,
    "delivery.timeout.ms": 3000,
    "max.block.ms": 2000,
}
COUNT = 50


def copying(tmp_path: Path, broker: RunningBroker, name: str, sink: dict[str, Any], **changes: Any) -> Pipeline:
    """Return a pipeline of two streams: `archive` into files, `copy` to a sink."""
    to_files = {"format": "parquet", "path": str(tmp_path / "lake")}
    streams = {
        stream: {"from": "s", "trigger": "200ms", "sink": where}
        for stream, where in (("archive", to_files), ("copy", sink))
    }
    whole = document(
        kafka={"bootstrap": broker.bootstrap, "options": SHORT_PATIENCE},
        checkpoint_root=str(tmp_path / "state"),
        sources={"s": {"topics": [name]}},
        streams=streams,
    )
    return loaded(tmp_path, whole | changes)


def values(part: int) -> list[bytes]:
    return [b"%d" % number for number in range(part * COUNT, (part + 1) * COUNT)]


def rows(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(folder)).collect())


def replaced(lake: Path) -> Callable[[], Path]:
    """Replace a folder by a file; return a function that restores the folder."""
    aside = lake.rename(lake.with_name("aside"))
    lake.write_text("in the way")

    def back() -> Path:
        lake.unlink()
        return aside.rename(lake)

    return back


def test_a_folder_that_is_missing_for_a_while(
    spark: SparkSession, shared_broker: Callable[[str], RunningBroker], name: str, tmp_path: Path
) -> None:
    """The stream restarts until the folder is back; rows of the meantime are there once; the other stream is
    unaffected.
    """
    broker, lake = shared_broker("ours"), tmp_path / "lake"
    sink = {"format": "parquet", "path": str(tmp_path / "copy")}
    restart = {"attempts": 30, "back_off": "200ms", "back_off_max": "1s"}
    produce(broker, name, *values(0))
    metrics = tmp_path / "metrics.prom"
    running = Supervised(spark, copying(tmp_path, broker, name, sink, restart=restart), metrics)

    def scenario() -> Scenario:
        yield lambda: running.records("archive") == COUNT
        bring_back = replaced(lake)
        produce(broker, name, *values(1))
        yield lambda: len(running.waits("archive")) >= 3 and running.records("copy") == 2 * COUNT
        produce(broker, name, *values(2))
        bring_back()
        yield lambda: running.records("archive") == running.records("copy") == 3 * COUNT

    assert running.run(scenario()) is None
    assert rows(spark, lake) == rows(spark, tmp_path / "copy") == list(range(3 * COUNT))
    waits = running.waits("archive")
    assert waits == [0.2, 0.4, 0.8, *[1.0] * (len(waits) - 3)]
    assert running.waits("copy") == []
    assert f'pybroker_pipeline_restarts_total{{query="archive"}} {len(waits)}' in metrics.read_text()


def test_a_failure_without_restart_ends_all_streams(
    spark: SparkSession, shared_broker: Callable[[str], RunningBroker], name: str, tmp_path: Path
) -> None:
    """The command returns the reason, in a line; the next run continues each stream."""
    broker, lake = shared_broker("ours"), tmp_path / "lake"
    pipeline = copying(tmp_path, broker, name, {"format": "parquet", "path": str(tmp_path / "copy")})
    produce(broker, name, *values(0))
    running = Supervised(spark, pipeline)
    back: list[Callable[[], Path]] = []

    def until_it_fails() -> Scenario:
        yield lambda: running.records("archive") == running.records("copy") == COUNT
        back.append(replaced(lake))
        produce(broker, name, *values(1))
        yield lambda: False

    reason = running.run(until_it_fails())
    assert reason is not None
    assert reason.startswith("archive: ")
    assert "\n" not in reason
    assert spark.streams.active == []

    back.pop()()
    again = Supervised(spark, pipeline)

    def until_all_is_there() -> Scenario:
        yield lambda: rows(spark, lake) == rows(spark, tmp_path / "copy") == list(range(2 * COUNT))

    assert again.run(until_all_is_there()) is None


def test_brokers_down_for_longer_than_client_timeouts(
    spark: SparkSession, start_broker: StartBroker, name: str, tmp_path: Path
) -> None:
    """First the sink's broker, which affects only its own stream; then the source's."""
    ours, other = start_broker("ours"), start_broker("ours")
    sink = {"format": "kafka", "topic": name, "options": {"kafka.bootstrap.servers": other.bootstrap}}
    restart = {"attempts": 60, "back_off": "200ms", "back_off_max": "1s"}
    produce(ours, name, *values(0))
    running = Supervised(spark, copying(tmp_path, ours, name, sink, restart=restart))

    def scenario() -> Scenario:
        yield lambda: running.records("copy") == COUNT
        other.kill()
        produce(ours, name, *values(1))
        yield lambda: running.waits("copy") and running.records("archive") == 2 * COUNT
        assert running.waits("archive") == []
        other.start()
        yield lambda: running.records("copy") == 2 * COUNT
        ours.kill()
        yield lambda: running.waits("archive")
        ours.start()
        produce(ours, name, *values(2))
        yield lambda: running.records("archive") == running.records("copy") == 3 * COUNT

    assert running.run(scenario()) is None
    assert rows(spark, tmp_path / "lake") == list(range(3 * COUNT))
    end = Cluster(Kafka(other.bootstrap)).ends([(name, 0)], committed=True)[name, 0]
    copied = [message.value() for message in read(other, name, end)]
    assert len(copied) == end
    assert {value for value in copied if value} == {b'{"value":"%d"}' % number for number in range(3 * COUNT)}
