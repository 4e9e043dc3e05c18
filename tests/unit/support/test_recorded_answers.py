"""Recorded answers of Apache Kafka: when a real one is asked, and what is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import recorded_answers
from tests.support.recorded_answers import RecordedAnswers, is_recorded

FILE = "tests/conformance/test_one.py"


def never() -> object:
    pytest.fail("a real Kafka is asked")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with one record, of the digest "as it is"."""
    RecordedAnswers(FILE, "as it is", "prove", tmp_path / "answers").of("printed", lambda: [("a", 1), {"b": None}])
    return tmp_path / "answers"


def test_recorded_answers_need_no_kafka(directory: Path) -> None:
    assert is_recorded(FILE, "as it is", directory)
    answers = RecordedAnswers(FILE, "as it is", "", directory)
    assert not answers.must_ask
    assert answers.of("printed", never) == [["a", 1], {"b": None}]


@pytest.mark.parametrize(("digest", "asked"), [("changed", ""), ("changed", "prove"), ("as it is", "all")])
def test_kafka_is_asked_after_a_change_and_at_full_size(digest: str, asked: str, directory: Path) -> None:
    answers = RecordedAnswers(FILE, digest, asked, directory)
    assert answers.must_ask
    assert answers.of("printed", lambda: ("new",)) == ["new"]
    assert is_recorded(FILE, "changed", directory) == (asked == "prove")


def test_answers_of_another_kafka_do_not_count(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_answers, "KAFKA_VERSION", "3.9.1")
    assert not is_recorded(FILE, "as it is", directory)


def test_equal_answers_give_equal_files(directory: Path, tmp_path: Path) -> None:
    RecordedAnswers(FILE, "as it is", "prove", tmp_path / "again").of("printed", lambda: [("a", 1), {"b": None}])
    files = [(each / "one.json.gz").read_bytes() for each in (directory, tmp_path / "again")]
    assert files[0] == files[1]
