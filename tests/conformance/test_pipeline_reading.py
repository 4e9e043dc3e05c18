"""The records that a pipeline reads by the keys of its specification, and the specifications that it rejects first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pybroker.pipeline.cluster import Cluster
from pybroker.pipeline.plan import plan
from pybroker.pipeline.preflight import check_folders, check_topics, claim_checkpoints
from pybroker.pipeline.progress import Batch
from pybroker.pipeline.spec import Pipeline, SpecError
from tests.support.brokers import RunningBroker
from tests.support.pipelines import produce, run
from tests.support.scale import COSTLY_BROKERS
from tests.support.specifications import document, loaded


def copying(tmp_path: Path, broker: RunningBroker, **sources: dict[str, Any]) -> Pipeline:
    """Return a pipeline of a stream for each source, into files of its name."""
    streams = {
        f"of_{name}": {"from": name, "sink": {"format": "parquet", "path": f"{tmp_path}/{name}"}} for name in sources
    }
    where = {"kafka": {"bootstrap": broker.bootstrap}, "checkpoint_root": f"{tmp_path}/state"}
    return loaded(tmp_path, document(**where, sources=sources, streams=streams))


def copied(spark: SparkSession, tmp_path: Path, source: str) -> list[str]:
    return sorted(row.value for row in spark.read.parquet(f"{tmp_path}/{source}").collect())


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_a_pattern_reads_committed_records(
    spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path
) -> None:
    """All topics that match, also a later one; uncommitted records only on request."""
    pattern = {"pattern": f"{name}-[a-z]"}
    pipeline = copying(tmp_path, reference, committed=pattern, all={**pattern, "isolation": "read_uncommitted"})
    producer = Producer({"bootstrap.servers": reference.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    for topic, value, end in (
        *(("a", b"1", producer.commit_transaction), ("a", b"2", producer.abort_transaction)),
        *(("b", b"3", producer.commit_transaction), ("1", b"not read", producer.commit_transaction)),
    ):
        producer.begin_transaction()
        producer.produce(f"{name}-{topic}", value)
        assert producer.flush(60) == 0
        end(60)
    run(spark, pipeline)
    assert copied(spark, tmp_path, "committed") == ["1", "3"]
    assert copied(spark, tmp_path, "all") == ["1", "2", "3"]

    produce(reference, f"{name}-c", b"4")
    producer.begin_transaction()
    producer.produce(f"{name}-a", b"5")
    assert producer.flush(60) == 0
    run(spark, pipeline)
    producer.abort_transaction(60)

    assert copied(spark, tmp_path, "committed") == ["1", "3", "4"]
    assert copied(spark, tmp_path, "all") == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_deleted_records_fail_a_stream_or_are_skipped(
    spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path
) -> None:
    """Deleted records that the checkpoint had not read yet: `on_data_loss` decides."""
    skipping = copying(tmp_path, reference, skipping={"topics": [name], "on_data_loss": "skip"})
    failing = copying(tmp_path, reference, failing={"topics": [name]})
    produce(reference, name, b"0", b"1")
    for pipeline in (skipping, failing):
        run(spark, pipeline)

    produce(reference, name, b"2", b"3", b"4")
    below = TopicPartition(name, 0, 4)
    admin = AdminClient({"bootstrap.servers": reference.bootstrap})
    admin.delete_records([below])[below].result(60)
    [query] = plan(spark, failing)
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        assert query.start(once=True).awaitTermination(60)
    run(spark, skipping)

    assert copied(spark, tmp_path, "skipping") == ["0", "1", "4"]
    assert copied(spark, tmp_path, "failing") == ["0", "1"]


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_stream_of_two_sources(spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path) -> None:
    """As a union: both sources are counted, with the invalid values of each. Or as a join."""
    parse = {"format": "json", "schema": "id INT, word STRING"}
    sources = {source: {"topics": [f"{name}-{source}"], "parse": parse} for source in ("ones", "others")}
    sql = {
        "both": "SELECT word FROM ones UNION ALL SELECT word FROM others",
        "joined": "SELECT concat(ones.word, others.word) AS word FROM ones JOIN others ON ones.id = others.id",
    }
    streams = {
        stream: {"from": "ones", "sql": text, "sink": {"format": "parquet", "path": f"{tmp_path}/{stream}"}}
        for stream, text in sql.items()
    }
    where = {"kafka": {"bootstrap": reference.bootstrap}, "checkpoint_root": f"{tmp_path}/state"}
    pipeline = loaded(tmp_path, document(**where, sources=sources, streams=streams))
    produce(reference, f"{name}-ones", b'{"id": 1, "word": "a"}', b'{"id": 2, "word": "b"}', b"{")
    produce(reference, f"{name}-others", b'{"id": 2, "word": "c"}', b"[", b"]")

    both, joined = plan(spark, pipeline)
    assert joined.rows.columns == ["word"]
    query = both.start(once=True)
    assert query.awaitTermination(120)
    assert sorted(row.word for row in spark.read.parquet(f"{tmp_path}/both").collect()) == ["a", "b", "c"]
    told = [Batch.of("both", report) for report in query.recentProgress]
    assert (sum(batch.records for batch in told), sum(batch.unparsed for batch in told)) == (6, 3)


def test_invalid_topic_pattern_is_reported_before_the_start(spark: SparkSession, tmp_path: Path) -> None:
    whole = document(sources={"s": {"pattern": "logs-(a|b"}})
    with pytest.raises(SpecError, match=r"sources\.s\.pattern: Java rejects it: Unclosed group"):
        plan(spark, loaded(tmp_path, whole))


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_a_new_checkpoint_beside_old_files_is_rejected(
    spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path
) -> None:
    """The command rejects it: Spark would take the new first batch for the old one, and its rows would be lost."""
    pipeline = copying(tmp_path, reference, second={"topics": [name]})
    produce(reference, name, b"0")
    claim_checkpoints(pipeline)
    run(spark, pipeline)
    check_folders(pipeline)
    shutil.rmtree(tmp_path / "state")
    produce(reference, name, b"1")
    with pytest.raises(SpecError, match=r"streams\.of_second\.sink\.path: .*/second has files of another or a removed"):
        check_folders(pipeline)

    run(spark, pipeline)
    assert copied(spark, tmp_path, "second") == ["0"]


@pytest.mark.parametrize("kind", COSTLY_BROKERS)
def test_an_unwritable_topic_is_reported_before_the_start(
    start_broker: Callable[..., RunningBroker], kind: str, tmp_path: Path
) -> None:
    """The topic is missing and is not created automatically, or its limit is too small."""
    broker = start_broker(kind, {"auto.create.topics.enable": "false"})
    small = NewTopic("small", 1, 1, config={"max.message.bytes": "20000"})
    topics = [NewTopic("t", 1, 1), NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"}), small]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics(topics).values():
        made.result()

    def checked(sink: str, letter: dict[str, Any]) -> None:
        sources = {"s": {"topics": ["t"], "dead_letter": letter}}
        streams = {"q": {"from": "s", "sink": {"format": "kafka", "topic": sink}}}
        pipeline = loaded(tmp_path, document(kafka={"bootstrap": broker.bootstrap}, sources=sources, streams=streams))
        check_topics(pipeline, Cluster(pipeline.kafka))

    small_letter = {"topic": "small", "max_bytes": 20_000}
    for sink, letter, problem in (
        ("sink", small_letter, r"streams\.q\.sink\.topic: the broker has no topic 'sink', and does not create"),
        ("compacted", small_letter, r"streams\.q\.sink\.topic: 'compacted' is compacted"),
        ("t", {"topic": "letters"}, r"sources\.s\.dead_letter\.topic: the broker has no topic 'letters'"),
        ("t", {"topic": "small"}, r"sources\.s\.dead_letter\.max_bytes: 1048588 are more than 'small' accepts: 20000"),
    ):
        with pytest.raises(SpecError, match=problem):
            checked(sink, letter)
    checked("t", small_letter)
