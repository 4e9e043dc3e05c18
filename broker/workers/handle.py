"""One worker, as the main process handles it: start, restart after a crash, messages, stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from broker.process.placement import worker_of
from broker.process.start_errors import CannotStart, StartInterrupted
from broker.workers.backend import WorkerBackend
from broker.workers.forwarded import serve_forwarded
from broker.workers.link import Link, LinkEnded
from broker.workers.liveness import BEAT_S, BEATS_WITHOUT_ANSWER, LivenessMonitor
from broker.workers.messages import (
    AppendRecords,
    AutoCreate,
    Begin,
    DirectoryFailed,
    Forward,
    InheritedListener,
    Open,
    PartitionDirectories,
    ReadShare,
    Ready,
    Records,
    Refused,
    Stop,
    Verify,
    WorkerConfig,
    WorkerDirectory,
    WriteMarker,
    WriteShare,
)
from broker.workers.share_keeping import ShareKeeper
from broker.workers.spawn import command
from metadata.framing import encode_record
from metadata.snapshot import image_records
from protocol.error_codes import ErrorCode
from runtime import logs
from runtime.deferred import Deferred, settled
from storage.errors import StorageError

if TYPE_CHECKING:
    from broker.network.listener import Listener

log = logging.getLogger(__name__)

#: The delay before a dead worker's second restart. The first is immediate; later delays double up to a maximum.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
#: How long a process may take to end after its link has ended.
LAST_WORDS_S = 10.0
#: How long a worker may take at a stop to write its data to disk. The next start recovers the rest.
LONGEST_STOP_S = 120.0
#: A worker that has lived this long did not fail in its start: the restart delay is reset.
SOUND_AFTER_S = 60.0


class WorkerHandle:
    """Worker `number`. Each of its processes inherits `listeners`, which are bound already."""

    def __init__(self, backend: WorkerBackend, number: int, listeners: Sequence[Listener]) -> None:
        self._backend = backend
        self._number = number
        self._listeners = listeners
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Link | None = None
        self._pulse: LivenessMonitor | None = None
        self._shares = ShareKeeper(backend.share_states)
        self._began_s = 0.0
        self._pause_s = 0.0
        self._behind: dict[Deferred[Any], None] = {}
        #: Ids of deleted topics whose files the worker may still have: it may have been down when they were deleted.
        self._deleted_topics: set[bytes] = set()
        self._started: asyncio.Future[None] | None = None
        self._is_ready = False
        self._is_open = False
        self._stopping = False
        #: How often its process was restarted.
        self.restarts = 0

    def __str__(self) -> str:
        return f"Worker {self._number}"

    @property
    def is_serving(self) -> bool:
        """Whether the worker accepts clients now."""
        return self._is_ready and self._is_open

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self, deleted_topics: Collection[bytes] = ()) -> None:
        """Start the worker; return once its logs are open, without those of deleted topics. Raises CannotStart."""
        self._deleted_topics.update(deleted_topics)
        self._started = self._backend.loop.create_future()
        self._begin()
        await self._started

    def interrupt(self) -> None:
        """Stop waiting for the worker's logs: a start in progress raises StartInterrupted."""
        if self._started is not None and not self._started.done():
            self._started.set_exception(StartInterrupted(f"{self} was interrupted while it started"))
            self._stopping = True

    def open(self) -> None:
        """Accept clients, now and after each restart."""
        self._is_open = True
        self.send(Open())

    async def stop(self) -> bool:
        """Stop the worker, and return whether it stopped cleanly. Log directories that failed in it fail here, too."""
        self._stopping = True
        if self._link is None or not self._is_ready:  # a worker reads no messages while it opens its logs
            self.kill()
            return False
        stopped: asyncio.Future[None] = self._backend.loop.create_future()
        answer = self._link.ask(Stop())
        answer.add_done_callback(lambda _: None if stopped.done() else stopped.set_result(None))
        try:
            await asyncio.wait_for(stopped, LONGEST_STOP_S)
            failures: dict[str, str] = answer.result()
        except Exception as error:
            log.error("%s has not stopped cleanly: %r", self, error)
            return False
        for path, reason in failures.items():
            self._backend.fail_directory(path, reason)
        return True

    def restart_process(self) -> None:
        """End the process. The next one starts with all metadata."""
        if self._process is not None:
            self._process.kill()

    def kill(self) -> None:
        """Kill the process."""
        self._stopping = True
        if self._started is not None:
            self._started.cancel()
        self._let_go_of_link()
        if self._process is not None:
            self._process.kill()
            try:
                self._process.wait(LAST_WORDS_S)
            except subprocess.TimeoutExpired:  # it still holds its locks, so that no other broker can start
                log.error("%s does not end: it waits for the disk", self)
            self._process = None

    def _let_go_of_link(self) -> None:
        self._is_ready = False
        if self._pulse is not None:
            self._pulse.stop()
            self._pulse = None
        if self._link is not None:
            self._link.close()
            self._link = None

    def _begin(self) -> None:
        if self._stopping:
            return
        loop = self._backend.loop
        self._began_s = loop.time()
        begin = self._what_to_begin_with()
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                handles = [handle for each in begin.listeners for handle in each.handles]
                # A group of its own: the main process handles what a terminal sends to the broker's group.
                self._process = subprocess.Popen(
                    command(theirs.fileno()),
                    pass_fds=(theirs.fileno(), *handles),
                    stdin=subprocess.DEVNULL,
                    process_group=0,
                )
        except OSError as error:  # no descriptors, or no processes, left
            self._ended(f"cannot be started: {error}")
            return
        self._shares = ShareKeeper(self._backend.share_states)
        self._link = Link(loop, ours, self._serve, self._on_end)
        self._link.send(begin)
        self._link.listen()

    def _what_to_begin_with(self) -> Begin:
        backend = self._backend
        config, controller = backend.config, backend.controller
        return Begin(
            self._number,
            WorkerConfig(config.path, dict(config.static), dict(config.static_values), config.listening),
            controller.cluster_id,
            backend.quorum.kraft_version,
            controller.last_offset,
            tuple(map(encode_record, image_records(controller.image))),
            frozenset(self._deleted_topics),
            tuple(
                WorkerDirectory(
                    each.path,
                    backend.directory_ids.get(each.path),
                    bool(each.had_clean_shutdown) and self._started is not None,
                    each.failure,
                )
                for each in backend.logs.directories
            ),
            dict(backend.missing),
            tuple(InheritedListener(each.name, each.security_protocol, each.handles) for each in self._listeners),
            backend.ports,
            logs.own_levels(),
            logs.writes_json(),
        )

    def _on_ready(self) -> None:
        assert self._link is not None
        self._is_ready = True
        self._forget_deleted_topics()
        # not before: recovery may take long
        self._pulse = LivenessMonitor(self._backend.loop, self._link, self._on_silence)
        self._pulse.start()
        if self._started is not None:
            if not self._started.done():
                self._started.set_result(None)
            self._started = None  # from now on it is a restart, after a crash
        else:
            log.info("%s is back after %.1f s", self, self._backend.loop.time() - self._began_s)
            self._backend.transactions.retry_markers(self._has)
        if self._is_open:
            self.send(Open())

    def _has(self, place: tuple[str, int]) -> bool:
        """Return whether the worker has a partition."""
        return worker_of(*place, self._backend.config.num_workers) == self._number

    def _on_silence(self) -> None:
        log.error("%s has not answered for %.0f s, and is ended", self, BEAT_S * BEATS_WITHOUT_ANSWER)
        self.restart_process()

    def _on_refused(self, reason: str) -> None:
        if self._started is not None and not self._started.done():
            self._started.set_exception(CannotStart(reason))
            self._stopping = True
        else:
            log.error("%s cannot start: %s", self, reason)

    def _on_end(self) -> None:
        """Handle the end of the link: the process has ended, or is about to."""
        self._let_go_of_link()
        if self._process is not None:
            waited = self._backend.loop.run_in_executor(None, _wait, self._process)
            waited.add_done_callback(lambda done: self._ended(_how(done.result())))

    def _ended(self, how: str) -> None:
        self._process = None
        if self._started is not None and not self._started.done():
            self._started.set_exception(CannotStart(f"{self} {how} while it started"))
            self._stopping = True
        if self._stopping:
            return
        loop = self._backend.loop
        if loop.time() - self._began_s >= SOUND_AFTER_S:
            self._pause_s = 0.0
        log.error("%s %s; it is started again in %.0f s", self, how, self._pause_s)
        self.restarts += 1
        loop.call_later(self._pause_s, self._begin)
        self._pause_s = min(max(FIRST_PAUSE_S, 2 * self._pause_s), LONGEST_PAUSE_S)

    # -- messages to the worker ----------------------------------------------------------------------------------------

    def send(self, message: object) -> None:
        """Send a message if the worker is running."""
        if self._link is not None:
            self._link.send(message)

    def follow(self, message: Records) -> None:
        """Send metadata. A worker that fails to apply it is restarted with all metadata."""
        if self._link is None:
            return
        process_then, done = self._process, self._link.ask(message)
        self._behind[done] = None

        def forget(_: Deferred[Any]) -> None:
            self._behind.pop(done, None)
            try:
                done.result()
            except LinkEnded:
                return
            except Exception as error:
                if process_then is not None and process_then is self._process:
                    log.error("%s could not apply a metadata change, and is ended: %r", self, error)
                    process_then.kill()
                return
            self._forget_deleted_topics()

        done.add_done_callback(forget)

    def note_deleted(self, topic_id: bytes) -> None:
        """Note a deleted topic. The worker may be down, and miss the records of the deletion."""
        self._deleted_topics.add(topic_id)

    def _forget_deleted_topics(self) -> None:
        """Forget the deleted topics once a batch is applied, unless later batches, maybe of deletions, are pending."""
        if not self._behind:
            self._deleted_topics.clear()

    def when_caught_up(self) -> Deferred[None]:
        """Resolve once the worker has applied all metadata sent so far, or has ended.

        This does not wait for a worker that is opening its logs, which may take long: it accepts clients only after it
        has applied all metadata.
        """
        return settled(list(self._behind) if self._is_ready else [])

    def mark(self, message: WriteMarker) -> Deferred[ErrorCode]:
        """Write a marker; NOT_LEADER_OR_FOLLOWER while the worker is down."""
        marked: Deferred[ErrorCode] = Deferred()
        if self._link is None:
            marked.resolve(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return marked

        def pass_on(done: Deferred[ErrorCode]) -> None:
            try:
                marked.resolve(done.result())
            except Exception:
                marked.resolve(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        self._link.ask(message).add_done_callback(pass_on)
        return marked

    def ask(self, message: object) -> Deferred[Any]:
        """Send a request, and return the answer. Fails with LinkEnded while the worker is down, or opens its logs."""
        if self._link is not None and self._is_ready:
            return self._link.ask(message)
        asked: Deferred[Any] = Deferred()
        asked.fail(LinkEnded())
        return asked

    # -- messages from the worker --------------------------------------------------------------------------------------

    def _serve(self, message: Any) -> object:
        backend = self._backend
        if isinstance(message, Forward):
            return serve_forwarded(backend.dispatcher, message)
        if isinstance(message, Verify):
            return backend.verifier.verify(message.transactional_id, message.batches, message.api_version)
        if isinstance(message, ReadShare):
            return self._shares.read(message)
        if isinstance(message, WriteShare):
            return self._shares.write(message)
        if isinstance(message, AutoCreate):
            return backend.controller.auto_create(message.names, configs=message.configs)
        if isinstance(message, AppendRecords):
            return backend.own_appends().append(message.topic, message.partition, message.records)
        if isinstance(message, PartitionDirectories):
            self._place(message)
        elif isinstance(message, DirectoryFailed):
            backend.fail_directory(message.path, message.reason)
        elif isinstance(message, Ready):
            self._on_ready()
        elif isinstance(message, Refused):
            self._on_refused(message.reason)
        return None

    def _place(self, message: PartitionDirectories) -> None:
        try:
            self._backend.controller.record_placements(message.placed)
        except (OSError, StorageError) as error:
            log.warning("The log directories of partitions of %s cannot be recorded in the metadata: %s", self, error)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a process that is about to end; kill it if it does not."""
    try:
        return process.wait(LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _how(code: int) -> str:
    """Describe how a process has ended, for log lines."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"has ended with code {code}"
