"""The page of all metrics, docs/generated/metrics.md, written from the table.

python -m broker.observability.metrics.docs            write it, from the project's root
python -m broker.observability.metrics.docs --check    exit code 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from broker.observability.metrics.metric import Kind
from broker.observability.metrics.metric_table import METRICS
from config.generated_pages import write_pages

METRICS_PAGE = Path("docs/generated/metrics.md")

_HEAD = """\
# Metrics

Written by `python -m broker.observability.metrics.docs` from the table in
`broker/observability/metrics/metric_table.py`; edit that.

`metrics.listeners=http://127.0.0.1:9404` serves these metrics at `/metrics` ([monitoring](../reference/monitoring.md)).
A metric of Apache Kafka has its MBean at the end, and the name that Prometheus' JMX exporter gives it with the rules
of its example for Kafka. `kafka_consumergroup_*` have kafka_exporter's names. Labels are in braces; a sum over all
topics has no label `topic`. Names of counters end in `_total`; they begin at 0 with the process. Others are gauges,
except where the line says summary or histogram. prometheus-client adds `process_cpu_seconds_total`,
`process_resident_memory_bytes`, `process_open_fds` and similar ones. **members**: only members of a cluster
have the metric. **controllers**: only the controller of a cluster has it, alone or in a process with a broker. A
controller alone has no other metrics but those of requests, of connections and of the cluster (`kafka_controller_*`).
**tiered**: only brokers with `remote.log.storage.system.enable=true` have the metric.

"""


def metrics_page() -> str:
    """Return the text of docs/generated/metrics.md."""
    lines = [_HEAD]
    for each in METRICS:
        labels = f"{{{','.join(each.labels)}}}" if each.labels else ""
        kind = f" ({each.kind.value})" if each.kind in (Kind.SUMMARY, Kind.HISTOGRAM) else ""
        mbean = f" `{each.mbean}`" if each.mbean else ""
        modes = ("members", each.of_members), ("controllers", each.of_controllers), ("tiered", each.of_tiers)
        mode = "".join(f" **{name}**" for name, applies in modes if applies)
        lines.append(f"- `{each.name}{labels}`{kind}: {each.doc}{mode}{mbean}\n")
    return "".join(lines)


def main(argv: Sequence[str]) -> int:
    """Write the page, or compare it; return the exit code."""
    return write_pages({METRICS_PAGE: metrics_page()}, "broker.observability.metrics.docs", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
