"""The default position file: a bounded name for each topic and cluster, and the files of earlier versions."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import pytest

from pybroker.ship.default_position import default_position
from pybroker.ship.positions import PositionFile

LONGEST_TOPIC = "t" * 249
SIX_SERVERS = ",".join(f"broker-{number}.kafka.example.internal:9092" for number in range(6))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("topic", "bootstrap"), [(LONGEST_TOPIC, "b:1"), ("t", SIX_SERVERS), (LONGEST_TOPIC, "h" * 250)]
)
def test_any_topic_and_any_servers_give_a_usable_name(environ: dict[str, str], topic: str, bootstrap: str) -> None:
    """eCryptfs allows 143 bytes; the lock and the new content have longer names."""
    path = default_position(topic, bootstrap, environ)
    with PositionFile(path, topic) as positions:
        positions.begin({"/a": None})
    assert max(len(name) for name in os.listdir(path.parent)) <= 143 - len(".new")


def test_topics_and_clusters_have_separate_files(environ: dict[str, str]) -> None:
    """Also if they differ only behind what a name has room for, or in characters that a name replaces."""
    asked = [
        *(("t", "b:1"), ("t2", "b:1"), ("t", "b:2"), ("t", "b_1"), ("t", "b:1,c:1"), ("t", "b:1_c:1")),
        *((LONGEST_TOPIC, "b:1"), (LONGEST_TOPIC[:-1] + "u", "b:1"), ("t", SIX_SERVERS), ("t", SIX_SERVERS + "1")),
    ]
    found = [default_position(*each, environ) for each in asked]
    assert all(one != other for one, other in combinations(found, 2))


def test_order_of_the_servers_does_not_matter(environ: dict[str, str]) -> None:
    """Another position file would lose or repeat lines."""
    assert default_position("t", "a:1, B:1", environ) == default_position("t", "b:1,a:1", environ)


def test_file_of_an_earlier_version_stays_in_use(environ: dict[str, str], tmp_path: Path) -> None:
    earlier = tmp_path / "pybroker" / "t@___1__9092_b_1.json"
    earlier.parent.mkdir()
    assert default_position("t", "[::1]:9092,b:1", environ) != earlier
    earlier.write_text("{}")
    assert default_position("t", "[::1]:9092,b:1", environ) == earlier


def test_files_are_in_the_home_folder_by_default() -> None:
    assert default_position("t", "b:1", {}).parent == Path.home() / ".local/state/pybroker"
