"""Run a broker: from its configuration until it serves clients, and from a signal until a clean end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast

from broker.process.descriptors import lack
from broker.process.event_loop import new_event_loop
from broker.process.loop_settings import on_loop_exception, reduce_garbage_collection
from broker.process.service_manager import ServiceManager
from broker.process.start_errors import CannotStart, StartInterrupted
from broker.process.start_lines import start_lines
from config import BrokerConfig
from runtime import logs

if TYPE_CHECKING:
    from broker.combined.process import CombinedProcess
    from broker.control.channel import Channel, NewCommands
    from broker.controlling.process import ControllerProcess
    from broker.coordinator_process import CoordinatorProcess
    from broker.membership.process import MemberProcess
    from broker.network.listener import Listener

log = logging.getLogger(__name__)

# A signal repeated within this time is the same request: `timeout` signals its child and then the child's group, and
# a terminal's Ctrl-C may reach the broker twice, directly and through the program that started it.
_SAME_WISH_S = 1.0

# Includes SIGHUP, from a closed terminal, as in Apache Kafka; unless it is ignored (nohup).
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_STDIN = 0


def run(config: BrokerConfig, *, announce: bool = False, until_stdin_ends: bool = False, control: bool = False) -> int:
    """Run a broker until a signal ends it, and return the exit code of the process.

    Args:
        announce: print a line of JSON once the broker serves clients.
        until_stdin_ends: also stop at the end of standard input.
        control: read commands from standard input (broker/control); needs `until_stdin_ends`.
    """
    lacking = lack()  # the loop alone needs several file descriptors
    if lacking is not None:
        print(f"pybroker: {lacking}", file=sys.stderr)
        return 1
    if until_stdin_ends and not _stdin_can_end():
        print("pybroker: --until-stdin-ends: standard input is not a pipe, socket or terminal", file=sys.stderr)
        return 2
    return _Run(config, process_class(config), announce, until_stdin_ends, _channel() if control else None).run()


def process_class(config: BrokerConfig) -> type[CoordinatorProcess] | type[ControllerProcess]:
    """Return the kind of process for the roles of the configuration. A node loads only its own kind."""
    if config.is_controller:
        from broker.controlling.process import ControllerProcess

        return ControllerProcess
    if config.is_combined:
        from broker.combined.process import CombinedProcess

        return CombinedProcess
    if config.is_member:
        from broker.membership.process import MemberProcess

        return MemberProcess
    from broker.main_process import MainProcess

    return MainProcess


def _new_commands(config: BrokerConfig, node: CoordinatorProcess | ControllerProcess) -> NewCommands:
    """Return what makes the commands of a test for the node."""
    if config.is_controller:
        from broker.control.node_commands import NodeCommands, NodeParts

        return partial(NodeCommands, NodeParts(timers=node.timers, server=node.server))
    from broker.control.commands import CommandedParts, Commands
    from broker.control.node_commands import NodeParts

    controller = None
    if config.is_combined:
        service = cast("CombinedProcess", node).service
        controller = NodeParts(timers=service.timers, server=service.server)
    node = cast("CoordinatorProcess", node)
    return partial(
        Commands,
        CommandedParts(
            timers=node.timers,
            server=node.server,
            logs=node.logs,
            partitions=node.partitions,
            background=node.background,
            cleaner=node.cleaner,
            producer_ids=node.producer_ids,
            transactions=node.transactions,
        ),
        controller=controller,
    )


def _listeners(config: BrokerConfig, node: CoordinatorProcess | ControllerProcess) -> list[Listener]:
    """Return the listeners of the node, first those for clients."""
    if config.is_combined:
        return [*node.server.listeners, *cast("CombinedProcess", node).service.server.listeners]
    return list(node.server.listeners)


def _channel() -> Channel:
    from broker.control.channel import Channel  # loaded only if used

    return Channel(_print)


def _print(line: str) -> None:
    with suppress(OSError):  # the reader has closed it
        print(line, flush=True)


def _stdin_can_end() -> bool:
    """Return False for files and /dev/null: they are at their end from the start, and the loop cannot wait for them."""
    try:
        mode = os.fstat(_STDIN).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(_STDIN)


class _Run:
    """One run of a broker in this process."""

    def __init__(
        self,
        config: BrokerConfig,
        process: type[CoordinatorProcess] | type[ControllerProcess],
        announce: bool,
        until_stdin_ends: bool,
        control: Channel | None = None,
    ) -> None:
        self._config = config
        self._process = process
        self._announce = announce
        self._until_stdin_ends = until_stdin_ends
        self._control = control
        self._loop = new_event_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._signalled_at: float | None = None
        self._service = ServiceManager(os.environ, self._loop)

    def run(self) -> int:
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(on_loop_exception)
        threading.excepthook = self._on_thread_exception
        for number in _ENDING:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            loop.add_signal_handler(number, self._on_signal, number)
        logs.install_signals(loop)
        try:
            if self._until_stdin_ends:
                loop.add_reader(_STDIN, self._on_stdin)
            return loop.run_until_complete(self._serve())
        except Exception:
            log.critical("The broker ends because of an unexpected error", exc_info=True)
            return 1
        finally:
            for number in _ENDING:  # at this point a signal has nothing left to stop
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)
            loop.close()

    async def _serve(self) -> int:
        try:
            broker = self._new_broker()
            self._ended.add_done_callback(lambda _: broker.interrupt())
            await broker.start()
        except StartInterrupted:
            log.info("The start was interrupted")
            return await self._ended
        except CannotStart as error:
            from runtime.log_text import one_line

            print(f"pybroker: {one_line(str(error))}", file=sys.stderr)
            return 1
        reduce_garbage_collection(broker.opening, broker.lazy_imports)
        log.info("Started in %d ms, listening on %s", _process_age_ms(), ", ".join(broker.addresses))
        if not self._config.is_controller:
            users = {user for user, _ in broker.metadata.image.scram_credentials}
            for line in start_lines(self._config.node_id, users):
                log.info("%s", line)
        self._service.ready(f"Listening on {', '.join(broker.addresses)}")
        if broker.console is not None:
            log.info("The console is at %s", broker.console.urls[0])
        if broker.endpoint is not None:
            log.info("Metrics are at %s/metrics, health at /live and /ready", broker.endpoint.urls[0])
        if self._announce:
            from broker.process.announcement import announcement  # loaded only if used

            metrics_url = broker.endpoint.urls[0] if broker.endpoint is not None else None
            console_url = broker.console.urls[0] if broker.console is not None else None
            _print(announcement(self._config, _listeners(self._config, broker), metrics_url, console_url))
        if self._control is not None:
            self._control.open(_new_commands(self._config, broker), broker.dispatcher, broker.timers)
        exit_code = await self._ended
        began = time.monotonic()
        self._service.stopping()
        self._bound_the_stop()
        await broker.stop()
        self._service.close()
        log.info("Stopped in %d ms", (time.monotonic() - began) * 1000)
        return exit_code

    def _new_broker(self) -> CoordinatorProcess | ControllerProcess:
        control = self._control
        if control is None:
            return self._process(self._config, self._loop, on_fatal=self._on_fatal)
        node = self._process(
            self._config,
            self._loop,
            clock=control.clock,
            make_dispatcher=control.make_dispatcher,
            on_fatal=self._on_fatal,
        )
        if self._config.is_member or self._config.is_combined:
            cast("MemberProcess", node).open_connection = control.links.open_connection
        return node

    def _bound_the_stop(self) -> None:
        """End the process if the shutdown exceeds pybroker.shutdown.timeout.ms, even if the loop is blocked."""
        timeout_ms = self._config.get_int("pybroker.shutdown.timeout.ms")

        def on_timeout() -> None:
            log.critical("Shutting down takes longer than %d ms: ending; the next start checks the logs", timeout_ms)
            _end_at_once(1)

        bound = threading.Timer(timeout_ms / 1000, on_timeout)
        bound.daemon = True
        bound.start()

    def _on_signal(self, number: signal.Signals) -> None:
        now = time.monotonic()
        if self._signalled_at is None:
            self._signalled_at = now
            log.info("%s: shutting down", number.name)
            self._end(0)
        elif now - self._signalled_at >= _SAME_WISH_S:
            log.warning("%s again: ending at once", number.name)
            _end_at_once(128 + number)

    def _on_stdin(self) -> None:
        received = os.read(_STDIN, 65_536)
        if received and self._control is not None:
            self._control.feed(received)
        elif not received:
            self._loop.remove_reader(_STDIN)
            log.info("Standard input has ended: shutting down")
            self._end(0)

    def _on_fatal(self, reason: str) -> None:
        log.critical("The broker shuts down: %s", reason)
        self._end(1)

    def _end(self, exit_code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(exit_code)

    def _on_thread_exception(self, arguments: threading.ExceptHookArgs) -> None:
        """Shut down when a thread of the broker has died: its work is no longer done."""
        if arguments.exc_type is SystemExit:
            return
        error = arguments.exc_value
        log.critical(
            "Thread %s failed: the broker shuts down", arguments.thread and arguments.thread.name, exc_info=error
        )
        self._loop.call_soon_threadsafe(self._end, 1)


def _end_at_once(exit_code: int) -> NoReturn:
    logging.shutdown()
    os._exit(exit_code)


def _process_age_ms() -> float:
    """Return the milliseconds since this process was started, including the interpreter's own start."""
    with open("/proc/self/stat") as file:
        start_ticks = int(file.read().rpartition(")")[2].split()[19])
    return (time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")) * 1000
