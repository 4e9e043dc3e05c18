"""Metrics that dashboards for Apache Kafka query: each exists, or docs/reference/dashboards.md says why not."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from broker.observability.metrics.metric_table import METRICS
from tests.support.schema_facts import config_facts

ROOT = Path(__file__).resolve().parents[5]
PAGE = ROOT / "docs/reference/dashboards.md"
RULES = [
    (rule["record"], rule["expr"])
    for group in yaml.safe_load((ROOT / "docker/monitoring/names.yaml").read_text())["groups"]
    for rule in group["rules"]
]
RECORDED = {record for record, _ in RULES}
GIVEN = {metric.name for metric in METRICS}
ASKED = {name: row["asked_by"].split(",") for name, row in config_facts("dashboard-metrics").items()}


def documented_as_missing() -> list[str]:
    """Return the names in the first column of the page's table, in order."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]


def test_each_queried_metric_exists_or_is_documented() -> None:
    assert set(ASKED) - GIVEN - RECORDED == set(documented_as_missing())


def test_each_reason_is_documented_once_and_needed() -> None:
    names = documented_as_missing()

    assert len(names) == len(set(names))
    assert not (GIVEN | RECORDED) & set(names)


def test_recording_rules_give_queried_metrics_once() -> None:
    """From metrics that exist. No rule gives a metric of the broker itself."""
    assert len(RULES) == len(RECORDED)
    assert set(ASKED) - GIVEN >= RECORDED
    for record, expression in RULES:
        assert set(re.findall(r"kafka_\w+", expression)) <= GIVEN, record


def test_most_panels_of_common_dashboards_have_metrics() -> None:
    """Those of Strimzi's dashboard."""
    asked = {name for name, by in ASKED.items() if "strimzi-kafka" in by}

    assert len(asked & GIVEN) >= 0.75 * len(asked)
