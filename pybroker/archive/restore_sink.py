"""The Spark format of a restore: it passes rows to the process that writes each of them exactly once.

Option: `wanted`, the fields of the request as JSON (isolated/topic_restorer.py). Rows arrive by partition, in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pybroker.source.columns import as_records
from pybroker.source.reader import shared_reader

#: The columns of the rows, in the order of the request's batches.
SENT = ("partition", "timestamp", "key", "value", "headers")


class RestoreSink(DataSource):
    """`rows.write.format("pybroker-restore")`."""

    @classmethod
    def name(cls) -> str:
        return "pybroker-restore"

    def writer(self, schema: StructType, overwrite: bool) -> RestoreWriter:
        return RestoreWriter(json.loads(self.options["wanted"]))


class RestoreWriter(DataSourceArrowWriter):
    """Writes a task's rows; they are acknowledged when `write` returns."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self._wanted = wanted

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        shared_reader().send_batches("restore_topic", (as_records(batch, SENT) for batch in iterator), **self._wanted)
        return WriterCommitMessage()
