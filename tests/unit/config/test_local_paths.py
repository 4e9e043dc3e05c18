"""Paths of checkpoints and archives, and `retention.hold.max.bytes`: what may be given, and where it counts."""

from __future__ import annotations

import re

import pytest

from config import ConfigError, load

PATHS = ["pybroker.spark.checkpoints", "pybroker.archives"]


@pytest.mark.parametrize("key", PATHS)
@pytest.mark.parametrize("text", ["/a,/b", "state", "/a b/c:d"])
def test_paths_of_this_machine_are_taken(key: str, text: str) -> None:
    """Absolute or not."""
    config = load(overrides={key: text})

    assert list(config.get_list(key)) == text.split(",")


@pytest.mark.parametrize("key", PATHS)
@pytest.mark.parametrize("text", ["hdfs://name/state", "s3a://bucket/state,/a", "file:/a", "/a,,/b"])
def test_paths_of_elsewhere_are_refused(key: str, text: str) -> None:
    """They would be taken for relative ones."""
    with pytest.raises(ConfigError, match=re.escape(key)):
        load(overrides={key: text})


def test_topic_holds_as_it_says_else_as_the_broker() -> None:
    """Nothing, where nobody says anything."""
    assert load().log_config({}).retention_hold_max_bytes == 0
    config = load(overrides={"retention.hold.max.bytes": "7"})
    assert config.log_config({}).retention_hold_max_bytes == 7
    assert config.log_config({"retention.hold.max.bytes": "5"}).retention_hold_max_bytes == 5
    config.validate_topic_config({"retention.hold.max.bytes": "0"})
    with pytest.raises(ConfigError, match=r"retention\.hold\.max\.bytes"):
        config.validate_topic_config({"retention.hold.max.bytes": "-1"})
