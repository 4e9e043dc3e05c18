"""The files of docker/monitoring/, checked as strictly as Prometheus and Grafana check them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[5] / "docker/monitoring"
#: Fields of a file of rules; Prometheus does not start with another field or a repeated one (model/rulefmt).
GROUP, RECORDING_RULE = {"name", "interval", "query_offset", "limit", "rules", "labels"}, {"record", "expr", "labels"}
METRIC = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
#: The expressions of these rules.
EXPRESSION = re.compile(rf"{METRIC}( \* 0 \+ 1)?|1 - {METRIC}|(sum|count) without \(\w+\) \({METRIC}\)")


class StrictLoader(yaml.SafeLoader):
    """Rejects repeated keys of a mapping, as YAML and Go's parser do."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: {keys}"
        return super().construct_mapping(node, deep)


def read(name: str) -> Any:
    return yaml.load((FOLDER / name).read_text(), StrictLoader)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.yaml")))
def test_keys_of_mappings_are_unique(name: str) -> None:
    assert isinstance(read(name), Mapping)
    assert "\t" not in (FOLDER / name).read_text()


def test_recording_rules_are_valid() -> None:
    """Unique group names, known fields, valid metric names, and expressions."""
    groups = read("names.yaml")
    assert groups.keys() == {"groups"}
    names = [group["name"] for group in groups["groups"]]
    assert len(names) == len(set(names))
    for group in groups["groups"]:
        assert group.keys() <= GROUP
        for rule in group["rules"]:
            assert {"record", "expr"} <= rule.keys() <= RECORDING_RULE
            assert re.fullmatch(METRIC, rule["record"])
            assert EXPRESSION.fullmatch(rule["expr"]), rule["expr"]


def test_rules_are_evaluated_as_often_as_metrics_are_scraped() -> None:
    """A rate over less than two evaluations is empty, and Grafana's shortest covers four scrapes."""
    configuration = read("prometheus.yaml")
    assert configuration.keys() <= {"global", "rule_files", "scrape_configs"}
    assert configuration["global"]["evaluation_interval"] == configuration["global"]["scrape_interval"]
    mounts = [each.split(":") for each in read("compose.yaml")["services"]["prometheus"]["volumes"]]
    placed = {inside: FOLDER.parent / outside for outside, inside, *_ in mounts if outside.startswith(".")}
    for name in configuration["rule_files"]:
        assert placed[f"/etc/prometheus/{name}"] == FOLDER.parent / "monitoring" / name
    assert all(path.is_file() for path in placed.values())
