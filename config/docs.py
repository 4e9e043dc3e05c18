"""Generated pages: docs/generated/configs.md and the shipped config/server.properties.

python -m config.docs            write both, from the project's root
python -m config.docs --check    exit code 1 if either is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from .key import ConfigKey, UpdateMode
from .keys import CLIENT_METRICS_KEYS, GROUP_KEYS, LEGACY_TOPIC_KEYS, QUOTA_KEYS, TOPIC_KEYS
from .keys.group import GROUP_KEYS as GROUP_COORDINATOR_KEYS
from .keys.legacy import LEGACY_KEYS, OLDEST_KEYS
from .keys.log import LOG_KEYS
from .keys.network import NETWORK_KEYS
from .keys.node import NODE_KEYS
from .keys.own import OWN_KEYS
from .keys.replication import DYNAMIC_ONLY_KEYS, REPLICATION_KEYS
from .keys.security import SECURITY_KEYS
from .keys.transaction import TRANSACTION_KEYS
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
    ("Replication and tiered storage", REPLICATION_KEYS),
    ("Dynamic only", DYNAMIC_ONLY_KEYS),
    ("Topics", TOPIC_KEYS.values()),
    ("Groups' own", GROUP_KEYS.values()),
    ("Client metrics subscriptions", CLIENT_METRICS_KEYS.values()),
    ("Users, clients and addresses", QUOTA_KEYS.values()),
    ("Former versions", (*LEGACY_KEYS, *OLDEST_KEYS, *LEGACY_TOPIC_KEYS.values())),
)

_HEAD = """\
# Configuration keys

Written by `python -m config.docs` from the tables in `config/keys/`; edit those.

The keys before the section "Dynamic only" can be set in `server.properties`, in environment variables (`PYBROKER_` and
the key in capitals, with underscores for dots) and by `--override`. **Changed** shows whether a key may change while
the broker runs: never, on one broker, or also on all brokers at once. Keys of topics, groups and the like may always
change.
"""


def configs_page() -> str:
    """Return the page docs/generated/configs.md."""
    parts = [_HEAD]
    for title, rows in SECTIONS:
        parts.append(
            f"\n## {title}\n\n| key | type | default | allowed | changed | what it does |\n|---|---|---|---|---|---|\n"
        )
        parts += (_line(row) for row in rows)
    return "".join(parts)


def _line(row: ConfigKey) -> str:
    default = "" if row.default_text is None else f"`{row.default_text}`" if row.default_text else '""'
    valid = str(row.valid) if row.valid is not None else ""
    cells = (f"`{row.name}`", row.type.name.lower(), default, valid, _changed(row), row.doc + _remark(row))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _changed(row: ConfigKey) -> str:
    return {UpdateMode.READ_ONLY: "never", UpdateMode.PER_BROKER: "one broker", UpdateMode.CLUSTER_WIDE: "all"}[
        row.update_mode
    ]


def _remark(row: ConfigKey) -> str:
    if row.inert:
        return f" No effect: {row.inert}."
    if row.replaced_by:
        return f" Now: {' and '.join(f'`{name}`' for name in row.replaced_by)}."
    return " Internal." if row.internal and row not in OWN_KEYS else ""


def main(argv: Sequence[str]) -> int:
    """Write the pages, or compare them with `--check`. Return the exit code."""
    stale = 0
    for path, text in ((CONFIGS_PAGE, configs_page()), (SERVER_PROPERTIES, server_properties())):
        if path.exists() and path.read_text() == text:
            continue
        stale += 1
        if "--check" in argv:
            print(f"{path} is out of date: run python -m config.docs", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path}")
    return 1 if stale and "--check" in argv else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
