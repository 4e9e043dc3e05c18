"""`pybroker random-uuid`: print an id for a new cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from broker.formatting import id_text
from broker.ids import random_id
from offline.command_line import OfflineParser


def main(argv: Sequence[str] | None = None) -> int:
    """Print a random id; returns the exit code."""
    OfflineParser(prog="pybroker random-uuid", description="Print a random id, for a cluster.").parse_args(argv)
    print(id_text(random_id()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
