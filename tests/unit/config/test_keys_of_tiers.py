"""Each key of tiered storage has a test of its effect."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from config.keys import BROKER_KEYS, TOPIC_KEYS
from config.keys.tiered import METADATA_TOPIC_KEYS, TIERED_KEYS

TESTS = Path(__file__).parents[2]

_SETTINGS = "integration/test_tiered_settings.py"
_LIMITS = f"{_SETTINGS}::test_limits_of_all_topics_change_at_run_time"
_REFUSED = "unit/config/test_tiering.py::test_settings_that_stop_a_start"
_READS = "unit/broker/tiering/reading"
_FETCHES = f"{_READS}/test_remote_fetch.py"
_INDEXES = f"{_READS}/test_index_cache.py"
_TIERING = "unit/broker/tiering"
_COPIES = f"{_TIERING}/test_copier.py"
_THREADS = f"{_TIERING}/test_tier_keys.py::test_threads"
_QUOTAS = f"{_TIERING}/test_tier_keys.py::test_quotas"
_AS_SET = "unit/config/test_tiering.py::test_metadata_topic_as_set"

_HANGS = f"{_READS}/test_remote_list_offsets.py::test_storage_that_hangs_times_out"
_LOCAL = "unit/storage/log/test_tiered_log.py::test_the_local_limits_are_those_of_the_topic_unless_they_are_set"
_BACKOFF = f"{_TIERING}/test_jobs.py::test_backoff_doubles_up_to_the_longest"
_STARTS = f"{_SETTINGS}::test_start_ends_with_the_line_of_the_problem"

EFFECTS = {
    "remote.fetch.max.wait.ms": f"{_FETCHES}::test_the_answer_is_empty_after_the_wait_and_the_read_goes_on",
    "remote.list.offsets.request.timeout.ms": _HANGS,
    "remote.log.storage.system.enable": "unit/config/test_topics.py::test_tiered_topics_need_the_system",
    "remote.log.storage.manager.class.name": _STARTS,
    "remote.log.storage.manager.impl.prefix": _LIMITS,
    "remote.log.metadata.manager.class.name": _REFUSED,
    "remote.log.metadata.manager.impl.prefix": _LIMITS,
    "remote.log.metadata.manager.listener.name": _STARTS,
    "remote.log.metadata.custom.metadata.max.bytes": f"{_COPIES}::test_too_large_custom_metadata_is_refused",
    "remote.log.index.file.cache.total.size.bytes": f"{_INDEXES}::test_the_least_recently_used_goes_first",
    "remote.log.index.file.cache.ttl.ms": f"{_INDEXES}::test_unused_files_are_removed",
    "remote.log.manager.copier.thread.pool.size": _THREADS,
    "remote.log.manager.copy.max.bytes.per.second": f"{_COPIES}::test_quota_delays_copies",
    "remote.log.manager.copy.quota.window.num": _QUOTAS,
    "remote.log.manager.copy.quota.window.size.seconds": _QUOTAS,
    "remote.log.manager.expiration.thread.pool.size": _THREADS,
    "remote.log.manager.fetch.max.bytes.per.second": f"{_FETCHES}::test_a_quota_delays_reads",
    "remote.log.manager.fetch.quota.window.num": _QUOTAS,
    "remote.log.manager.fetch.quota.window.size.seconds": _QUOTAS,
    "remote.log.manager.task.interval.ms": "integration/test_tiered_guide.py::test_lines_of_the_guide",
    "remote.log.manager.task.retry.backoff.max.ms": _BACKOFF,
    "remote.log.manager.task.retry.backoff.ms": _BACKOFF,
    "remote.log.manager.task.retry.jitter": f"{_TIERING}/test_tier_keys.py::test_jitter",
    "remote.log.reader.max.pending.tasks": f"{_FETCHES}::test_too_many_reads_wait_for_their_turn",
    "remote.log.reader.threads": _THREADS,
    "log.local.retention.bytes": _LIMITS,
    "log.local.retention.ms": "unit/config/test_topics.py::test_every_broker_default_reaches_the_log",
    "log.remote.copy.lag.bytes": _LIMITS,
    "log.remote.copy.lag.ms": _LIMITS,
    "local.retention.bytes": f"{_COPIES}::test_local_retention_removes_only_what_is_copied",
    "local.retention.ms": _LOCAL,
    "remote.copy.lag.bytes": f"{_COPIES}::test_copies_lag_by_bytes",
    "remote.copy.lag.ms": "unit/tiered/test_copying.py::test_copies_may_lag_by_time_or_by_size",
    "remote.log.copy.disable": f"{_COPIES}::test_no_copies_while_they_are_disabled",
    "remote.log.delete.on.disable": f"{_TIERING}/test_expirer.py::test_turning_off_deletes_and_moves_the_start",
    "remote.storage.enable": f"{_COPIES}::test_closed_segments_are_copied_with_their_indexes",
    "remote.log.metadata.topic.min.isr": _AS_SET,
    "remote.log.metadata.topic.num.partitions": _AS_SET,
    "remote.log.metadata.topic.replication.factor": _AS_SET,
    "remote.log.metadata.topic.retention.ms": _AS_SET,
}


def test_each_key_has_a_test() -> None:
    limits = [row for row in BROKER_KEYS.values() if row.name.startswith(("log.local.", "log.remote."))]
    topics = [row for row in TOPIC_KEYS.values() if row.name.startswith(("local.", "remote."))]
    rows = [*TIERED_KEYS, *METADATA_TOPIC_KEYS, *limits, *topics]

    assert EFFECTS.keys() == {row.name for row in rows if not row.inert}


@pytest.mark.parametrize("named", sorted(set(EFFECTS.values())))
def test_the_named_tests_exist(named: str) -> None:
    path, _, name = named.partition("::")
    tree = ast.parse((TESTS / path).read_text())
    assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
