"""Profiles: named addresses and client properties of clusters, in a file.

# ~/.config/pybroker/profiles.toml, or the file in PYBROKER_PROFILES
[production]
bootstrap-server = "kafka-1:9092,kafka-2:9092"
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "SCRAM-SHA-512"
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pybroker.cli.client.errors import UsageError
from pybroker.text_files import UnreadableText, file_bytes, utf8_text

_ADDRESS = "bootstrap-server"
_OTHERS = 0o077


def profiles_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the file of profiles."""
    if given := environ.get("PYBROKER_PROFILES"):
        return Path(given)
    return Path(environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "pybroker" / "profiles.toml"


def _is_for_others(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & _OTHERS)
    except OSError:  # deleted after it was read
        return False


def read_profile(name: str, environ: Mapping[str, str] | None = None) -> tuple[str | None, dict[str, str]]:
    """Return a profile's address, or None, and its properties. Raises UsageError."""
    path = profiles_file(os.environ if environ is None else environ)
    try:
        text = utf8_text(file_bytes(path))
        profiles = tomllib.loads(text.replace("\r\n", "\n").replace("\r", "\n"))
    except OSError as error:
        raise UsageError(f"--profile {name}: {path}: {error.strerror}") from None
    except (ValueError, UnreadableText) as error:
        raise UsageError(f"{path}: {error}") from None
    found = profiles.get(name)
    if not isinstance(found, dict):
        known = ", ".join(sorted(key for key, value in profiles.items() if isinstance(value, dict)))
        raise UsageError(f"{path}: unknown profile {name}" + (f"; known: {known}" if known else ""))
    properties = {}
    for key, value in found.items():
        if isinstance(value, dict | list):
            raise UsageError(f"{path}: {name}: {key} is not a single value (quote keys with dots)")
        properties[key] = str(value).lower() if isinstance(value, bool) else str(value)
    if any(key.endswith(".password") or key == "sasl.jaas.config" for key in properties) and _is_for_others(path):
        print(f"pybroker: {path}: other users may read the passwords in it: chmod 600", file=sys.stderr)
    address = properties.pop(_ADDRESS, None)
    return address, properties
