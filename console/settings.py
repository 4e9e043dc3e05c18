"""What the broker tells its console when it starts it: a line of JSON on standard input."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """`sockets` are descriptors that are bound, and handed down; `metrics_url` is None where there are no metrics.

    `mechanisms` are those of SASL by which users log in: none, and nobody has to. `ca_file`, where the broker's
    listener speaks TLS, says who has signed its certificate.
    """

    bootstrap: str
    log_dirs: tuple[str, ...]
    sockets: tuple[int, ...]
    metrics_url: str | None = None
    mechanisms: tuple[str, ...] = ()
    ca_file: str | None = None
    read_only: bool = False

    def to_line(self) -> str:
        """As it stands on the pipe, with its end of line."""
        return json.dumps(asdict(self)) + "\n"


def from_line(line: str) -> Settings:
    """Read it. ValueError, TypeError, KeyError: whoever wrote it is no broker of ours."""
    told = json.loads(line)
    return Settings(
        str(told["bootstrap"]),
        tuple(map(str, told["log_dirs"])),
        tuple(map(int, told["sockets"])),
        told["metrics_url"],
        tuple(map(str, told["mechanisms"])),
        told["ca_file"],
        bool(told["read_only"]),
    )
