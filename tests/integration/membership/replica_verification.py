"""Both tools that read from all replicas: Apache Kafka's, and `pybroker verify-replicas`."""

from __future__ import annotations

import subprocess
import sys

from tests.support.java import QUICK, java_command, kafka_classpath

#: of a tool, one each half second
_MOST_REPORTS = 120
_DIFFERENT = ("checksum", "doesn't match")


def differences_by_kafka(bootstrap: str) -> list[str]:
    """Return the differences that Apache Kafka's tool reports until no replica lags."""
    arguments = ["--broker-list", bootstrap, "--report-interval-ms", "500", "--time", "-2"]
    main = "org.apache.kafka.tools.ReplicaVerificationTool"
    command = java_command(main, arguments, [kafka_classpath()], options=(*QUICK, "-Xmx256m"))
    tool = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert tool.stdout is not None
        lines: list[str] = []
        reports = 0
        while not lines or "max lag is 0" not in lines[-1]:
            line = tool.stdout.readline()
            if not line and any("doesn't match" in each for each in lines):
                break  # it ends at such a difference
            assert line, lines
            lines.append(line)
            reports += "max lag is" in line
            assert reports < _MOST_REPORTS, line
        return differences_in(lines)
    finally:
        tool.kill()
        tool.wait()


def differences_by_us(bootstrap: str) -> list[str]:
    """Return the differences that our command reports."""
    words = ["verify-replicas", "--bootstrap-server", bootstrap, "--timeout", "60"]
    done = subprocess.run([sys.executable, "-m", "pybroker", *words], capture_output=True, text=True)
    found = differences_in(done.stdout.splitlines())
    assert done.returncode == bool(found), done.stdout + done.stderr
    return found


def differences_in(lines: list[str]) -> list[str]:
    """Return the lines that report a difference, without their times."""
    return sorted(line.strip().partition(": ")[2] for line in lines if any(each in line for each in _DIFFERENT))
