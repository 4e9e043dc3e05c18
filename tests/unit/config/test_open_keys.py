"""Every key has an effect in the code, or says why it has none.

`open_keys.txt` lists the rest, whose features are not implemented yet. A key that is neither used nor listed fails the
test. Lines of keys that are used now may be removed (`python -m tests.unit.config.test_open_keys`).
"""

from __future__ import annotations

from pathlib import Path

from config.keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, GROUP_KEYS, TOPIC_KEYS
from config.keys.why_inert import ACTIVE_CONTROLLER, OF_ONE_NODE
from config.resources import GROUP_LIMITS

ROOT = Path(__file__).parents[3]
OPEN_KEYS = Path(__file__).with_name("open_keys.txt")
ROOMS = ("broker", "config", "controller", "coordinator", "remote", "runtime", "storage", "tiered")
TABLES = tuple(
    f"config/{name}"
    for name in (
        "keys/",
        "alter.py",
        "combinations.py",
        "docs.py",
        "dynamic.py",
        "renamed_keys.py",
        "load.py",
        "reconfigurable.py",
        "resources.py",
        "shipped.py",
        "unknown.py",
    )
)
"""Modules of config that name keys without using them."""

OF_CLUSTERS = (
    "broker/controlling/",
    "broker/membership/",
    "broker/network/outbound_",
    "broker/replication/",
    "config/controllers.py",
    "config/membership.py",
    "controller/cluster_controller.py",
    "controller/elections.py",
)
"""Modules that only members and controllers of a cluster load: what they read has an effect there alone."""

CONSUMED_BY_THE_LOADER = {
    "broker.id",
    "broker.id.generation.enable",
    "group.share.assignors",  # one of the two names is read
    "num.workers",  # only 1 is accepted
    "process.roles",
    "reserved.broker.max.id",
}


def code(*, in_cluster: bool) -> str:
    """Return the code of members and controllers alone, or all other code."""
    paths = [path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    wanted = [path for path in paths if not path.startswith(TABLES) and path.startswith(OF_CLUSTERS) is in_cluster]
    return "\n".join((ROOT / path).read_text() for path in wanted)


def asked_for() -> set[str]:
    """Return the keys that code names as strings, and those that give topics and groups their defaults and limits."""
    resources = [*TOPIC_KEYS.values(), *GROUP_KEYS.values()]
    defaults = {name for row in resources if not row.inert for name, _ in row.synonyms}
    limits = {name for names in GROUP_LIMITS.values() for name in names if name is not None}
    text = code(in_cluster=False)
    return defaults | limits | CONSUMED_BY_THE_LOADER | {key for key in BROKER_KEYS if f'"{key}"' in text}


def unused_in_members() -> list[str]:
    """Return the keys that members and controllers should use, and that no code uses."""
    text = code(in_cluster=True) + code(in_cluster=False)
    rows = [row for table in (BROKER_KEYS, DYNAMIC_ONLY_KEYS) for row in table.values()]
    promised = {row.name for row in rows if row.inert in (*OF_ONE_NODE, ACTIVE_CONTROLLER) and not row.removed}
    return sorted(name for name in promised if f'"{name}"' not in text)


def open_keys() -> list[str]:
    """Return the keys that no code uses, and that have no reason."""
    done = asked_for()
    unused = [
        row.name for row in BROKER_KEYS.values() if not row.inert and not row.replaced_by and row.name not in done
    ]
    return sorted([*unused, *unused_in_members()])


def test_open_keys_are_listed() -> None:
    """A key gets its effect when its feature is implemented."""
    listed = set(OPEN_KEYS.read_text().split())

    assert set(open_keys()) <= listed


def test_inert_keys_are_not_used() -> None:
    """A key with an effect must not be described as one without."""
    inert = {row.name for row in BROKER_KEYS.values() if row.inert}

    assert inert & asked_for() == set()


if __name__ == "__main__":
    OPEN_KEYS.write_text("".join(f"{key}\n" for key in open_keys()))
