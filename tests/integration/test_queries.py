"""Spark's queries beside groups: checkpoints in the broker's endpoint and in `pybroker groups`."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.shell import Shell

RECORDED = Path(__file__).parents[1] / "data" / "spark"


class Followed(OurBroker):
    """A broker with an endpoint that follows the checkpoints in its directory `state`."""

    def __init__(self, directory: Path) -> None:
        self.metrics_port = free_port()
        self.state = directory / "state"
        self.state.mkdir(parents=True)
        for name in ("archive", "without-a-jar", "first-batch-without-a-jar"):
            shutil.copytree(RECORDED / name, self.state / name)
        super().__init__(
            directory,
            {
                "metrics.listeners": f"http://{HOST}:{self.metrics_port}",
                "pybroker.spark.checkpoints": f"{self.state},{directory}/none",
                "pybroker.spark.checkpoints.interval.ms": "100",
            },
        )

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.metrics_port}"

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return str(answer.read(), "utf-8")

    def queries(self, query: str, batch: int) -> dict[str, Any]:
        """Return the response of /queries once the query has completed a batch."""

        def knows_it(answer: dict[str, Any]) -> bool:
            return any(each["query"] == query and each["batch"] == batch for each in answer["queries"])

        return eventually(lambda: json.loads(self.get("/queries")), until=knows_it)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    running = Followed(tmp_path_factory.mktemp("broker"))
    with DataClient(HOST, running.port) as client:
        client.create_topic("orders", 2)
        for index in (0, 1):
            client.produce("orders", batch(*[b"value"] * 20), index)
    yield running
    running.kill()


@pytest.fixture
def sh(broker: Followed, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(broker.bootstrap, capsys)


def test_endpoint_returns_queries(broker: Followed) -> None:
    """Positions, the lag of existing partitions, and checkpoints that cannot be read."""
    answer = broker.queries("archive", 1)

    assert {each["query"]: each["running_batch"] for each in answer["queries"]} == {
        "archive": 2,
        "without-a-jar": None,
        "first-batch-without-a-jar": 0,
    }
    archive = next(each for each in answer["queries"] if each["query"] == "archive")
    assert archive["partitions"] == [
        {"topic": "clicks", "partition": 0, "offset": 7, "lag": None},
        {"topic": "orders", "partition": 0, "offset": 9, "lag": 11},
        {"topic": "orders", "partition": 1, "offset": 8, "lag": 12},
    ]
    assert answer["problems"] == {f"{broker.directory}/none": f"{broker.directory}/none: No such file or directory"}
    assert not answer["all_known"]
    assert broker.output.count(f"The checkpoint {broker.directory}/none cannot be read") == 1


def test_metrics_have_queries(broker: Followed) -> None:
    """By query, topic and partition."""
    broker.queries("archive", 1)
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(broker.get("/metrics"))
        for sample in family.samples
        if sample.name.startswith("pybroker_spark")
    }

    assert found["pybroker_spark_query_lag", "1", "orders", "without-a-jar"] == 12
    assert found["pybroker_spark_query_current_offset", "1", "orders", "without-a-jar"] == 8
    assert found["pybroker_spark_query_batch", "archive"] == 1
    assert found["pybroker_spark_query_commit_timestamp_seconds", "archive"] > 1e9
    assert found["pybroker_spark_unreadable_checkpoints",] == 1


def test_groups_command_lists_queries(sh: Shell, broker: Followed) -> None:
    """Only with --queries."""
    broker.queries("archive", 1)
    listed = sh.good("groups", "list", "--queries", broker.url, "--json").rows
    assert {row["group"]: (row["state"], row["protocol"]) for row in listed} == {
        "archive": ("batch 2 begun", "spark"),
        "without-a-jar": ("batch 1 done", "spark"),
        "first-batch-without-a-jar": ("batch 0 begun", "spark"),
    }
    (described,) = sh.good("groups", "describe", "archive", "--queries", broker.url, "--json").rows
    assert described["partitions"] == [
        {"topic": "clicks", "partition": 0, "offset": 7, "end_offset": None, "lag": None},
        {"topic": "orders", "partition": 0, "offset": 9, "end_offset": 20, "lag": 11},
        {"topic": "orders", "partition": 1, "offset": 8, "end_offset": 20, "lag": 12},
    ]
    expected = sh.good("groups", "describe", "without-a-jar", "--queries", f"{broker.url}/queries").out
    assert expected.startswith("without-a-jar: a query of Spark, batch 1 done\n")
    refused = sh("groups", "describe", "archive")
    assert (refused.code, "there is no such group" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("url", "code", "expected"),
    [("localhost:9404", 2, "is not a URL"), (f"http://{HOST}:1", 1, "refused"), ("{url}/metrics", 1, "404")],
)
def test_endpoint_errors_are_one_line(sh: Shell, broker: Followed, url: str, code: int, expected: str) -> None:
    refused = sh("groups", "list", "--queries", url.format(url=broker.url))

    assert refused.code == code
    assert expected in refused.err
    assert refused.err.count("\n") == 1


def test_new_batch_of_a_query_is_seen(broker: Followed) -> None:
    commits = broker.state / "archive" / "commits"
    (commits / "2").write_text("v1\n{}")
    answer = broker.queries("archive", 2)
    archive = next(each for each in answer["queries"] if each["query"] == "archive")
    assert archive["partitions"][1] == {"topic": "orders", "partition": 0, "offset": 11, "lag": 9}


def test_endpoint_without_checkpoints_is_404(broker: Followed, tmp_path: Path) -> None:
    port = free_port()
    listener = f"http://{HOST}:{port}"
    with OurBroker(tmp_path, {"metrics.listeners": listener}), pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{listener}/queries", timeout=60)
