"""Names that dashboards for Apache Kafka ask for: each is given, or docs/reference/dashboards.md says why not."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from broker.observability.metrics.metric_table import METRICS
from tests.support.config_facts import config_facts

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


def not_there() -> list[str]:
    """The names in the first column of the page's table, in order."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]


def test_each_name_is_given_or_its_reason_told() -> None:
    assert set(ASKED) - GIVEN - RECORDED == set(not_there())


def test_no_reason_is_told_twice_or_of_what_is_given() -> None:
    names = not_there()

    assert len(names) == len(set(names))
    assert not (GIVEN | RECORDED) & set(names)


def test_rules_give_names_that_are_asked_for_of_what_is_given() -> None:
    """And each one once; none that the broker gives itself."""
    assert len(RULES) == len(RECORDED)
    assert set(ASKED) - GIVEN >= RECORDED
    for record, expression in RULES:
        assert set(re.findall(r"kafka_\w+", expression)) <= GIVEN, record


def test_what_people_look_at_first_is_given() -> None:
    """Most of the panels of the dashboard that most clusters of Strimzi's have."""
    asked = {name for name, by in ASKED.items() if "strimzi-kafka" in by}

    assert len(asked & GIVEN) >= 0.75 * len(asked)
