"""The queries that a specification stands for: one for each stream, and one for each source's dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pybroker.pipeline.spec import Pipeline, Sink, Source, Stream


@dataclass(frozen=True, slots=True)
class Query:
    """One query of Spark's: its name, which its checkpoint's folder has too, and where it stands in the file."""

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
        """Return what cannot change while the checkpoint stays: what is read, what is remembered, where rows go."""
        source, stream = self.source, self.stream
        read = source.pattern or source.assign or sorted(source.topics)
        identity = {"query": self.name, "source": f"{self.source_name} {read}", "sink": self.sink.place()}
        if stream is not None:
            identity |= {"window": str(stream.window), "deduplicate": str(stream.deduplicate), "mode": stream.mode}
        return identity


def queries(pipeline: Pipeline) -> Iterator[Query]:
    """Yield a specification's queries: dead letters of the sources first."""
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
    """The trigger of the source's first stream: dead letters come as often as rows do."""
    return next((stream.trigger for stream in pipeline.streams.values() if stream.source == source), "once")
