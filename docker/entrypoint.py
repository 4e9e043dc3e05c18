"""The image's entry point: makes server.properties of what the container was given, and becomes the broker.

    entrypoint.py run [OPTION ...]    the broker; options are its own (--override KEY=VALUE)
    entrypoint.py health              ask the broker of this container; exit code 0 if it answers
    entrypoint.py COMMAND ...         anything else is run as it is

Configuration comes as in Apache Kafka's image: /mnt/shared/config/server.properties, then the environment's KAFKA_*
variables (dots as _, underscores as __, dashes as ___), which win; the image's own file where there is neither.
CLUSTER_ID is the id of a new cluster. PYBROKER_* variables are the broker's own business, and win over all of these.

Where no log directory is named it is /var/lib/kafka/data, but for a volume at the places where Apache Kafka's image
would have written.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

# Of Apache Kafka's scripts and its JVM: no properties of a broker
NOT_PROPERTIES = {
    *("KAFKA_VERSION", "KAFKA_HEAP_OPT", "KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_GC_LOG_OPTS"),
    *("KAFKA_JMX_HOSTNAME", "KAFKA_JMX_OPTS", "KAFKA_JMX_PORT", "KAFKA_JVM_PERFORMANCE_OPTS"),
    *("KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_TOOLS_LOG4J_LOGLEVEL"),
}

# What Kubernetes tells every pod of a service that is named kafka
SERVICE_LINK = re.compile(r"KAFKA_(SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_\d+_\w+)")

LOG_LEVELS = {"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warning", "ERROR": "error", "FATAL": "error"}

DATA = "/var/lib/kafka/data"
KAFKA_DATA = ("/tmp/kraft-combined-logs", "/tmp/kafka-logs")

# ApiVersions v0, correlation id 0, no client id
ARE_YOU_UP = bytes.fromhex("0000000a00120000000000000000")


def properties_from(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the KAFKA_* variables and CLUSTER_ID say, as properties."""
    properties = {}
    for name, value in sorted(environ.items()):
        if name.startswith("KAFKA_") and name not in NOT_PROPERTIES and not SERVICE_LINK.fullmatch(name):
            key = name.removeprefix("KAFKA_").lower().replace("_", ".").replace("...", "-").replace("..", "_")
            properties[key] = value
    if environ.get("CLUSTER_ID"):
        properties["pybroker.cluster.id"] = environ["CLUSTER_ID"]
    return properties


def configuration(environ: Mapping[str, str], mounted: Path, default: Path) -> str:
    """Return the text of server.properties."""
    given = properties_from(environ)
    if mounted.is_file():
        text = mounted.read_text(encoding="utf-8")
    elif given.keys() <= {"pybroker.cluster.id"}:
        text = default.read_text(encoding="utf-8")
    else:
        text = ""
    text += "\n" + "".join(f"{key}={value}\n" for key, value in given.items())
    if not re.search(r"^\s*log\.dirs?\s*[=: ]", text, re.MULTILINE):
        text += f"log.dirs={next(filter(os.path.ismount, KAFKA_DATA), DATA)}\n"
    return text


def broker_command(environ: Mapping[str, str], config: Path, options: list[str]) -> list[str]:
    """Return the command that the process becomes."""
    level = LOG_LEVELS.get(environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").upper())
    return ["pybroker", str(config), *([f"--log-level={level}"] if level else []), *options]


def first_port(config: str) -> int:
    """Return the port of the first listener that is the broker's."""
    found = re.findall(r"^\s*listeners\s*[=: ]\s*(.*)$", config, re.MULTILINE)
    controllers = re.findall(r"^\s*controller\.listener\.names\s*[=: ]\s*(.*)$", config, re.MULTILINE)
    names = set(controllers[-1].replace(" ", "").split(",")) if controllers else set()
    for listener in (found[-1] if found else "PLAINTEXT://:9092").split(","):
        name, _, address = listener.strip().partition("://")
        if name not in names:
            return int(address.rpartition(":")[2])
    raise SystemExit("no listener of the broker's in " + config)


def is_healthy(port: int) -> bool:
    """Tell whether a broker on this machine answers ApiVersions."""
    try:
        with socket.create_connection(("localhost", port), timeout=4) as connection:
            connection.sendall(ARE_YOU_UP)
            answer = connection.makefile("rb").read(10)
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (0, 0)


def main() -> None:
    directory = Path(os.environ.get("ENTRYPOINT_CONFIG_DIR", "/opt/pybroker/config"))
    config = directory / "server.properties"
    match sys.argv[1:]:
        case ["run", *options]:
            mounted = Path(os.environ.get("ENTRYPOINT_MOUNTED_DIR", "/mnt/shared/config")) / "server.properties"
            default = Path(os.environ.get("ENTRYPOINT_DEFAULT_CONFIG", "/etc/pybroker/server.properties"))
            config.touch(mode=0o600)  # there may be passwords in it
            config.write_text(configuration(os.environ, mounted, default), encoding="utf-8")
            command = broker_command(os.environ, config, options)
        case ["health"]:
            sys.exit(0 if is_healthy(first_port(config.read_text(encoding="utf-8"))) else 1)
        case [_, *_] as command:
            pass
        case _:
            sys.exit(__doc__)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
