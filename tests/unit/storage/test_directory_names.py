"""The names of partition directories, in use and being removed."""

import pytest

from storage.directory_names import DirectoryKind, delete_name, parse_name, stray_name

UNIQUE = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", (DirectoryKind.PARTITION, "orders", 0)),
        ("with.dots_and-dashes-12", (DirectoryKind.PARTITION, "with.dots_and-dashes", 12)),
        ("a.b-delete-0", (DirectoryKind.PARTITION, "a.b-delete", 0)),
        (f"orders-0.{UNIQUE}-delete", (DirectoryKind.DELETED, "", -1)),
        (f"-0.{UNIQUE}-delete", (DirectoryKind.DELETED, "", -1)),
        (f"orders-0.{UNIQUE}-stray", (DirectoryKind.STRAY, "", -1)),
        (f"orders-0.{UNIQUE}-future", (DirectoryKind.FUTURE, "orders", 0)),
        (f"a-b.c-12.{UNIQUE}-future", (DirectoryKind.FUTURE, "a-b.c", 12)),
        (f"orders.{UNIQUE}-future", (DirectoryKind.OTHER, "", -1)),
        ("lost+found", (DirectoryKind.OTHER, "", -1)),
        ("-5", (DirectoryKind.OTHER, "", -1)),
        ("orders-٣", (DirectoryKind.OTHER, "", -1)),
    ],
)
def test_kinds_of_directories(name: str, expected: tuple[DirectoryKind, str, int]) -> None:
    """Partitions by topic and number; deleted, stray, moving and foreign directories."""
    assert parse_name(name) == expected


@pytest.mark.parametrize("name", ["my.backup-delete", f"orders.{UNIQUE}-delete", "orders-0.1234-delete", "v1.2-stray"])
def test_only_exact_names_count_as_deleted(name: str) -> None:
    """A foreign directory whose name only ends with -delete is not removed."""
    assert parse_name(name) == (DirectoryKind.OTHER, "", -1)


@pytest.mark.parametrize("topic", ["orders", "x" * 249])
def test_names_fit_and_round_trip(topic: str) -> None:
    """A long topic name is shortened, because the limit of file systems is 255 bytes."""
    assert parse_name(delete_name(topic, 7, UNIQUE))[0] is DirectoryKind.DELETED
    assert parse_name(stray_name(topic, 7, UNIQUE))[0] is DirectoryKind.STRAY
    assert len(delete_name(topic, 7, UNIQUE)) <= 255
