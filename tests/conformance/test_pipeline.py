"""The data pipeline against the broker: the example's specification, every kind of stream, and the command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from pybroker.pipeline.plan import plan
from pybroker.pipeline.spec import Pipeline, Sink, SpecError, load
from tests.support.brokers import RunningBroker
from tests.support.pipelines import produce, read, run
from tests.support.scale import COSTLY_BROKERS
from tests.support.specifications import document, loaded

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "access-log"
LINE = '127.0.0.1 - - [21/Nov/2026:14:36:4{n} +0000] "GET /page{n}?q=1 HTTP/1.1" 200 1{n} "-" "curl/8.5.0"'


@pytest.fixture
def example(reference: RunningBroker, name: str, tmp_path: Path) -> Pipeline:
    """Return the example's specification, on the test's own topics and folders."""
    environ = {"BOOTSTRAP": reference.bootstrap, "LAKE": str(tmp_path)}
    pipeline = load(EXAMPLE / "pipeline.yaml", environ)
    source = replace(pipeline.sources["access"], topics=[name], dead_letter=None)
    per_minute = replace(pipeline.streams["per_minute"], sink=Sink("parquet", str(tmp_path / "per_minute")))
    streams = {"requests": pipeline.streams["requests"], "per_minute": per_minute}
    return replace(pipeline, sources={"access": source}, streams=streams)


@pytest.mark.kafka_each_time
def test_rows_are_archived_once_and_counted_in_windows(
    spark: SparkSession, reference: RunningBroker, example: Pipeline, name: str, tmp_path: Path
) -> None:
    """Two runs: the second continues at the checkpoint; the files have each closed window once.

    A line that comes too late for its window is still a row, and counted as late.
    """
    lines = [LINE.format(n=n).encode() for n in range(10)]
    later = [line.replace(b"14:36", minute) for minute in (b"14:37", b"14:38") for line in lines]
    produce(reference, name, *lines, b"garbage")
    run(spark, example)
    produce(reference, name, *later, lines[0].replace(b"14:36", b"14:20"))
    assert run(spark, example) == {"requests": 0, "per_minute": 1}

    requests = spark.read.parquet(str(tmp_path / "requests"))
    counted = (
        spark.read.parquet(str(tmp_path / "per_minute")).groupBy("window_start").agg(f.sum("requests"), f.sum("bytes"))
    )
    assert requests.count() == 31
    assert {row.path for row in requests.select("path").collect()} == {f"/page{n}" for n in range(10)}
    assert (tmp_path / "requests" / "date=2026-11-21").is_dir()
    of_a_minute = sum(int(f"1{n}") for n in range(10))
    assert sorted((row[0].minute, row[1], row[2]) for row in counted.collect()) == [
        (36, 10, of_a_minute),
        (37, 10, of_a_minute),
    ]


def events() -> list[bytes]:
    """Return JSON values with id, page and time; one is there twice, one is far later and ends all windows."""
    seconds = [0, 10, 50, 70, 200]
    rows = [{"id": n, "page": f"/{n % 2}", "at": s} for n, s in enumerate(seconds)]
    for row in rows:
        minute, second = divmod(int(row.pop("at")), 60)
        row["time"] = f"2026-11-21T14:{minute:02d}:{second:02d}Z"
    last = {"id": 99, "page": "/end", "time": "2026-11-21T15:00:00Z"}
    return [json.dumps(row).encode() for row in [rows[0], *rows, last]]


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_windows_duplicates_joins_and_databases(
    spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path
) -> None:
    """Sliding windows, sessions, deduplication, a join with a table of files, a database table that is rewritten."""
    (tmp_path / "pages.csv").write_text("page,title\n/0,even\n/1,odd\n")
    database = f"jdbc:derby:{tmp_path}/database;create=true"
    to = {
        stream: {"format": "parquet", "path": f"{tmp_path}/{stream}"}
        for stream in ("unique", "sliding", "sessions", "titles")
    }
    hour = {"column": "time", "watermark": "1 minute"}
    pipeline = loaded(
        tmp_path,
        document(
            name=name,
            kafka={"bootstrap": reference.bootstrap},
            checkpoint_root=f"{tmp_path}/state",
            tables={
                "pages": {
                    "format": "csv",
                    "path": f"{tmp_path}/pages.csv",
                    "schema": "page STRING, title STRING",
                    "options": {"header": True},
                }
            },
            sources={
                "e": {
                    "topics": [name],
                    "parse": {"format": "json", "schema": "id INT, page STRING, time STRING"},
                    "event_time": hour,
                }
            },
            streams={
                "unique": {"from": "e", "deduplicate": ["id"], "sink": to["unique"]},
                "sliding": {"from": "e", "window": {"on": "time", "every": "2m", "slide": "1m"}, "sink": to["sliding"]},
                "sessions": {
                    "from": "e",
                    "window": {"on": "time", "gap": "55s", "by": ["page"], "aggregate": {"n": "count(*)"}},
                    "sink": to["sessions"],
                },
                "titles": {"from": "e", "sql": "SELECT id, title FROM e JOIN pages USING (page)", "sink": to["titles"]},
                "totals": {
                    "from": "e",
                    "sql": "SELECT page, count(*) AS visits FROM e GROUP BY page",
                    "mode": "complete",
                    "sink": {"format": "jdbc", "url": database, "table": "totals"},
                },
            },
        ),
    )
    produce(reference, name, *events())
    run(spark, pipeline)

    def minutes(stream: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = spark.read.parquet(str(tmp_path / stream)).selectExpr("date_format(window_start, 'HH:mm:ss')", *columns)
        return sorted(tuple(row) for row in rows.collect())

    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "unique")).collect()) == [0, 1, 2, 3, 4, 99]
    assert minutes("sliding", "count") == [
        *(("13:59:00", 4), ("14:00:00", 5), ("14:01:00", 1), ("14:02:00", 1), ("14:03:00", 1)),
    ]
    assert minutes("sessions", "page", "n") == [
        *(("14:00:00", "/0", 3), ("14:00:10", "/1", 1), ("14:01:10", "/1", 1), ("14:03:20", "/0", 1)),
    ]
    assert spark.read.parquet(str(tmp_path / "titles")).groupBy("title").count().orderBy("title").collect() == [
        Row("even", 4),
        Row("odd", 2),
    ]
    table = spark.read.format("jdbc").options(url=database, dbtable="totals").load()
    assert {row[0]: row[1] for row in table.collect()} == {"/0": 4, "/1": 2, "/end": 1}


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_delta_table_has_each_row_once(
    spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path
) -> None:
    """A batch whose commit was lost is repeated. Another stream rewrites its table with each batch."""
    to = {stream: {"format": "delta", "path": f"{tmp_path}/{stream}"} for stream in ("copy", "totals")}
    pipeline = loaded(
        tmp_path,
        document(
            kafka={"bootstrap": reference.bootstrap},
            checkpoint_root=f"{tmp_path}/state",
            sources={"e": {"topics": [name], "parse": {"format": "json", "schema": "id INT"}}},
            streams={
                "copy": {"from": "e", "sql": "SELECT id, id % 2 AS odd FROM e", "sink": to["copy"]},
                "totals": {
                    "from": "e",
                    "sql": "SELECT id % 2 AS odd, count(*) AS n FROM e GROUP BY odd",
                    "mode": "complete",
                    "sink": to["totals"],
                },
            },
        ),
    )
    for ids in (range(10), range(10, 15)):
        produce(reference, name, *(b'{"id": %d}' % number for number in ids))
        run(spark, pipeline)
    for lost in ("1", ".1.crc"):
        (tmp_path / "state" / "copy" / "commits" / lost).unlink()
    run(spark, replace(pipeline, streams={"copy": pipeline.streams["copy"]}))

    tables = {stream: spark.read.format("delta").load(sink["path"]) for stream, sink in to.items()}
    assert sorted(row.id for row in tables["copy"].collect()) == list(range(15))
    assert {row.odd: row.n for row in tables["totals"].collect()} == {0: 8, 1: 7}


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_starting_positions(spark: SparkSession, reference: RunningBroker, name: str, tmp_path: Path) -> None:
    """By offset, by time, and for single partitions."""
    producer = Producer({"bootstrap.servers": reference.bootstrap})
    for number in range(10):
        producer.produce(name, b"%d" % number, partition=0, timestamp=1_700_000_000_000 + number)
    assert producer.flush(60) == 0
    sources = {
        "by_offset": {"topics": [name], "starting": {"offsets": {name: {0: 7}}}},
        "by_time": {"topics": [name], "starting": {"timestamp": 1_700_000_000_004}},
        "by_partition": {"assign": {name: [0]}, "max_per_trigger": 4},
    }
    streams = {
        f"of_{source}": {"from": source, "sink": {"format": "parquet", "path": f"{tmp_path}/{source}"}}
        for source in sources
    }
    kafka = {"bootstrap": reference.bootstrap}
    run(
        spark,
        loaded(tmp_path, document(kafka=kafka, sources=sources, streams=streams, checkpoint_root=f"{tmp_path}/state")),
    )

    counts = {source: spark.read.parquet(str(tmp_path / source)).count() for source in sources}
    assert counts == {"by_offset": 3, "by_time": 6, "by_partition": 10}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sql": "SELECT nothing FROM s"}, "streams.q.sql: [UNRESOLVED_COLUMN"),
        ({"sql": "SELEC 1"}, "streams.q.sql: [PARSE_SYNTAX_ERROR]"),
        ({"sql": "SELECT * FROM missing"}, "streams.q.sql: [TABLE_OR_VIEW_NOT_FOUND]"),
        ({"sql": "SELECT value, count(*) FROM s GROUP BY value"}, "streams.q: [STREAMING_OUTPUT_MODE"),
        ({"deduplicate": ["valu"]}, "streams.q.deduplicate: "),
        ({"window": {"on": "tim", "every": "1m"}}, "streams.q.window: [UNRESOLVED_COLUMN"),
        (
            {"sink": {"format": "parquet", "path": "p", "partition_by": ["valeu"]}},
            "streams.q.sink.partition_by[0]: no column 'valeu'; did you mean value?",
        ),
        (
            {"sink": {"format": "kafka", "topic": "t", "key": "id"}},
            "streams.q.sink.key: no column 'id'; there are: value",
        ),
    ],
)
def test_plan_that_spark_cannot_make_is_refused(
    spark: SparkSession, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """With the path in the file and Spark's first line, before anything starts; no broker is asked."""
    stream = {"from": "s", "sink": {"format": "console"}, **changes}
    source = {"topics": ["t"], "event_time": {"column": "_timestamp"}}

    with pytest.raises(SpecError) as refused:
        plan(spark, loaded(tmp_path, document(sources={"s": source}, streams={"q": stream})))
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def pipeline_command(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start the command."""
    command = [sys.executable, "-m", "pybroker", "pipeline", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_unparsed_records_go_to_the_dead_letter_topic(reference: RunningBroker, name: str, tmp_path: Path) -> None:
    """The command: bad records unchanged, with their origin and the error; good ones as JSON into a topic, by key."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"""
version: 1
name: {name}
kafka: {{bootstrap: "{reference.bootstrap}", options: {{client.id: pipeline}}}}
checkpoint_root: {tmp_path}/state
sources:
  access:
    topics: [{name}]
    parse: {{format: regex, preset: nginx_combined}}
    dead_letter: {{topic: {name}-dlt}}
streams:
  copy:
    from: access
    sql: SELECT status, path FROM access
    trigger: 1s
    sink: {{format: kafka, topic: {name}-copy, key: path}}
"""
    )
    produce(reference, name, LINE.format(n=1).encode(), b"garbage", LINE.format(n=2).encode())

    running = pipeline_command("run", str(spec), "--metrics", str(tmp_path / "metrics.prom"))
    told = ""
    while "copy: batch 0: 3 records, 1 of them could not be parsed" not in told or "dead-letters: batch 0" not in told:
        line = running.stdout.readline() if running.stdout else ""
        assert line, running.communicate()[1]
        told += line
    running.send_signal(signal.SIGTERM)
    assert running.communicate(timeout=120) is not None
    assert running.returncode == 0

    [letter] = read(reference, f"{name}-dlt", 1)
    assert (letter.key(), letter.value()) == (b"k", b"garbage")
    headers = dict(letter.headers())
    assert headers.pop("offset").isdigit()
    assert headers == {"h": b"v", "error": b"no match of the pattern", "topic": name.encode(), "partition": b"0"}
    copied = {(m.key(), m.value()) for m in read(reference, f"{name}-copy", 2)}
    assert copied == {(b"/page%d?q=1" % n, b'{"status":200,"path":"/page%d?q=1"}' % n) for n in (1, 2)}

    status, _ = pipeline_command("status", str(spec), "--json").communicate(timeout=60)
    assert [(one["query"], one["batch"], one["lag"]) for one in map(json.loads, status.splitlines())] == [
        ("access-dead-letters", 0, 0),
        ("copy", 0, 0),
    ]
    assert 'pybroker_pipeline_records_total{query="copy"} 3' in (tmp_path / "metrics.prom").read_text()

    spec.write_text(spec.read_text().replace(f"topic: {name}-copy", f"topic: {name}-other"))
    other = pipeline_command("run", str(spec))
    _, complaint = other.communicate(timeout=60)
    assert other.returncode == 2
    assert f"streams.copy: the checkpoint {tmp_path}/state/copy is of another specification: sink was" in complaint


def test_command_that_cannot_be_done_says_why(tmp_path: Path) -> None:
    """Exit code 2 for the file and 1 for the broker, in one line; SQL is analysed without a broker."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"{{version: 1, name: n, kafka: {{bootstrap: '127.0.0.1:1'}}, checkpoint_root: {tmp_path}/state, "
        f"sources: {{s: {{topics: [t]}}}}, streams: {{q: {{from: s, sql: SELECT no_such_column FROM s, "
        f"sink: {{format: parquet, path: {tmp_path}/rows}}}}}}}}"
    )

    offline, run = pipeline_command("check", "--offline", str(spec)), pipeline_command("run", str(spec))

    _, complaint = offline.communicate(timeout=300)
    assert offline.returncode == 2
    assert f"{spec}: streams.q.sql: [UNRESOLVED_COLUMN" in complaint
    _, complaint = run.communicate(timeout=300)
    assert run.returncode == 1
    assert f"pybroker pipeline: {spec}: kafka.bootstrap: the broker 127.0.0.1:1: " in complaint
    assert not (tmp_path / "state").exists()
