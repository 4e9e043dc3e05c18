"""Write the report: results of Spark SQL on the lake and the table of pages, as an HTML page with charts.

python report.py LAKE OUTPUT.html
"""

from __future__ import annotations

import argparse
import sys
from html import escape
from pathlib import Path

from charts import COLOURS, ranked, stacked
from pyspark.sql import Row, SparkSession

from pybroker.pipeline.session import open_session
from pybroker.pipeline.spec import load

HERE = Path(__file__).resolve().parent

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Access log</title>
<style>body {{ font: 15px/1.5 sans-serif; max-width: 800px; margin: 2em auto; color: #222 }} h2 {{ margin-top: 2em }}
b {{ font-size: 1.4em }} table {{ border-collapse: collapse }} td, th {{ padding: 2px 14px 2px 0; text-align: right }}
td:first-child, th:first-child {{ text-align: left }}</style></head><body>
<h1>Access log</h1>
<p><b>{requests:,}</b> requests from {first} to {last} UTC, <b>{errors:.1%}</b> of them errors,
<b>{megabytes:,.1f}</b> MB sent.</p>
<h2>Requests a minute, by status</h2>{per_minute}
<h2>Pages</h2>{pages}
<h2>Errors by page</h2>{errors_by_page}
<h2>Programs</h2>{agents}
</body></html>
"""

_CLASSES = ("2xx", "3xx", "4xx", "5xx")


def page(spark: SparkSession, lake: str) -> str:
    """Return the report as HTML."""
    spark.read.parquet(f"{lake}/requests").createOrReplaceTempView("requests")
    table = spark.read.format("jdbc").options(url=f"jdbc:derby:{lake}/tables", dbtable="pages").load()
    table.createOrReplaceTempView("pages")
    whole = spark.sql(
        "SELECT count(*) AS requests, coalesce(sum(bytes), 0) AS bytes,"
        " coalesce(mean(int(status >= 400)), 0) AS errors,"
        " date_format(min(time), 'yyyy-MM-dd HH:mm:ss') AS first, date_format(max(time), 'yyyy-MM-dd HH:mm:ss') AS last"
        " FROM requests"
    ).first()
    assert whole is not None
    failing = [(row.page, row.errors) for row in _pages(spark, "errors") if row.errors]
    return _PAGE.format(
        requests=whole.requests,
        errors=whole.errors,
        megabytes=whole.bytes / 1e6,
        first=whole.first,
        last=whole.last,
        per_minute=_per_minute(spark),
        pages=ranked("Requests by page", [(row.page, row.requests) for row in _pages(spark, "requests")]),
        errors_by_page=ranked("Errors by page", failing, COLOURS[3]),
        agents=_agents(spark),
    )


def _per_minute(spark: SparkSession) -> str:
    counts = ", ".join(f"count_if(status DIV 100 = {name[0]}) AS `{name}`" for name in _CLASSES)
    rows = spark.sql(
        f"SELECT date_format(time, 'HH:mm') AS minute, {counts} FROM requests GROUP BY minute ORDER BY minute"
    ).collect()
    return stacked(
        "Requests a minute", [row.minute for row in rows], {name: [row[name] for row in rows] for name in _CLASSES}
    )


def _pages(spark: SparkSession, by: str) -> list[Row]:
    return spark.sql(
        f"SELECT page, requests, errors FROM pages WHERE page IS NOT NULL ORDER BY {by} DESC LIMIT 10"
    ).collect()


def _agents(spark: SparkSession) -> str:
    rows = spark.sql(
        "SELECT split(user_agent, '[ (]')[0] AS program, count(*) AS requests FROM requests"
        " GROUP BY program ORDER BY requests DESC LIMIT 8"
    ).collect()
    cells = "".join(f"<tr><td>{escape(row.program or '-')}</td><td>{row.requests:,}</td></tr>" for row in rows)
    return f"<table><tr><th>program</th><th>requests</th></tr>{cells}</table>"


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a report of the lake.")
    parser.add_argument("lake")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    spark = open_session(load(HERE / "pipeline.yaml", {"LAKE": options.lake}))
    options.output.write_text(page(spark, options.lake), encoding="utf-8")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
