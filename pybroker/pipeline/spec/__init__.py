"""The specification of a pipeline: the contents of its YAML file, as dataclasses."""

from pybroker.pipeline.spec.parse import DeadLetter, EventTime, Parse
from pybroker.pipeline.spec.pipeline import Kafka, Pipeline, Restart, Spark, load
from pybroker.pipeline.spec.sink import Sink
from pybroker.pipeline.spec.source import Source, Starting, Table
from pybroker.pipeline.spec.stream import Stream, Window
from pybroker.pipeline.values import SpecError

__all__ = [
    "DeadLetter",
    "EventTime",
    "Kafka",
    "Parse",
    "Pipeline",
    "Restart",
    "Sink",
    "Source",
    "Spark",
    "SpecError",
    "Starting",
    "Stream",
    "Table",
    "Window",
    "load",
]
