"""Start a broker whose controllers are other nodes. The command line refuses that mode, because it is not complete."""

from __future__ import annotations

import sys

from pybroker.engine_process import enter


def main() -> int:
    enter()
    from broker.lifecycle import run
    from config import ConfigError, load
    from runtime import logs

    logs.setup()
    try:
        config = load(sys.argv[1], to_serve=True, allow_member=True)
    except ConfigError as error:
        print("\n".join(str(each) for each in error.problems), file=sys.stderr)
        return 1
    return run(config)


if __name__ == "__main__":
    sys.exit(main())
