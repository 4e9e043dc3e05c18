"""Keys in environment variables: `PYBROKER_LOG_RETENTION_HOURS` is log.retention.hours.

The name is the key in capitals, with an underscore for each dot or dash. It is looked up in the table, in which these
names are unique. This project's own keys need the prefix only once (`PYBROKER_TOPICS`). A key that is not in the table
(a plugin's, or one with a listener's prefix) is written as for Kafka's container image: `_` is a dot, `__` an
underscore, `___` a dash.
"""

from __future__ import annotations

from collections.abc import Mapping

from .keys import BROKER_KEYS
from .keys.own import OWN_KEYS
from .setting import Setting, Settings

PREFIX = "PYBROKER_"
NOT_KEYS = ("PYBROKER_TEST_", "PYBROKER_BENCH_")
"""Prefixes of variables that only tests and benchmarks use."""


def variable_name(key: str) -> str:
    """Return the environment variable that sets `key`."""
    return PREFIX + key.replace(".", "_").replace("-", "_").upper()


def read_environment(environ: Mapping[str, str]) -> Settings:
    """Return settings by key from the variables that begin with PYBROKER_."""
    found = {
        name: value for name, value in environ.items() if name.startswith(PREFIX) and not name.startswith(NOT_KEYS)
    }
    if not found:
        return {}
    known = {variable_name(key): key for key in BROKER_KEYS}
    known.update({variable_name(row.name.removeprefix("pybroker.")): row.name for row in OWN_KEYS})
    return {
        known.get(name) or _spelled_out(name.removeprefix(PREFIX)): Setting(value, f"environment {name}")
        for name, value in found.items()
    }


def _spelled_out(name: str) -> str:
    return name.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
