"""Class data archives, with which the JVMs of the tests start in less time: `python -m tests.support.class_data`.

A JVM loads and verifies thousands of classes before it does anything. An archive has the classes of one such start in
the form that the JVM uses. With it a Spark driver needs about a third less CPU time. A JVM ignores an archive whose
class path or Java is another.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pybroker.pipeline.java import find_java
from tests.support.brokers import KafkaBroker
from tests.support.java import QUICK
from tests.support.quick_java import ARCHIVES, HOME

# Batch and streaming queries, with the formats of most tests
_SPARK = """
import sys
from pyspark.sql import functions as f
from pybroker.pipeline.session import connector_jars, start_session
spark = start_session("class data", "local[2]", {"spark.jars": connector_jars()})
rows = spark.range(100).select(f.col("id"), f.lit(b"value").alias("value"), f.current_timestamp().alias("time"))
rows.write.parquet(f"{sys.argv[1]}/rows")
stream = spark.readStream.schema(rows.schema).parquet(f"{sys.argv[1]}/rows").withWatermark("time", "1 second")
counted = stream.groupBy(f.window("time", "1 minute"), "value").agg(f.count("*"), f.sum("id"))
where = {"path": f"{sys.argv[1]}/counted", "checkpointLocation": f"{sys.argv[1]}/state"}
counted.writeStream.options(**where).trigger(availableNow=True).start().awaitTermination()
spark.createDataFrame([('{"a": 1}',)], "text STRING").selectExpr("from_json(text, 'a INT')").collect()
jvm = spark.sparkContext._gateway.proc
spark.stop()
jvm.stdin.close()
jvm.wait()
"""


def main() -> int:
    """Write the archive of each kind, if Java, the jars and the kind of Java allow it: tests run without one, too."""
    HOME.mkdir(parents=True, exist_ok=True)
    for kind, start in (("spark", _start_spark), ("kafka", _start_kafka)):
        archive = HOME / ARCHIVES[kind]
        written = archive.with_name(f"{archive.name}-{os.getpid()}")
        with contextlib.suppress(Exception), java_that_archives(written):
            start()
        if written.exists():
            written.rename(archive)
    return 0


@contextlib.contextmanager
def java_that_archives(path: Path) -> Iterator[None]:
    """Set JAVA_HOME to a Java that writes the classes of Spark's driver, or of Apache Kafka, at its end to `path`."""
    java = find_java()
    before = os.environ.get("JAVA_HOME")
    with tempfile.TemporaryDirectory() as home:
        launcher = Path(home, "bin", "java")
        launcher.parent.mkdir()
        command = shlex.join([str(java.executable), *java.options, *QUICK])
        archiving = shlex.join([f"-XX:ArchiveClassesAtExit={path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"])
        launcher.write_text(
            "#!/bin/sh\n"
            'case "$*" in\n'
            "*spark.launcher.Main*) ;;\n"  # a JVM that composes the driver's command line
            f'*SparkSubmit*|*kafka.Kafka*) exec {command} {archiving} "$@" ;;\n'
            "esac\n"
            f'exec {command} "$@"\n'
        )
        launcher.chmod(0o755)
        os.environ["JAVA_HOME"] = home
        try:
            yield
        finally:
            if before is None:
                del os.environ["JAVA_HOME"]
            else:
                os.environ["JAVA_HOME"] = before


def _start_spark() -> None:
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, "-c", _SPARK, directory], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _start_kafka() -> None:
    with tempfile.TemporaryDirectory() as directory:
        KafkaBroker(Path(directory, "kafka")).stop()


if __name__ == "__main__":
    sys.exit(main())
