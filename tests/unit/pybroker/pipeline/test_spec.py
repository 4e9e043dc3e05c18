"""Specifications: valid ones, and the message for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pybroker.pipeline.spec import DeadLetter, EventTime, Parse, Sink, SpecError, Starting, Window, load
from pybroker.pipeline.spec.presets import PRESETS
from tests.support.specifications import document, loaded

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "access-log" / "pipeline.yaml"


def test_minimal_specification_has_the_defaults(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, document())

    assert pipeline.spark.master == "local[2]"
    assert pipeline.sources["s"].starting == "earliest"
    assert pipeline.sources["s"].parse == Parse("text")
    assert pipeline.streams["q"].trigger == "once"


def test_example_is_valid() -> None:
    """The specification of the demo, with the defaults of its environment variables."""
    pipeline = load(EXAMPLE, {})

    assert pipeline.kafka.bootstrap == "127.0.0.1:9092"
    assert pipeline.sources["access"].event_time == EventTime("time", "dd/MMM/yyyy:HH:mm:ss Z", "10 seconds")
    assert pipeline.streams["per_minute"].window == Window(
        "time", "1 minute", by=["status", "path"], aggregate={"requests": "count(*)", "bytes": "sum(bytes)"}
    )
    assert pipeline.streams["requests"].sink == Sink("parquet", "./lake/requests", ["date"])
    assert pipeline.streams["per_minute"].sink == Sink("kafka", topic="nginx-access-per-minute", record_key="path")
    assert pipeline.streams["pages"].sink.url == "jdbc:derby:./lake/tables;create=true"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sorces": {}}, "sorces: unknown key; did you mean sources?"),
        ({"sources": {"s": {"topcis": ["t"]}}}, "sources.s.topcis: unknown key; did you mean topics?"),
        ({"kafka": {}}, "kafka.bootstrap: is missing"),
        ({"kafka": "x"}, "kafka: 'x' is not a mapping"),
        ({"version": 2}, "version: 2 is not one of: 1"),
        ({"name": ["n"]}, "name: ['n'] is not a text"),
        ({"sources": {"s": {"topics": "t"}}}, "sources.s.topics: 't' is not a list"),
        ({"sources": {"s": {}}}, "sources.s.topics: give either topics, pattern or assign"),
        (
            {"sources": {"s": {"topics": ["t"], "pattern": "t"}}},
            "sources.s.topics: give either topics, pattern or assign",
        ),
        ({"sources": {"s": {"topics": ["t"], "starting": "earlyest"}}}, "did you mean earliest?"),
        ({"sources": {"s": {"topics": ["t"], "max_per_trigger": "x"}}}, "'x' is not a whole number"),
        (
            {"sources": {"s": {"topics": ["t"], "parse": {"format": "json"}}}},
            "sources.s.parse.schema: format json needs it",
        ),
        (
            {"sources": {"s": {"topics": ["t"], "parse": {"format": "regex"}}}},
            "sources.s.parse.pattern: format regex needs",
        ),
        (
            {"sources": {"s": {"topics": ["t"], "parse": {"pattern": "x"}}}},
            "sources.s.parse.pattern: format text takes none",
        ),
        ({"streams": {"q": {"from": "t", "sink": {"format": "kafka", "topic": "t"}}}}, "streams.q.from: no source 't'"),
        ({"streams": {"q": {"from": "s", "sink": {"format": "kafka"}}}}, "streams.q.sink.topic: format kafka needs it"),
        (
            {"streams": {"q": {"from": "s", "sink": {"format": "parqet"}}}},
            "streams.q.sink.format: 'parqet' is not one of: parquet, delta, kafka, jdbc, console, "
            "and has no options or packages; did you mean parquet?",
        ),
        (
            {"streams": {"q": {"from": "s", "sink": {"format": "jdbc", "table": "t"}}}},
            "streams.q.sink.url: format jdbc needs it",
        ),
        (
            {"streams": {"q": {"from": "s", "sink": {"format": "parquet", "path": "p", "key": "k"}}}},
            "streams.q.sink.key: format parquet takes none",
        ),
        (
            {"streams": {"q": {"from": "s", "sink": {"format": "x", "packages": ["a:b"]}}}},
            "streams.q.sink.packages[0]: 'a:b' is not group:name:version",
        ),
        ({"streams": {"q-1": {"from": "s", "sink": {"format": "console"}}}}, "streams.q-1: a name is letters"),
        ({"tables": {"s": {"format": "csv", "path": "p"}}}, "tables.s: is the name of a source, too"),
        ({"restart": {"back_off": "soon"}}, "restart.back_off: 'soon' is not an interval"),
        ({"restart": {"attempts": 0}}, "restart.attempts: has to be 1 or more"),
        ({"spark": {"master": "sc://host:15002"}}, "spark.master: a server of Spark Connect runs no pipelines"),
        (
            {"streams": {"q": {"from": "s", "sink": {"format": "kafka", "topic": "a/b"}}}},
            "streams.q.sink.topic: 'a/b' is not a topic name: ",
        ),
    ],
)
def test_mistakes_are_reported_with_their_path(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """Unknown keys with the nearest known one, missing keys, wrong types, and contradictions."""
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, document(**changes))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ({"trigger": "sometimes"}, "streams.q.trigger: 'sometimes' is neither once nor an interval"),
        ({"mode": "update"}, "streams.q.mode: format parquet cannot update: use append"),
        (
            {"mode": "update", "sink": {"format": "delta", "path": "p"}},
            "streams.q.mode: format delta cannot update: use append",
        ),
        ({"sink": {"format": "delta"}}, "streams.q.sink.path: format delta needs it"),
        ({"deduplicate": ["id"]}, "streams.q.deduplicate: needs an event_time in the source 's'"),
        ({"window": {"on": "t"}}, "streams.q.window.every: give either every or gap"),
        ({"window": {"on": "t", "every": "1m", "gap": "1m"}}, "streams.q.window.every: give either every or gap"),
        ({"window": {"on": "t", "gap": "1m", "slide": "1m"}}, "streams.q.window.slide: sessions do not slide"),
        ({"window": {"on": "t", "gap": "1m"}}, "streams.q.window.by: sessions need a column"),
        ({"window": {"on": "t", "every": "1m", "slide": "2m"}}, "streams.q.window.slide: is longer than every"),
        ({"window": {"on": "t", "every": "0s"}}, "streams.q.window.every: must be longer than 0"),
        ({"window": {"on": "time", "every": "1 minute"}}, "streams.q.window: append needs an event_time"),
    ],
)
def test_impossible_stream_is_refused(tmp_path: Path, stream: dict[str, Any], message: str) -> None:
    """Combinations that Spark would reject later, or that would never write anything."""
    whole = document()
    whole["streams"]["q"] |= stream
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, whole)
    assert message in str(refused.value)


def test_streams_must_not_share_a_directory_of_files(tmp_path: Path) -> None:
    """However its path is written. A Delta table may have two writers."""

    def streams(kind: str, *paths: str) -> dict[str, Any]:
        sinks = [{"format": kind, "path": path} for path in paths]
        return {f"q{number}": {"from": "s", "sink": sink} for number, sink in enumerate(sinks)}

    for paths in (("lake", "./lake/"), ("/lake", "file:///lake"), ("s3a://b/lake", "s3a://b/lake/")):
        with pytest.raises(SpecError, match=r"streams\.q1\.sink\.path: stream 'q0' writes there: rows would be lost"):
            loaded(tmp_path, document(streams=streams("parquet", *paths)))
    loaded(tmp_path, document(streams=streams("parquet", "lake/a", "lake/b")))
    loaded(tmp_path, document(streams=streams("delta", "lake", "lake")))


def test_environment_variables_are_substituted(tmp_path: Path) -> None:
    """${NAME} and ${NAME:-default}, anywhere in a string."""
    whole = document(name="x-${ONE}-${TWO:-two}", kafka={"bootstrap": "${ONE:-no}"})

    assert loaded(tmp_path, whole, ONE="1").name == "x-1-two"
    assert loaded(tmp_path, whole, ONE="1").kafka.bootstrap == "1"
    with pytest.raises(SpecError, match="name: the environment variable ONE is not set"):
        loaded(tmp_path, whole)


def test_on_yes_and_no_are_strings(tmp_path: Path) -> None:
    """true and false are booleans, written as Spark does."""
    pipeline = loaded(
        tmp_path,
        yaml.safe_dump(document()) + "spark: {conf: {a: yes, b: true, c: 2, d: on}}\n",
    )

    assert pipeline.spark.conf == {"a": "yes", "b": "true", "c": "2", "d": "on"}


def test_merged_keys_can_be_overridden(tmp_path: Path) -> None:
    """As in YAML: keys beside `<<` have priority."""
    whole = """
version: 1
name: n
kafka: {bootstrap: "127.0.0.1:9092"}
checkpoint_root: state
sources: {s: &first {topics: [t], max_per_trigger: 5}, other: {<<: *first, max_per_trigger: 7}}
streams: {q: {from: s, sink: {format: console}}}
"""
    sources = loaded(tmp_path, whole).sources

    assert (sources["s"].max_per_trigger, sources["other"].max_per_trigger) == (5, 7)
    assert sources["other"].topics == ["t"]


def test_broken_yaml_is_a_specification_error(tmp_path: Path) -> None:
    """With the parser's line and column."""
    with pytest.raises(SpecError, match="line 1"):
        loaded(tmp_path, "a: [")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1\nb: 2", "line 2, column 2: expected ',' or ']', but got ':', while parsing a flow sequence"),
        ("a:\n\t- b", "line 2, column 1: found character '\\t' that cannot start any token"),
        ("a: \0", "unacceptable character #x0000: special characters are not allowed"),
        ("streams: {q: {}, r: {}, q: {}}", "line 1, column 25: the key 'q' is a duplicate"),
        ("a: {0: b, '0': c}", "line 1, column 11: the key '0' is a duplicate"),
        ("a: !!int x", "invalid literal for int()"),
        ("a: &a [*a]", "this is nested too deeply, or in itself"),
        ("[" * 5000, "this is nested too deeply, or in itself"),
    ],
)
def test_broken_yaml_is_one_line(tmp_path: Path, content: str, message: str) -> None:
    """The problem and its position, without the library's terms."""
    with pytest.raises(SpecError) as wrong:
        loaded(tmp_path, content)
    assert str(wrong.value).startswith(message)
    assert "\n" not in str(wrong.value)
    assert "unicode string" not in str(wrong.value)


def test_binary_file_is_a_specification_error(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="line 1: the file is UTF-16, not UTF-8 text"):
        load(tmp_path / "spec.yaml", {})


def test_latin_1_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_bytes(b"# 1\r\n# gr\xf6\xdfe\r\n")
    with pytest.raises(SpecError, match="line 2: the file is not UTF-8 text"):
        load(tmp_path / "spec.yaml", {})


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_byte_order_mark_and_line_ends_of_other_systems(tmp_path: Path, end: str) -> None:
    text = yaml.safe_dump(document())
    (tmp_path / "spec.yaml").write_bytes(("\ufeff" + text.replace("\n", end)).encode())
    assert load(tmp_path / "spec.yaml", {}) == loaded(tmp_path, document())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"assign": {"t": [0]}, "topics": ["t"]}, "topics: give either topics, pattern or assign"),
        ({"topics": ["t"], "starting": {}}, "starting: give either offsets or timestamp"),
        ({"topics": ["t"], "starting": {"timestamp": "noon"}}, "starting.timestamp: 'noon' is not a time such as"),
        (
            {"topics": ["t"], "starting": {"offsets": {"t": {0: "first"}}}},
            "starting.offsets.t.0: 'first' is not one of",
        ),
        ({"topics": ["t"], "starting": {"offsets": {"t": {0: -1}}}}, "starting.offsets.t.0: neither may be below 0"),
        ({"topics": ["t"], "starting": {"offsets": {"u": {0: 1}}}}, "starting.offsets.u: is not among the topics"),
        ({"topics": ["t", "u"], "starting": {"offsets": {"t": {0: 1}}}}, "starting.offsets: does not name topic u"),
        ({"assign": {"t": [0, 1]}, "starting": {"offsets": {"t": {0: 1}}}}, "starting.offsets.t: has to name the"),
        ({"pattern": "t.*", "starting": {"offsets": {"t": {0: 1}}}}, "starting.offsets: a pattern's topics are not"),
        ({"topics": ["t"], "max_per_trigger": 0}, "max_per_trigger: has to be 1 or more"),
        ({"topics": ["t"], "parse": {"format": "csv"}}, "parse.schema: format csv needs it"),
        ({"topics": ["t"], "parse": {"format": "raw", "schema": "a INT"}}, "parse.schema: format raw takes none"),
        ({"topics": ["t"], "parse": {"max_bytes": 0}}, "parse.max_bytes: has to be 1 or more"),
        (
            {"topics": ["t"], "parse": {"format": "csv", "preset": "nginx_json"}},
            "parse.preset: nginx_json is of format",
        ),
        (
            {"topics": ["t"], "parse": {"preset": "nginx_json", "schema": "a INT"}},
            "parse.schema: the preset nginx_json",
        ),
        *(
            ({"topics": ["t"], "parse": {"format": "avro", **parse}}, f"parse.{message}")
            for parse, message in (
                ({}, "schema: format avro needs schema, schema_file or registry"),
                ({"schema": "{}", "schema_file": "f"}, "schema_file: a schema is given already"),
                ({"schema": "{}", "pattern": "x"}, "pattern: format avro does not support it"),
                ({"registry": "http://r"}, "subject: registry and subject need each other"),
                ({"schema": "{}", "subject": "s"}, "registry: registry and subject need each other"),
                ({"registry": "r:8081", "subject": "s"}, "registry: 'r:8081' is not an address such as http://"),
                (
                    {"registry": "http://r", "subject": "s", "framing": "plain"},
                    "framing: a registry needs a schema's id",
                ),
                ({"schema": "{}", "framing": "x"}, "framing: 'x' is not one of: plain, confluent"),
            )
        ),
        ({"topics": ["t"], "parse": {"schema_file": "f"}}, "parse.schema_file: format text takes none"),
        ({"topics": ["t"], "event_time": {"column": "a", "watermark": "late"}}, "event_time.watermark: 'late' is not"),
        ({"topics": ["t"], "dead_letter": {"topic": ".."}}, "dead_letter.topic: '..' is not a topic name: "),
        ({"topics": ["t"], "dead_letter": {"topic": "x" * 250}}, "dead_letter.topic: 'xxx"),
        ({"topics": ["t"], "dead_letter": {"topic": "x", "max_bytes": 4095}}, "dead_letter.max_bytes: has to be 4096"),
        ({"topics": ["t"], "dead_letter": {"topic": "t"}}, "dead_letter.topic: is read by this source"),
        ({"assign": {"t": [0]}, "dead_letter": {"topic": "t"}}, "dead_letter.topic: is read by this source"),
        ({"pattern": "t-.*", "dead_letter": {"topic": "t-dlt"}}, "dead_letter.topic: is read by this source"),
    ],
)
def test_invalid_source_is_refused(tmp_path: Path, source: dict[str, Any], message: str) -> None:
    """With the key's path below the source."""
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, document(sources={"s": source}))
    assert str(refused.value).startswith(f"sources.s.{message}")


def test_start_positions(tmp_path: Path) -> None:
    """Times are UTC by default, also YAML's own timestamps. Offsets are by partition."""
    assert Starting(timestamp="2026-01-31T08:00:00").timestamp_ms() == 1_769_846_400_000
    assert Starting(timestamp="2026-01-31T10:00:00+02:00").timestamp_ms() == 1_769_846_400_000
    assert Starting(timestamp="1769846400000").timestamp_ms() == 1_769_846_400_000

    text = yaml.safe_dump(document()).replace("- t", "- t\n    starting: {timestamp: 2026-01-31T08:00:00Z}")
    assert loaded(tmp_path, text).sources["s"].starting == Starting(timestamp="2026-01-31T08:00:00Z")
    offsets = {"t": {0: 12, 1: "latest"}}
    pipeline = loaded(tmp_path, document(sources={"s": {"topics": ["t"], "starting": {"offsets": offsets}}}))
    assert pipeline.sources["s"].starting == Starting(offsets)


def test_preset_gives_format_pattern_and_schema() -> None:
    """Each preset is valid and can be parsed."""
    for name, preset in PRESETS.items():
        written_out = Parse(preset=name).written_out()
        assert (written_out.format, written_out.schema, written_out.preset) == (preset.format, preset.schema, None)
    assert Parse(preset="nginx_json").written_out().format == "json"


def test_integers_may_come_from_the_environment(tmp_path: Path) -> None:
    """Substituted variables are strings."""
    whole = document(sources={"s": {"topics": ["t"], "max_per_trigger": "${MOST}"}})

    assert loaded(tmp_path, whole, MOST="500").sources["s"].max_per_trigger == 500


@pytest.mark.parametrize(
    "source", [{"topics": ["t"]}, {"assign": {"t": [0]}}, {"pattern": "t"}, {"pattern": r"\p{Alpha}"}], ids=str
)
def test_dead_letter_topic_must_not_be_a_source(tmp_path: Path, source: dict[str, Any]) -> None:
    """A pattern that only Java can evaluate counts as a source."""
    letter = {"topic": "t-dlt.1_a"}

    pipeline = loaded(tmp_path, document(sources={"s": {**source, "dead_letter": letter}}))

    assert pipeline.sources["s"].dead_letter == DeadLetter("t-dlt.1_a", 1_048_588)


def test_sink_topic_must_not_match_the_source_pattern(tmp_path: Path) -> None:
    """Topics of another broker, and topics that the source names, are allowed."""

    def loads(source: dict[str, Any], **sink: Any) -> None:
        stream = {"from": "s", "sink": {"format": "kafka", "topic": "t-out", **sink}}
        loaded(tmp_path, document(sources={"s": source}, streams={"q": stream}))

    with pytest.raises(
        SpecError, match=r"streams\.q\.sink\.topic: matches the pattern of the source 's': its rows would"
    ):
        loads({"pattern": "t-.*"})
    loads({"pattern": "t-[0-9]"})
    loads({"pattern": "t-.*"}, options={"kafka.bootstrap.servers": "other:9092"})
    loads({"topics": ["t-out"]})
