"""Generated pages: docs/generated/configs.md and the shipped config/server.properties.

python -m config.docs            write both, from the project's root
python -m config.docs --check    exit code 1 if either is out of date
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from .generated_pages import write_pages
from .key import ConfigKey, UpdateMode
from .keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, LEGACY_TOPIC_KEYS, QUOTA_KEYS, TOPIC_KEYS
from .keys.group import GROUP_KEYS as GROUP_COORDINATOR_KEYS
from .keys.legacy import LEGACY_KEYS, OLDEST_KEYS
from .keys.log import LOG_KEYS
from .keys.network import NETWORK_KEYS
from .keys.node import NODE_KEYS
from .keys.own import OWN_KEYS
from .keys.replication import DYNAMIC_ONLY_KEYS, REPLICATION_KEYS
from .keys.security import SECURITY_KEYS
from .keys.tiered import METADATA_TOPIC_KEYS, TIERED_KEYS
from .keys.transaction import TRANSACTION_KEYS
from .keys.why_inert import ACTIVE_CONTROLLER, OF_ONE_NODE
from .shipped import server_properties

CONFIGS_PAGE = Path("docs/generated/configs.md")
SERVER_PROPERTIES = Path("config/server.properties")

SECTIONS: tuple[tuple[str, Iterable[ConfigKey]], ...] = (
    ("This project's own", OWN_KEYS),
    ("The node", NODE_KEYS),
    ("Listeners, sockets and requests", NETWORK_KEYS),
    ("Logs", LOG_KEYS),
    ("Groups and offsets", GROUP_COORDINATOR_KEYS),
    ("Transactions and share groups", TRANSACTION_KEYS),
    ("Security", SECURITY_KEYS),
    ("Replication", REPLICATION_KEYS),
    ("Tiered storage", TIERED_KEYS),
    ("Metadata of tiered storage", METADATA_TOPIC_KEYS),
    ("Dynamic only", DYNAMIC_ONLY_KEYS),
    ("Topics", TOPIC_KEYS.values()),
    ("Groups' own", GROUP_KEYS.values()),
    ("Client metrics subscriptions", CLIENT_METRICS_KEYS.values()),
    ("Users, clients and addresses", QUOTA_KEYS.values()),
    ("Former versions", (*LEGACY_KEYS, *OLDEST_KEYS, *LEGACY_TOPIC_KEYS.values())),
)

#: Sections of keys that only exist as dynamic ones
_ALWAYS_DYNAMIC = {
    "Dynamic only",
    "Topics",
    "Groups' own",
    "Client metrics subscriptions",
    "Users, clients and addresses",
}

_MOST_VALUES = 12
#: Keys between which a group may set its own value; the head of the page describes them.
_GROUP_LIMIT = re.compile(r"(Lowest|Highest) .* that a (\w+ )?group may set\.")

_HEAD = """\
# Configuration keys

Written by `python -m config.docs` from the tables in `config/keys/`; edit those.

Each key has its type with the allowed values, its default if it has one, and its meaning. Lists are separated by
commas. If the default is a broker key, that key supplies the default, and its line has the rest. Keys of groups with
`min` or `max` and no meaning limit what a group may set.

Sections before "Dynamic only" list keys of `server.properties` ([sources](../reference/configuration.md)). A new value
needs a restart unless the key is marked with Kafka's update mode: **per-broker** keys can change on a running broker,
**cluster-wide** keys also for all brokers at once. Keys of topics, groups, clients and users can always change.
**members**: only members of a cluster (`process.roles=broker`, [a guide](../guides/cluster.md)) use the key,
**controllers**: only [pybroker's own controller](../guides/controller.md).
Keys of "Metadata of tiered storage" follow the prefix `rlmm.config.`; those of the storage itself, which follow
`rsm.config.`, are in [the guide](../guides/tiered-storage.md#storage-classes).
[Keys without effect](#without-effect) are at the end.
"""

_WITHOUT_EFFECT = """
## Without effect

The broker checks and returns the values of these keys of Apache Kafka, so files for Kafka work unchanged. The start
logs a warning for each that is set.
"""

_DYNAMIC = {
    UpdateMode.READ_ONLY: "",
    UpdateMode.PER_BROKER: " **per-broker**",
    UpdateMode.CLUSTER_WIDE: " **cluster-wide**",
}


def configs_page() -> str:
    """Return the page docs/generated/configs.md."""
    parts = [_HEAD]
    without_effect: dict[str, list[str]] = {}
    for title, rows in SECTIONS:
        parts.append(f"\n## {title}\n\n")
        for row in rows:
            if row.inert and (row.removed or row.inert not in (*OF_ONE_NODE, ACTIVE_CONTROLLER)):
                without_effect.setdefault(row.inert, []).append(row.name)
            else:
                parts.append(_line(row, always_dynamic=title in _ALWAYS_DYNAMIC))
    parts.append(_WITHOUT_EFFECT)
    for reason, names in without_effect.items():
        listed = ", ".join(f"`{name}`" for name in sorted(set(names)))
        text = f"{reason[0].upper()}{reason[1:]}: {listed}."
        parts.append(f"\n{textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)}\n")
    return "".join(parts)


def _line(row: ConfigKey, *, always_dynamic: bool) -> str:
    default = "" if row.default_text is None else f"`{row.default_text}`" if row.default_text else '""'
    values, text = _values(row), row.doc + _remark(row, always_dynamic=always_dynamic)
    if _GROUP_LIMIT.fullmatch(row.doc):
        text = text.removeprefix(row.doc)
    if row.synonyms:
        broker_key = BROKER_KEYS[row.synonyms[0][0]]
        default, text = f"`{broker_key.name}`", ""
        values = "" if values == _values(broker_key) else values
    facts = ", ".join(each for each in (values, default) if each)
    return f"- `{row.name}`: {facts}. {text}".rstrip() + "\n"


def _values(row: ConfigKey) -> str:
    """Return the type and the allowed values; of a long list the first and the last one."""
    allowed = str(row.valid or "").split(", ")
    if len(allowed) > _MOST_VALUES:
        allowed = [allowed[0], "...", allowed[-1]]
    return f"{row.type.name.lower()} {', '.join(allowed).removesuffix(', separated by commas')}".rstrip()


def _remark(row: ConfigKey, *, always_dynamic: bool) -> str:
    if row.replaced_by and not row.doc.startswith("The older name of"):
        return f" Now: {' and '.join(f'`{name}`' for name in row.replaced_by)}."
    internal = " Internal." if row.internal and row not in OWN_KEYS else ""
    if row.inert in OF_ONE_NODE:
        internal += " **members**"
    elif row.inert == ACTIVE_CONTROLLER:
        internal += " **controllers**"
    return internal if always_dynamic else internal + _DYNAMIC[row.update_mode]


def main(argv: Sequence[str]) -> int:
    """Write the pages, or compare them with `--check`. Return the exit code."""
    pages = {CONFIGS_PAGE: configs_page(), SERVER_PROPERTIES: server_properties()}
    return write_pages(pages, "config.docs", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
