"""Prometheus, Grafana and their dashboard: everything that their files name exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from broker.observability.metrics.metric import Kind, quantiles
from broker.observability.metrics.metric_table import METRICS
from config.http_listeners import parse_http_listener

DOCKER = Path(__file__).resolve().parents[3] / "docker"
MONITORING = DOCKER / "monitoring"


def read(name: str) -> Any:
    return yaml.safe_load((MONITORING / name).read_text())


def panels() -> list[Any]:
    found: list[Any] = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return found


def test_mounted_files_are_there() -> None:
    """A compose file's paths are relative to the folder of the first one."""
    for service in read("compose.yaml")["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DOCKER / source).is_file() if source.startswith("./") else source in read("compose.yaml")["volumes"]


def test_prometheus_scrapes_the_brokers_address() -> None:
    """By the broker's name in its compose file, on a port that is not published on the host."""
    broker = read("compose.yaml")["services"]["broker"]
    _, port = parse_http_listener(broker["environment"]["PYBROKER_METRICS_LISTENERS"])
    (job,) = read("prometheus.yaml")["scrape_configs"]

    assert job["static_configs"] == [{"targets": [f"broker:{port}"]}]
    assert "ports" not in broker
    assert "broker" in yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]


def test_ports_are_published_on_loopback_alone() -> None:
    for service in read("compose.yaml")["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_dashboard_uses_the_provisioned_data_source() -> None:
    """By its uid."""
    (source,) = read("datasources.yaml")["datasources"]
    (provider,) = read("dashboards.yaml")["providers"]
    mounts = dict(volume.split(":")[:2] for volume in read("compose.yaml")["services"]["grafana"]["volumes"])

    assert source["url"] == "http://prometheus:9090"
    assert {panel["datasource"]["uid"] for panel in panels()} == {source["uid"]}
    assert Path(mounts["./monitoring/dashboard.json"]).parent == Path(provider["options"]["path"])


def test_panels_have_valid_queries() -> None:
    """A PromQL parser reads them, with the values that Grafana inserts for its variables."""
    variables = {"$job": "pybroker", "$instance": ".*", "$__rate_interval": "1m"}
    for panel in panels():
        for target in panel["targets"]:
            expression = re.sub(r"\$\w+", lambda found: variables[found[0]], target["expr"])
            promql_parser.parse(expression)


def test_panels_query_existing_metrics() -> None:
    """They use the rate of counters, and only labels that exist."""
    kinds = {each.name: each for each in METRICS}
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"]
            names = set(re.findall(r"(?<![\w\"~$])[a-z_]{6,}(?=\{)", expression))
            assert names, expression
            for name in names - {"process_resident_memory_bytes"}:
                metric = kinds[name.removesuffix("_bucket")]
                labels = {*metric.labels, "instance", "job", "le", "quantile"}
                assert set(re.findall(r"(\w+)(?:=~|!=|=)\"", expression)) <= labels
                assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
                is_rate = re.search(rf"(rate|increase)\({name}\b", expression) is not None
                assert is_rate == (metric.kind in (Kind.COUNTER, Kind.HISTOGRAM)), expression


def test_panels_fill_the_grid_without_overlap() -> None:
    """The grid has 24 columns."""
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not taken & cells
        assert all(x < 24 for x, _ in cells)
        taken |= cells


def test_panels_query_existing_quantiles() -> None:
    """With the label values of our summaries."""
    given = dict(quantiles([1.0]))
    for panel in panels():
        for target in panel["targets"]:
            for asked in re.findall(r'quantile=~?"([^"]+)"', target["expr"]):
                assert set(asked.split("|")) <= given.keys()
