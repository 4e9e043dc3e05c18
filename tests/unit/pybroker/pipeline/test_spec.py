"""Specifications: what is right, and what each mistake is told as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pybroker.pipeline.spec import EventTime, Parse, Pipeline, Sink, SpecError, Window, load

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "access-log" / "pipeline.yaml"


def document(**changes: Any) -> dict[str, Any]:
    """The smallest specification, changed."""
    whole: dict[str, Any] = {
        "version": 1,
        "name": "n",
        "kafka": {"bootstrap": "127.0.0.1:9092"},
        "checkpoint_root": "state",
        "sources": {"s": {"topics": ["t"]}},
        "streams": {"q": {"from": "s", "sink": {"format": "parquet", "path": "rows"}}},
    }
    return whole | changes


def loaded(tmp_path: Path, content: object, **environ: str) -> Pipeline:
    path = tmp_path / "spec.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return load(path, environ)


def test_smallest_specification_has_the_defaults(tmp_path: Path) -> None:
    """What is not said."""
    pipeline = loaded(tmp_path, document())

    assert pipeline.spark.master == "local[2]"
    assert pipeline.sources["s"].starting == "earliest"
    assert pipeline.sources["s"].parse == Parse("text")
    assert pipeline.streams["q"].trigger == "once"


def test_example_is_right() -> None:
    """The specification that the demo runs, with its environment variables' defaults."""
    pipeline = load(EXAMPLE, {})

    assert pipeline.kafka.bootstrap == "127.0.0.1:9092"
    assert pipeline.sources["access"].event_time == EventTime("time", "dd/MMM/yyyy:HH:mm:ss Z", "10 seconds")
    assert pipeline.streams["per_minute"].window == Window(
        "time", "1 minute", ["status", "path"], {"requests": "count(*)", "bytes": "sum(bytes)"}
    )
    assert pipeline.streams["requests"].sink == Sink("parquet", "./lake/requests", ["date"])


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
        ({"sources": {"s": {}}}, "sources.s.topics: give either topics or pattern"),
        ({"sources": {"s": {"topics": ["t"], "pattern": "t"}}}, "sources.s.topics: give either topics or pattern"),
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
            "format text takes neither pattern nor preset",
        ),
        ({"streams": {"q": {"from": "t", "sink": {"format": "kafka", "topic": "t"}}}}, "streams.q.from: no source 't'"),
        ({"streams": {"q": {"from": "s", "sink": {"format": "kafka"}}}}, "streams.q.sink.topic: format kafka needs it"),
        (
            {"streams": {"q": {"from": "s", "sink": {"format": "delta"}}}},
            "streams.q.sink.format: 'delta' is not one of",
        ),
    ],
)
def test_mistake_is_told_with_its_path(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """Unknown keys with the nearest known one; missing keys; wrong kinds; what does not go together."""
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, document(**changes))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ({"trigger": "sometimes"}, "streams.q.trigger: 'sometimes' is neither once nor an interval"),
        ({"mode": "update"}, "streams.q.mode: files cannot be updated"),
        ({"window": {"on": "time", "every": "1 minute"}}, "streams.q.window: append needs an event_time"),
    ],
)
def test_stream_that_cannot_work_is_refused(tmp_path: Path, stream: dict[str, Any], message: str) -> None:
    """Combinations that Spark would refuse later, or that would never write anything."""
    whole = document()
    whole["streams"]["q"] |= stream
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, whole)
    assert message in str(refused.value)


def test_environment_variables_are_put_in(tmp_path: Path) -> None:
    """${NAME} and ${NAME:-default}, anywhere in a text."""
    whole = document(name="x-${ONE}-${TWO:-two}", kafka={"bootstrap": "${ONE:-no}"})

    assert loaded(tmp_path, whole, ONE="1").name == "x-1-two"
    assert loaded(tmp_path, whole, ONE="1").kafka.bootstrap == "1"
    with pytest.raises(SpecError, match="name: the environment variable ONE is not set"):
        loaded(tmp_path, whole)


def test_words_of_older_yaml_are_words(tmp_path: Path) -> None:
    """`on`, `yes` and `no` are texts; true and false are booleans, and become Spark's words."""
    pipeline = loaded(
        tmp_path,
        yaml.safe_dump(document()) + "spark: {conf: {a: yes, b: true, c: 2, d: on}}\n",
    )

    assert pipeline.spark.conf == {"a": "yes", "b": "true", "c": "2", "d": "on"}


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
    ],
)
def test_broken_yaml_is_told_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    """What is wrong, and where, without the words of the library."""
    with pytest.raises(SpecError) as wrong:
        loaded(tmp_path, content)
    assert str(wrong.value).startswith(message)
    assert "\n" not in str(wrong.value)
    assert "unicode string" not in str(wrong.value)


def test_file_that_is_no_text(tmp_path: Path) -> None:
    """A specification error as well."""
    (tmp_path / "spec.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="no text in UTF-8"):
        load(tmp_path / "spec.yaml", {})
