"""Metrics of the tier, under Kafka's names."""

from __future__ import annotations

from pathlib import Path

from broker.observability.metrics.metric import Timings
from broker.observability.metrics.metric_table import METRICS
from broker.observability.metrics.tier_samples import tier_samples
from remote.store import Health
from tests.support.copying_broker import CopyingBroker


def samples(broker: CopyingBroker, prefix: str = "kafka_server_brokertopicmetrics_remote") -> dict[str, object]:
    """Return the values by name, with the labels' values behind a slash."""
    return {
        "/".join((metric.name.removeprefix(prefix), *labels)): value.count if isinstance(value, Timings) else value
        for metric, labels, value in tier_samples(broker.tier, broker.partitions)
    }


def test_all_metrics_have_samples(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path)
    broker.append(broker.tiered(), 10)
    broker.round()
    found = {metric.name for metric, _, _ in tier_samples(broker.tier, broker.partitions)}
    assert found == {each.name for each in METRICS if each.of_tiers}


def test_copies_are_counted(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path)
    partition = broker.tiered(retention_bytes="100000", local_retention_bytes="50000")
    broker.append(partition, 10)
    closed = partition.log.segments[:-1]
    size_bytes = sum(each.size_bytes for each in closed)
    broker.round()
    after = samples(broker)
    assert (after["copylagsegments"], after["copylagbytes"]) == (0, 0)
    assert after["copyrequests_total"] == after["copyrequests_total/t"] == after["logmetadatacount/t"] == len(closed)
    assert after["copybytes_total/t"] == after["logsizebytes"] == size_bytes
    assert after["copyerrors_total"] == 0
    percent = "kafka_log_remote_remotelogmanager_{}retentionsizeinpercent/t/0"
    assert after[percent.format("")] == 100 * partition.log.size_bytes // 100_000
    assert after[percent.format("local")] == 100 * partition.log.size_bytes // 50_000


def test_lag_of_copies_that_fail(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path)
    partition = broker.tiered()
    broker.layout.fails.add("copy")
    broker.append(partition, 10)
    broker.round()
    closed = partition.log.segments[:-1]
    found = samples(broker)
    assert found["copylagsegments"] == found["copylagsegments/t"] == len(closed)
    assert found["copylagbytes/t"] == sum(each.size_bytes for each in closed)
    assert found["pybroker_remote_failing_partitions/copy"] == 1


def test_deletions_are_counted(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path)
    partition = broker.tiered()
    broker.append(partition, 10)
    broker.round()
    count = len(broker.remote(partition))
    broker.layout.fails.add("delete")
    partition.delete_records(partition.log.log_end_offset)
    broker.round()
    found = samples(broker)
    assert found["deletelagsegments"] == count
    assert found["deletelagbytes/t"] == sum(each.size_bytes for each in broker.remote(partition))
    assert found["pybroker_remote_failing_partitions/delete"] == 1
    failed = found["deleteerrors_total/t"]
    assert isinstance(failed, int)
    broker.layout.fails.clear()
    broker.round(5)
    found = samples(broker)
    assert (found["deletelagsegments"], found["deletelagbytes"], found["logmetadatacount"]) == (0, 0, 0)
    assert found["deleterequests_total"] == count + failed


def test_the_state_of_the_storage(tmp_path: Path) -> None:
    broker = CopyingBroker(tmp_path)
    names = [
        f"pybroker_remote_{each}" for each in ("storage_failing", "storage_request_limit", "oldest_upload_seconds")
    ]
    broker.layout.state = Health("no answer in time", 32, 7.5)
    assert [samples(broker)[each] for each in names] == [1, 32, 7.5]
    broker.layout.state = Health(None, 64, 0)
    assert [samples(broker)[each] for each in names] == [0, 64, 0]
