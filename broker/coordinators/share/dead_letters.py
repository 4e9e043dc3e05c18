"""Write the dead letters of share groups to the topics that the groups name (KIP-1191).

Letters are written one batch at a time, each in a turn of the loop of its own. The queue holds offsets, not records. As
in Kafka, letters that cannot be written after some attempts are logged and given up, and their records are archived.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from broker.coordinators.share.dead_letter_records import DeadLetters, build_batch, read_originals
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.automatic_topics import AutomaticTopics
    from broker.metadata_cache import MetadataCache
    from broker.replicas.own_appends import OwnAppends
    from broker.replicas.partition import Partition
    from config import BrokerConfig
    from protocol.records.record import Record
    from runtime.clock import Clock
    from runtime.timers import Timers

log = logging.getLogger(__name__)

#: The configuration of a queue's topic that the broker creates.
TOPIC_CONFIGS = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}

#: Kafka's attempts, and the delays between them: doubled each time, up to the longest, and varied by a fifth.
_ATTEMPTS = 5
_FIRST_DELAY_MS, _LONGEST_DELAY_MS, _VARIATION = 1_000, 30_000, 0.2


class DeadLetterServices(NamedTuple):
    """The services of the process that writing dead letters needs."""

    config: BrokerConfig
    clock: Clock
    timers: Timers
    metadata: MetadataCache
    topics: AutomaticTopics
    appends: OwnAppends
    counts: dict[str, LetterCounts]


class LetterCounts(msgspec.Struct):
    """The records that are in a group's queue; the writes of batches to it, and those that were given up."""

    records: int = 0
    requests: int = 0
    failures: int = 0


class _Job(msgspec.Struct, eq=False):
    """Dead letters that are being written. `following`: the first offset that is not; `source`: the original log."""

    letters: DeadLetters
    source: Partition
    following: int
    done: Deferred[None]
    attempts: int = 0


class DeadLetterWriter:
    """Writes the dead letters of this process."""

    def __init__(self, services: DeadLetterServices) -> None:
        self._services = services
        self._image = services.metadata.image  # always the same object, which the metadata log changes
        self._ready: deque[_Job] = deque()
        self._is_busy = False

    def write(self, letters: DeadLetters, source: Partition) -> Deferred[None]:
        """Resolve when the letters are in the queue, or given up. The Deferred does not fail."""
        job = _Job(letters, source, letters.first_offset, Deferred())
        self._enqueue(job)
        return job.done

    def _topic_of(self, group_id: str) -> str:
        return self._image.config(ResourceType.GROUP, group_id).get("errors.deadletterqueue.topic.name", "")

    def problem(self, group_id: str) -> str | None:
        """Return why the group has no dead-letter queue; None if it has one. Checks and order are Kafka's."""
        config, topic = self._services.config, self._topic_of(group_id)
        if not topic:
            return "errors.deadletterqueue.topic.name of the group is empty"
        if topic.startswith("__"):
            return f"topic {topic} begins with __"
        if self._image.topic(topic) is None:
            if not config.get_bool("errors.deadletterqueue.auto.create.topics.enable"):
                return f"topic {topic} does not exist, and errors.deadletterqueue.auto.create.topics.enable is false"
        elif self._image.topic_config(topic).get("errors.deadletterqueue.group.enable", "false").lower() != "true":
            return f"topic {topic} does not have errors.deadletterqueue.group.enable=true"
        prefix = config.get_str("errors.deadletterqueue.topic.name.prefix") or ""
        if not topic.startswith(prefix):
            return f"topic {topic} does not begin with errors.deadletterqueue.topic.name.prefix, {prefix}"
        return None

    # -- one after the other ----------------------------------------------------------------------------------------

    def _enqueue(self, job: _Job) -> None:
        problem = self.problem(job.letters.group_id)
        if problem is not None:
            self._give_up(job, problem)
            return
        self._ready.append(job)
        self._schedule()

    def _schedule(self) -> None:
        if self._ready and not self._is_busy:
            self._is_busy = True
            self._services.timers.call_later(0, self._run_next)

    def _run_next(self) -> None:
        job = self._ready.popleft()
        topic = self._topic_of(job.letters.group_id)
        self._services.topics.ensure(topic, TOPIC_CONFIGS).add_done_callback(partial(self._on_topic, job, topic))

    def _on_topic(self, job: _Job, topic: str, ensured: Deferred[bool]) -> None:
        """Write a batch to the topic, which exists unless it could not be created."""
        try:
            if not ensured.result():
                self._end_turn()
                self._give_up(job, f"topic {topic} cannot be created")
                return
            self._write_batch(job, topic)
        except Exception as error:
            log.exception("Dead letters of group %s cannot be written", job.letters.group_id)
            self._end_turn()
            self._give_up(job, str(error))

    def _write_batch(self, job: _Job, topic: str) -> None:
        services, letters = self._services, job.letters
        found = self._image.topic(topic)
        if found is None:
            # Deleted meanwhile: as in Kafka, no write has failed. Kafka gives up even if it may create the topic.
            self._end_turn()
            self._enqueue(job)
            return
        max_bytes = services.config.log_config(self._image.topic_config(topic)).max_message_bytes
        originals: dict[int, Record] = {}
        last = letters.last_offset
        if self._copies_records(letters.group_id):
            read = read_originals(job.source, job.following, last, max_bytes, is_batch=letters.is_batch)
            originals, last = read.records, max(min(read.resolved, last), job.following)
        batch, last = build_batch(letters, job.following, last, originals, services.clock.now_ms(), max_bytes)
        index = letters.partition % len(found.partitions)
        self._counts(job).requests += 1
        code = services.appends.append(topic, index, batch)
        if isinstance(code, Deferred):
            code.add_done_callback(lambda done: self._on_written(job, last, done.result()))
        else:
            self._on_written(job, last, code)

    def _counts(self, job: _Job) -> LetterCounts:
        return self._services.counts.setdefault(job.letters.group_id, LetterCounts())

    def _copies_records(self, group_id: str) -> bool:
        own = self._image.config(ResourceType.GROUP, group_id)
        return own.get("errors.deadletterqueue.copy.record.enable", "false").lower() == "true"

    def _on_written(self, job: _Job, last: int, code: ErrorCode) -> None:
        """Go on with the next batch, or try again later."""
        self._end_turn()
        if code is ErrorCode.NONE:
            job.attempts = 0
            self._counts(job).records += last + 1 - job.following
            job.following = last + 1
            if last < job.letters.last_offset:
                self._ready.append(job)
                self._schedule()
            else:
                job.done.resolve(None)
            return
        job.attempts += 1
        if not code.retriable or job.attempts >= _ATTEMPTS:
            self._counts(job).failures += 1
            self._give_up(job, code.name)
            return
        delay_ms = min(_FIRST_DELAY_MS << job.attempts, _LONGEST_DELAY_MS)
        varied_ms = int(delay_ms * random.uniform(1 - _VARIATION, 1 + _VARIATION))
        self._services.timers.call_later(varied_ms, lambda: self._enqueue(job))

    def _end_turn(self) -> None:
        self._is_busy = False
        self._schedule()

    def _give_up(self, job: _Job, reason: str) -> None:
        letters = job.letters
        log.error(
            "Records %d to %d of %s-%d are archived for share group %s without dead letters: %s",
            job.following,
            letters.last_offset,
            letters.topic,
            letters.partition,
            letters.group_id,
            reason,
        )
        job.done.resolve(None)
