"""The console's process: which the broker starts (broker/console/process.py).

Settings come in as a line on standard input, and then what the broker logs: when it ends the broker is gone, and so is
the console. It is nicer than the broker, and has no files of its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from typing import NoReturn

import uvicorn

from console.application import make_application
from console.broker_access import visits
from console.broker_log import BrokerLog
from console.login_sessions import Visits
from console.settings import Settings, from_line

_NICENESS = 10
#: Between two looks at which visits are over.
TIDY_S = 60.0
#: Requests at a time, and those that wait; a browser has six connections.
_MOST_CONNECTIONS = 64


def host_names(sockets: list[socket.socket]) -> frozenset[str]:
    """What the console may be called in a browser: it listens on loopback only."""
    return frozenset({"localhost", *(str(sock.getsockname()[0]) for sock in sockets)})


async def serve(settings: Settings) -> None:
    """Answer on the sockets until standard input ends."""
    sockets = [socket.socket(fileno=number) for number in settings.sockets]
    log = BrokerLog()
    all_visits = visits(settings, log)
    application = make_application(all_visits, host_names(sockets), read_only=settings.read_only)
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nobody stands between
            ws="none",
            lifespan="off",
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
    )
    loop = asyncio.get_running_loop()

    def wait_for_the_end() -> None:
        log.follow(sys.stdin.buffer)
        loop.call_soon_threadsafe(setattr, server, "should_exit", True)

    threading.Thread(target=wait_for_the_end, name="broker-watch", daemon=True).start()
    tidying = asyncio.create_task(tidy(all_visits))
    await server.serve(sockets)
    tidying.cancel()


async def tidy(all_visits: Visits) -> NoReturn:
    """See to it that visits end, also where nobody asks for anything any more."""
    while True:
        await asyncio.sleep(TIDY_S)
        all_visits.forget_due()


def main() -> int:
    """Run the console; returns the exit code."""
    os.nice(_NICENESS)
    try:
        settings = from_line(sys.stdin.buffer.readline().decode())
    except (ValueError, TypeError, KeyError):
        print("pybroker: the console is started by the broker: set console.listeners", file=sys.stderr)
        return 2
    asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    # threads may still wait for the broker to answer; nobody waits for them any more
    code = main()
    sys.stderr.flush()
    os._exit(code)
