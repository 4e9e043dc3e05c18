"""The key of salts for unknown users: random, persistent, and readable only by the owner."""

from __future__ import annotations

from pathlib import Path

from broker.access.authentication.scram_key import KEY_FILE, scram_key


def test_the_key_is_created_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    key = scram_key(str(tmp_path / "a"))
    assert len(key) == 32
    assert scram_key(str(tmp_path / "a")) == key
    assert scram_key(str(tmp_path / "b")) != key
    assert [path.name for path in (tmp_path / "a").iterdir()] == [KEY_FILE]


def test_the_key_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """A file of that name, left by an interrupted start, does not change the permissions."""
    left = tmp_path / f"{KEY_FILE}.tmp"
    left.write_bytes(b"")
    left.chmod(0o644)
    scram_key(str(tmp_path))
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_a_truncated_key_is_replaced(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"short")
    key = scram_key(str(tmp_path))
    assert len(key) == 32
    assert scram_key(str(tmp_path)) == key
