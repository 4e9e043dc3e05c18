"""The broker's address and the client's properties, merged from the command line, files and profiles."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from pybroker.cli.client.addresses import check_addresses
from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.profiles import read_profile
from pybroker.cli.client.properties import for_librdkafka, read_properties

_NEAR = "localhost:9092"
#: librdkafka has two names for it.
_ADDRESSES = ("bootstrap.servers", "metadata.broker.list")

#: Prefixes of properties of Kafka's console tools, and what to use here instead.
_OF_CONSOLES = {
    "print.": "--format of consume selects the output, as in --format '%k %v'",
    "parse.": "--key-separator of produce reads keys",
    "key.separator": "--key-separator of produce reads keys, and --format of consume prints them",
}


class Connection(Struct, frozen=True):
    """The parameters of a session."""

    server: str
    """host:port,..."""
    timeout_s: float
    """How long to wait for a response."""
    properties: Mapping[str, str] = {}
    """By librdkafka's names, without the address."""


def connection(
    server: str | None,
    timeout_s: float,
    *,
    profile: str | None = None,
    file: Path | None = None,
    properties: Iterable[tuple[str, str]] = (),
) -> Connection:
    """Merge the sources. Named parameters win over `properties`, these over the file, and that over the profile.

    Raises UsageError for files and profiles that cannot be read, and for wrong properties and addresses.
    """
    named, known = read_profile(profile) if profile is not None else (None, {})
    if named is not None:
        known[_ADDRESSES[0]] = named
    for more in (read_properties(file) if file is not None else {}, dict(properties)):
        if not more.keys().isdisjoint(_ADDRESSES):
            known = {key: value for key, value in known.items() if key not in _ADDRESSES}
        known |= more
    for key in known:
        for beginning, instead in _OF_CONSOLES.items():
            if key.startswith(beginning):
                raise UsageError(f"{key} is not a property of the client: {instead}")
    found = for_librdkafka(known)
    addresses = [found.pop(name) for name in _ADDRESSES if name in found]
    if server is None:
        server = addresses[0] if addresses else _NEAR
    check_addresses(server)
    return Connection(server, timeout_s, found)


def connection_of(options: argparse.Namespace) -> Connection:
    """Return the connection that the options of a command name. Raises UsageError."""
    return connection(
        options.bootstrap_server,
        options.timeout,
        profile=options.profile,
        file=options.command_config,
        properties=options.property,
    )
