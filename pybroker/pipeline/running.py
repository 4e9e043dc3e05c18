"""A pipeline's streams, from their plan to their end, or until a signal."""

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
    """Made before Spark is started: SIGTERM and SIGINT end it from then on. `metrics`: a file that is kept of them."""

    def __init__(self, pipeline: Pipeline, metrics: Path | None = None) -> None:
        self._pipeline = pipeline
        self._reporter = Reporter(metrics)
        self._supervisor = Supervisor(self._reporter, pipeline.restart)
        self._heed_signals()

    def streams(self, spark: SparkSession, *, once: bool) -> str | None:
        """Run them all; return why one failed, None when all ended or were told to.

        Errors: SpecError; CheckpointError; OSError for a checkpoint's folder that cannot be written to.
        """
        self._heed_signals()  # Spark has put its own handler of SIGINT there
        planned = plan(spark, self._pipeline)
        claim_checkpoints(self._pipeline)
        watched = [Watched(one.query.name, partial(one.start, once=once)) for one in planned]
        self._reporter.tell(f"{self._pipeline.name}: {', '.join(one.name for one in watched)} started")
        # A batch that is cut short is no error, and Spark would print several traces of it
        failure = self._supervisor.run(watched, before_stop=lambda: spark.sparkContext.setLogLevel("OFF"))
        self._reporter.close()
        return failure

    def _heed_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._supervisor.stop())
