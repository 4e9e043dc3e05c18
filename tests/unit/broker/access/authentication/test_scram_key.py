"""The key of made-up salts: random, kept, and nobody else's to read."""

from __future__ import annotations

from pathlib import Path

from broker.access.authentication.scram_key import KEY_FILE, scram_key


def test_it_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    key = scram_key(str(tmp_path / "a"))
    assert len(key) == 32
    assert scram_key(str(tmp_path / "a")) == key
    assert scram_key(str(tmp_path / "b")) != key
    assert [path.name for path in (tmp_path / "a").iterdir()] == [KEY_FILE]


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Also where a file of its name was left by a start that was broken off."""
    left = tmp_path / f"{KEY_FILE}.tmp"
    left.write_bytes(b"")
    left.chmod(0o644)
    scram_key(str(tmp_path))
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_half_a_key_is_none(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"short")
    key = scram_key(str(tmp_path))
    assert len(key) == 32
    assert scram_key(str(tmp_path)) == key
