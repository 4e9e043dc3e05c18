"""Pipelines that are kept running in the test's own Spark, while a scenario goes on about them."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from pybroker.pipeline.plan import plan
from pybroker.pipeline.progress import Reporter
from pybroker.pipeline.spec import Pipeline
from pybroker.pipeline.supervisor import Supervisor, Watched

PATIENCE_S = 240

#: Does things, and yields what it then waits for; at its end the pipeline is told to stop.
Scenario = Iterator[Callable[[], object]]


class Supervised:
    """A pipeline, and what is told of it."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, metrics: Path | None = None) -> None:
        self._out = io.StringIO()
        self._supervisor = Supervisor(Reporter(metrics, self._out), pipeline.restart, sleep=self._sleep)
        self._watched = [Watched(one.query.name, one.start) for one in plan(spark, pipeline)]
        self._scenario: Scenario = iter(())
        self._awaited: Callable[[], object] = lambda: True
        self._deadline = time.monotonic() + PATIENCE_S

    @property
    def told(self) -> str:
        return self._out.getvalue()

    def run(self, scenario: Scenario) -> str | None:
        """Until the scenario is at its end, or a query failed for good: why."""
        self._scenario = scenario
        return self._supervisor.run(self._watched)

    def records(self, query: str) -> int:
        """How many were in the batches that are done."""
        return sum(map(int, re.findall(rf"^{query}: batch \d+: (\d+) records", self.told, re.MULTILINE)))

    def waits(self, query: str) -> list[float]:
        """In seconds, before each time that it was started again."""
        return list(map(float, re.findall(rf"^{query}: failed, starts again in (\S+) s: ", self.told, re.MULTILINE)))

    def _sleep(self, seconds: float) -> None:
        """What the supervisor does between two looks at its queries."""
        time.sleep(seconds)
        assert time.monotonic() < self._deadline, self.told
        if self._awaited():
            try:
                self._awaited = next(self._scenario)
            except StopIteration:
                self._supervisor.stop()
