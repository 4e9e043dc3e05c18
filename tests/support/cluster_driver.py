"""A driver of Spark on a cluster, which reads sources and writes the rows of each to a file of Arrow.

python -m tests.support.cluster_driver MASTER DIRECTORY < DRAWS

DRAWS is JSON: the format and the options of each name, in the order in which they are read. The files are
DIRECTORY/NAME.arrow. DIRECTORY/places.json has, for each format, the working directories of the executors that read its
first entry.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from pybroker.pipeline.session import connector_jars, start_session
from pybroker.spark import register
from tests.support.spark_cluster import DRIVER


def main(master: str, directory: str) -> None:
    """Read all sources, then return."""
    folder = Path(directory)
    settings = {
        **DRIVER,
        "spark.jars": connector_jars(),
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        # no task before all executors are there
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1",
    }
    session = start_session("sources", master, settings)
    register(session)
    places: dict[str, list[str]] = {}
    for name, (kind, options) in json.load(sys.stdin).items():
        rows = session.read.format(kind).options(**options).load()
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file:
            table = rows.toArrow()
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        if kind not in places:
            places[kind] = sorted(set(rows.rdd.mapPartitions(_place).collect()))
    (folder / "places.json").write_text(json.dumps(places))
    session.stop()


def _place(rows: Iterable[object]) -> Iterator[str]:
    """Where an executor runs that has rows to read."""
    if any(True for _ in rows):
        yield os.getcwd()


if __name__ == "__main__":
    main(*sys.argv[1:])
