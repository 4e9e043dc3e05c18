"""The page of all metrics, docs/generated/metrics.md, written from the table.

python -m broker.observability.metrics.docs            write it, from the project's root
python -m broker.observability.metrics.docs --check    exit code 1 if it is not current
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from broker.observability.metrics.metric_table import METRICS

METRICS_PAGE = Path("docs/generated/metrics.md")

_HEAD = """\
# Metrics

Written by `python -m broker.observability.metrics.docs` from the table in
`broker/observability/metrics/metric_table.py`; edit that.

`metrics.listeners=http://127.0.0.1:9404` serves these metrics at `/metrics` ([monitoring](../reference/monitoring.md)).
A metric of Apache Kafka has its MBean in the last column, and the name that Prometheus' JMX exporter gives it with
the rules of its example for Kafka. `kafka_consumergroup_*` have kafka_exporter's names. Counters begin at 0 with the
process. A sum over all topics has no label `topic`. prometheus-client adds `process_cpu_seconds_total`,
`process_resident_memory_bytes`, `process_open_fds` and similar ones.

| metric | type | labels | meaning | MBean |
|---|---|---|---|---|
"""


def metrics_page() -> str:
    """Return the text of docs/generated/metrics.md."""
    lines = [_HEAD]
    for each in METRICS:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        mbean = f"`{each.mbean}`" if each.mbean else ""
        lines.append(f"| `{each.name}` | {each.kind.value} | {labels} | {each.doc} | {mbean} |\n")
    return "".join(lines)


def main(argv: Sequence[str]) -> int:
    """Write the page, or compare it; return the exit code."""
    text = metrics_page()
    if METRICS_PAGE.exists() and METRICS_PAGE.read_text() == text:
        return 0
    if "--check" in argv:
        print(f"{METRICS_PAGE} is not current: run python -m broker.observability.metrics.docs", file=sys.stderr)
        return 1
    METRICS_PAGE.parent.mkdir(parents=True, exist_ok=True)
    METRICS_PAGE.write_text(text)
    print(f"wrote {METRICS_PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
