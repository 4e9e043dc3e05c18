"""A Spark driver with an endless stream of a topic's records into Parquet files, for tests that kill it.

python -m tests.support.stream_driver BOOTSTRAP TOPIC DIRECTORY MAX_OFFSETS_PER_TRIGGER
"""

from __future__ import annotations

import sys
from pathlib import Path

from pybroker.pipeline.session import start_session
from pybroker.spark import register
from tests.support.spark_sources import Job


def main(bootstrap: str, topic: str, directory: str, most_offsets: str) -> None:
    """Run until the stream fails."""
    session = start_session("killed", "local[1]", {"spark.sql.warehouse.dir": f"{directory}/warehouse"})
    register(session)
    job = Job(session, bootstrap, topic, Path(directory))
    job.start(trigger={"processingTime": "0 seconds"}, maxOffsetsPerTrigger=most_offsets).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
