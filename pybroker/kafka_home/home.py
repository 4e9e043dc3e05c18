"""`pybroker kafka-home DIR`: create a directory with bin/kafka-*.sh and config/, as an Apache Kafka installation has.

The scripts run this installation of pybroker. Existing files of the same names are replaced, except in config/, where
a user may have edited them.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from pybroker.cli.parser import OneLineParser
from pybroker.kafka_home.tools import TOOLS

_README = """\
`pybroker kafka-home` made this directory. It has the layout of an Apache Kafka installation, for programs that start
a broker with Kafka's scripts. The scripts in bin/ run pybroker.
"""

_SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs=/tmp/kraft-combined-logs
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""

_FILES = {
    "config/server.properties": _SERVER,
    "config/kraft/server.properties": _SERVER,
    "config/zookeeper.properties": "dataDir=/tmp/zookeeper\nclientPort=2181\n",
    "config/log4j2.yaml": "# pybroker logs as --log-level says\n",
}


def command_line() -> OneLineParser:
    """Return the parser of the command line."""
    parser = OneLineParser(
        prog="pybroker kafka-home", description="Make a directory that looks like an installation of Apache Kafka."
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory; created if it is missing")
    parser.add_argument(
        "--commands", type=Path, metavar="DIR", help="also create kafka-topics and so on there, without .sh"
    )
    return parser


def script(tool: str) -> str:
    """Return the shell script that runs a tool."""
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m pybroker.kafka_home.tools {tool} "$@"\n'


def make_home(directory: Path, commands: Path | None = None) -> None:
    """Write the scripts and files. Raises OSError."""
    for name, text in {"README.md": _README, **_FILES}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(text)
    (directory / "bin").mkdir(exist_ok=True)
    for tool in TOOLS:
        _write_script(directory / "bin" / f"{tool}.sh", tool)
        if commands is not None:
            commands.mkdir(parents=True, exist_ok=True)
            _write_script(commands / tool, tool)


def _write_script(path: Path, tool: str) -> None:
    path.write_text(script(tool))
    path.chmod(0o755)


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    options = command_line().parse_args(arguments)
    try:
        make_home(options.directory, options.commands)
    except OSError as error:
        print(f"pybroker kafka-home: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
