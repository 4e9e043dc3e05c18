"""Which keys have their effect: those that the code asks for, and those that are inert and say why.

`open_keys.txt` lists the rest, which wait for their feature. A key that is neither wired nor listed fails the test;
lines of keys that have been wired may be taken out at any time (`python -m tests.unit.broker.config.test_open_keys`).
"""

from __future__ import annotations

from pathlib import Path

from config.keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from config.resources import GROUP_LIMITS

ROOT = Path(__file__).parents[3]
OPEN_KEYS = Path(__file__).with_name("open_keys.txt")
ROOMS = ("broker", "config", "controller", "coordinator", "runtime", "storage")
TABLES = tuple(
    f"config/{name}"
    for name in (
        "keys/",
        "alter.py",
        "combinations.py",
        "docs.py",
        "dynamic.py",
        "former.py",
        "load.py",
        "reconfigurable.py",
        "resources.py",
        "shipped.py",
        "unknown.py",
    )
)
"""Parts of config which name keys without giving them an effect."""

CONSUMED_BY_THE_LOADER = {
    "broker.id",
    "broker.id.generation.enable",
    "group.share.assignors",  # of which one value is taken, by either of its names
    "process.roles",
    "reserved.broker.max.id",
}


def asked_for() -> set[str]:
    """Keys that stand as strings in code, and those from which topics and groups take their defaults and limits."""
    paths = [path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    code = "\n".join((ROOT / path).read_text() for path in paths if not path.startswith(TABLES))
    resources = [*TOPIC_KEYS.values(), *GROUP_KEYS.values()]
    defaults = {name for row in resources if not row.inert for name, _ in row.synonyms}
    limits = {name for names in GROUP_LIMITS.values() for name in names if name is not None}
    return defaults | limits | CONSUMED_BY_THE_LOADER | {key for key in BROKER_KEYS if f'"{key}"' in code}


def open_keys() -> list[str]:
    """Keys that nothing asks for, and that do not say why."""
    done = asked_for()
    return sorted(
        row.name for row in BROKER_KEYS.values() if not row.inert and not row.replaced_by and row.name not in done
    )


def test_open_keys_are_listed() -> None:
    """Every key has its effect when its feature lands; until then it is known to be open."""
    listed = set(OPEN_KEYS.read_text().split())

    assert set(open_keys()) <= listed


def test_inert_keys_are_not_asked_for() -> None:
    """A key that has an effect must not say that it has none."""
    inert = {row.name for row in BROKER_KEYS.values() if row.inert}

    assert inert & asked_for() == set()


if __name__ == "__main__":
    OPEN_KEYS.write_text("".join(f"{key}\n" for key in open_keys()))
