"""The listeners of the metadata: a failure of one concerns no other."""

from __future__ import annotations

import pytest

from broker.metadata_cache import MetadataCache
from metadata.delta import Delta
from metadata.image import MetadataImage, TopicImage


def test_failed_listener_is_logged_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    cache = MetadataCache("cluster", MetadataImage())
    called: list[str] = []

    def fail(*_: object) -> None:
        raise ValueError("no number")

    for subscribe in (cache.on_change, cache.on_topic_deleted, cache.on_config_changed):
        subscribe(fail)
    cache.on_change(lambda delta: called.append("change"))
    cache.on_topic_deleted(lambda topic: called.append(topic.name))
    cache.on_config_changed(lambda kind, name: called.append(f"{kind} {name}"))

    cache.changed(Delta())
    cache.topic_deleted(TopicImage("orders", bytes(16)))
    cache.config_changed(2, "payments")

    assert called == ["change", "orders", "2 payments"]
    assert caplog.text.count("cannot follow a change of the metadata") == 3
    assert caplog.text.count("ValueError: no number") == 3
