"""The generated pages are committed and up to date."""

from __future__ import annotations

from pathlib import Path

from config.docs import (
    CONFIGS_PAGE,
    SECTIONS,
    SERVER_PROPERTIES,
    configs_page,
    main,
)
from config.keys import BROKER_KEYS
from config.properties import parse_properties
from config.shipped import (
    CHAPTERS,
    EXAMPLES,
    IN_FORCE,
    server_properties,
)


def test_pages_are_current() -> None:
    """`python -m config.docs` writes them."""
    assert CONFIGS_PAGE.read_text() == configs_page()
    assert SERVER_PROPERTIES.read_text() == server_properties()
    assert main(["--check"]) == 0


def test_every_key_is_on_the_page() -> None:
    names = [row.name for title, rows in SECTIONS if title not in ("Topics", "Groups' own") for row in rows]

    for name in BROKER_KEYS:
        assert names.count(name) == 1, name


def test_shipped_file_shows_defaults() -> None:
    """Uncommenting a line would change nothing, except for examples."""
    text = server_properties()
    shown = parse_properties(text.replace("\n#", "\n").encode(), "")
    keys = {key for _, keys in CHAPTERS for key in keys}

    assert {entry.key: entry.value for entry in parse_properties(text.encode(), "")} == IN_FORCE
    for entry in shown:
        if entry.key in keys - set(IN_FORCE) - set(EXAMPLES):
            assert BROKER_KEYS[entry.key].read(entry.value) == BROKER_KEYS[entry.key].default


def test_outdated_pages_are_reported_and_written(tmp_path: Path, monkeypatch: object) -> None:
    """In an empty project both are missing."""
    import os

    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert main(["--check"]) == 1
        assert main([]) == 0
        assert main(["--check"]) == 0
    finally:
        os.chdir(before)
