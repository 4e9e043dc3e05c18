"""Apache Kafka's answers of tests that compare both brokers: recorded once for each change of the test.

A test that takes the fixture `recorded` compares pybroker's answers with those of Apache Kafka to the same steps.
`tests/data/answers/` has Kafka's answers by test file, with the file's digest (support/proofs.py), as compressed JSON.
While the digest is the same, no Kafka starts. After a change the test asks a real one again, and `make prove` records
its answers.
`PYBROKER_TEST_KAFKA=all`, as in `make test-all`, asks a real one in every run.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.java import KAFKA_VERSION

ANSWERS = Path(__file__).parents[1] / "data" / "answers"


def record_of(file: str, directory: Path = ANSWERS) -> Path:
    """Return the path of the record of a test file."""
    return directory / f"{Path(file).stem.removeprefix('test_')}.json.gz"


def is_recorded(file: str, digest: str, directory: Path = ANSWERS) -> bool:
    """Return whether there are answers of this Kafka to the test file as it is."""
    path = record_of(file, directory)
    if not path.exists():
        return False
    record = _read(path)
    return bool((record["digest"], record["kafka"]) == (digest, KAFKA_VERSION))


class RecordedAnswers:
    """Kafka's answers to the tests of one file, by name: read from its record, or asked of a real Kafka.

    `asked` is "" for a run that uses records, "all" for one that does not, "prove" for one that renews them.
    """

    def __init__(self, file: str, digest: str, asked: str, directory: Path = ANSWERS) -> None:
        self._path = record_of(file, directory)
        self._digest = digest
        self._renews = asked == "prove"
        #: Whether a real Kafka has to be asked.
        self.must_ask = asked == "all" or not is_recorded(file, digest, directory)
        self._answers: dict[str, Any] = {} if self.must_ask else _read(self._path)["answers"]

    def of(self, name: str, ask: Callable[[], Any]) -> Any:
        """Return what Kafka answers, as values of JSON; `ask` asks a real one."""
        if not self.must_ask:
            return self._answers[name]
        self._answers[name] = plain(ask())
        if self._renews:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            record = {"kafka": KAFKA_VERSION, "digest": self._digest, "answers": self._answers}
            self._path.write_bytes(gzip.compress(json.dumps(record, sort_keys=True).encode(), mtime=0))
        return self._answers[name]


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return record


def plain(answers: Any) -> Any:
    """Return answers with the types of JSON: tuples become lists, names of fields become text."""
    return json.loads(json.dumps(answers))
