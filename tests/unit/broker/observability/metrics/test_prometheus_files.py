"""docker/monitoring/: files that Prometheus and Grafana read, as strictly as those do."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[5] / "docker/monitoring"
#: What Prometheus knows of a file of rules; with any other field, or one twice, it does not start (model/rulefmt).
GROUP, RECORDING_RULE = {"name", "interval", "query_offset", "limit", "rules", "labels"}, {"record", "expr", "labels"}
METRIC = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
#: The expressions that these rules are made of.
EXPRESSION = re.compile(rf"{METRIC}( \* 0 \+ 1)?|1 - {METRIC}|(sum|count) without \(\w+\) \({METRIC}\)")


class StrictLoader(yaml.SafeLoader):
    """A key may stand in a mapping once: YAML says so, and Go's parser."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: {keys}"
        return super().construct_mapping(node, deep)


def read(name: str) -> Any:
    return yaml.load((FOLDER / name).read_text(), StrictLoader)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.yaml")))
def test_keys_stand_once(name: str) -> None:
    """In each mapping of each file."""
    assert isinstance(read(name), Mapping)
    assert "\t" not in (FOLDER / name).read_text()


def test_recording_rules_are_those_that_prometheus_loads() -> None:
    """Groups have names of their own, rules the fields there are, names that may be, and an expression."""
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


def test_rules_are_beside_prometheus_configuration_and_as_often_as_it_asks() -> None:
    """A rate over less than two evaluations shows nothing, and Grafana's shortest is of four scrapes."""
    configuration = read("prometheus.yaml")
    assert configuration.keys() <= {"global", "rule_files", "scrape_configs"}
    assert configuration["global"]["evaluation_interval"] == configuration["global"]["scrape_interval"]
    mounts = [each.split(":") for each in read("compose.yaml")["services"]["prometheus"]["volumes"]]
    placed = {inside: FOLDER.parent / outside for outside, inside, *_ in mounts if outside.startswith(".")}
    for name in configuration["rule_files"]:
        assert placed[f"/etc/prometheus/{name}"] == FOLDER.parent / "monitoring" / name
    assert all(path.is_file() for path in placed.values())
