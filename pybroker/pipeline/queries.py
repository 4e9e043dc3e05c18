"""The queries of a specification: one for each stream, and one for the dead letters of each source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pybroker.pipeline.spec import Pipeline, Sink, Source, Stream


@dataclass(frozen=True, slots=True)
class Query:
    """One Spark query: its name, which is also that of its checkpoint folder, and its path in the file."""

    name: str
    path: str
    source_name: str
    source: Source
    sink: Sink
    checkpoint: str
    mode: str = "append"
    trigger: str = "once"
    stream: Stream | None = None  # None: dead letters

    def identity(self) -> dict[str, str]:
        """Return the settings that must not change while the checkpoint exists: source, state and sink."""
        source, stream = self.source, self.stream
        read = source.pattern or source.assign or sorted(source.topics)
        identity = {"query": self.name, "source": f"{self.source_name} {read}", "sink": self.sink.place()}
        if stream is not None:
            identity |= {"window": str(stream.window), "deduplicate": str(stream.deduplicate), "mode": stream.mode}
        return identity


def queries(pipeline: Pipeline) -> Iterator[Query]:
    """Yield the queries of a specification, those for dead letters first."""
    root = pipeline.checkpoint_root.rstrip("/")
    for name, source in pipeline.sources.items():
        if source.dead_letter is not None:
            sink = Sink("kafka", topic=source.dead_letter.topic)
            query, trigger = f"{name}-dead-letters", _dead_letter_trigger(pipeline, name)
            path = f"sources.{name}.dead_letter"
            yield Query(query, path, name, source, sink, f"{root}/{query}", trigger=trigger)
    for name, stream in pipeline.streams.items():
        source = pipeline.sources[stream.source]
        yield Query(
            *(name, f"streams.{name}", stream.source, source, stream.sink, f"{root}/{name}"),
            mode=stream.mode, trigger=stream.trigger, stream=stream,
        )  # fmt: skip


def _dead_letter_trigger(pipeline: Pipeline, source: str) -> str:
    """Return the trigger of the first stream of the source: dead letters are written as often as rows."""
    return next((stream.trigger for stream in pipeline.streams.values() if stream.source == source), "once")
