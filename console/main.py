"""The process of the console, which the broker starts (broker/console/process.py).

The broker writes the settings to the console's standard input as one line, and then its log lines. When the input ends,
the broker has stopped, and the console exits. The process has a lower priority than the broker and keeps no state on
the disk.
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
from console.broker_access import make_login_sessions
from console.broker_log import BrokerLog
from console.login_sessions import LoginSessions
from console.settings import Settings, from_line

_NICENESS = 10
#: Seconds between two searches for expired sessions.
TIDY_S = 60.0
#: The most concurrent requests. A browser opens six connections.
_MOST_CONNECTIONS = 64


def host_names(sockets: list[socket.socket]) -> frozenset[str]:
    """Return the host names that browsers may use for the console, which listens on loopback only."""
    return frozenset({"localhost", *(str(sock.getsockname()[0]) for sock in sockets)})


async def serve(settings: Settings) -> None:
    """Serve requests until standard input ends."""
    sockets = [socket.socket(fileno=number) for number in settings.sockets]
    log = BrokerLog()
    sessions = make_login_sessions(settings, log)
    application = make_application(sessions, host_names(sockets), read_only=settings.read_only)
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # there is no proxy
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
    tidying = asyncio.create_task(remove_expired_sessions(sessions))
    await server.serve(sockets)
    tidying.cancel()


async def remove_expired_sessions(sessions: LoginSessions) -> NoReturn:
    """Remove expired sessions periodically, even if no requests arrive."""
    while True:
        await asyncio.sleep(TIDY_S)
        sessions.remove_expired()


def main() -> int:
    """Run the console and return the exit code."""
    os.nice(_NICENESS)
    try:
        settings = from_line(sys.stdin.buffer.readline().decode())
    except (ValueError, TypeError, KeyError):
        print("pybroker: start the console by setting console.listeners in the broker's configuration", file=sys.stderr)
        return 2
    asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    # do not wait for threads that still wait for answers of the broker
    code = main()
    sys.stderr.flush()
    os._exit(code)
