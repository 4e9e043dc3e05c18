"""Settings that the broker passes to the console at its start: one line of JSON on standard input."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """`sockets` are inherited descriptors of bound sockets. `metrics_url` is None without a metrics endpoint.

    `mechanisms` are the SASL mechanisms for logins; without any, there is no login. `ca_file` has the CA certificates
    of the broker's listener if the listener uses TLS.
    """

    bootstrap: str
    log_dirs: tuple[str, ...]
    sockets: tuple[int, ...]
    metrics_url: str | None = None
    mechanisms: tuple[str, ...] = ()
    ca_file: str | None = None
    read_only: bool = False

    def to_line(self) -> str:
        """Return the settings as a line for the pipe, with its line end."""
        return json.dumps(asdict(self)) + "\n"


def from_line(line: str) -> Settings:
    """Parse the settings. Raises ValueError, TypeError or KeyError if this broker did not write the line."""
    fields = json.loads(line)
    return Settings(
        str(fields["bootstrap"]),
        tuple(map(str, fields["log_dirs"])),
        tuple(map(int, fields["sockets"])),
        fields["metrics_url"],
        tuple(map(str, fields["mechanisms"])),
        fields["ca_file"],
        bool(fields["read_only"]),
    )
