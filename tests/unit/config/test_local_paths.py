"""Paths of checkpoints and archives, and `retention.hold.max.bytes`."""

from __future__ import annotations

import re

import pytest

from config import ConfigError, load

PATHS = ["pybroker.spark.checkpoints", "pybroker.archives"]


@pytest.mark.parametrize("key", PATHS)
@pytest.mark.parametrize("text", ["/a,/b", "state", "/a b/c:d"])
def test_local_paths_are_accepted(key: str, text: str) -> None:
    """Absolute or relative."""
    config = load(overrides={key: text})

    assert list(config.get_list(key)) == text.split(",")


@pytest.mark.parametrize("key", PATHS)
@pytest.mark.parametrize("text", ["hdfs://name/state", "s3a://bucket/state,/a", "file:/a", "/a,,/b"])
def test_other_paths_are_rejected(key: str, text: str) -> None:
    """They would be read as relative paths."""
    with pytest.raises(ConfigError, match=re.escape(key)):
        load(overrides={key: text})


def test_topic_hold_limit_overrides_the_brokers() -> None:
    """0 if neither is set."""
    assert load().log_config({}).retention_hold_max_bytes == 0
    config = load(overrides={"retention.hold.max.bytes": "7"})
    assert config.log_config({}).retention_hold_max_bytes == 7
    assert config.log_config({"retention.hold.max.bytes": "5"}).retention_hold_max_bytes == 5
    config.validate_topic_config({"retention.hold.max.bytes": "0"})
    with pytest.raises(ConfigError, match=r"retention\.hold\.max\.bytes"):
        config.validate_topic_config({"retention.hold.max.bytes": "-1"})
