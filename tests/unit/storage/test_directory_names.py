"""Names of partition directories, in use and on their way out."""

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
    """Partitions by topic and number; what is deleted, set aside, being moved, or nobody's."""
    assert parse_name(name) == expected


@pytest.mark.parametrize("name", ["my.backup-delete", f"orders.{UNIQUE}-delete", "orders-0.1234-delete", "v1.2-stray"])
def test_only_whole_names_are_deleted(name: str) -> None:
    """A directory of somebody's that merely ends in -delete is not removed."""
    assert parse_name(name) == (DirectoryKind.OTHER, "", -1)


@pytest.mark.parametrize("topic", ["orders", "x" * 249])
def test_names_fit_and_are_understood(topic: str) -> None:
    """Of a long topic the end is left out, as the disk takes no more than 255 bytes."""
    assert parse_name(delete_name(topic, 7, UNIQUE))[0] is DirectoryKind.DELETED
    assert parse_name(stray_name(topic, 7, UNIQUE))[0] is DirectoryKind.STRAY
    assert len(delete_name(topic, 7, UNIQUE)) <= 255
