"""Run the streams of a pipeline until they end, or until a signal."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from pybroker.pipeline.plan import plan
from pybroker.pipeline.preflight import claim_checkpoints
from pybroker.pipeline.progress import Reporter
from pybroker.pipeline.spec import Pipeline
from pybroker.pipeline.supervisor import Supervisor, Watched


class Run:
    """A run, created before Spark starts; from then on SIGTERM and SIGINT end it. `metrics`: the metrics file."""

    def __init__(self, pipeline: Pipeline, metrics: Path | None = None) -> None:
        self._pipeline = pipeline
        self._reporter = Reporter(metrics)
        self._supervisor = Supervisor(self._reporter, pipeline.restart)
        self._heed_signals()

    def streams(self, spark: SparkSession, *, once: bool) -> str | None:
        """Run all streams; return why one failed, or None when all ended or were stopped.

        Errors: SpecError; CheckpointError; OSError when the folder of a checkpoint is not writable.
        """
        self._heed_signals()  # again, because Spark has set its own handler of SIGINT
        planned = plan(spark, self._pipeline)
        claim_checkpoints(self._pipeline)
        watched = [Watched(one.query.name, partial(one.start, once=once)) for one in planned]
        self._reporter.report(f"{self._pipeline.name}: {', '.join(one.name for one in watched)} started")
        # An interrupted batch is not an error, but Spark would print several traces
        failure = self._supervisor.run(watched, before_stop=lambda: spark.sparkContext.setLogLevel("OFF"))
        self._reporter.close()
        return failure

    def _heed_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._supervisor.stop())
