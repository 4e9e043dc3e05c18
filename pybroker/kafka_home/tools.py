"""Apache Kafka's scripts, run by pybroker: `python -I -m pybroker.kafka_home.tools TOOL ARGUMENT...`.

The broker, and tools on its files, are processes of their own, which this one becomes; tools that talk to a broker run
here. Exit codes are those of what is run; 1 for what is not here.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import NoReturn

from pybroker import engine_process
from pybroker.cli.commands import COMMANDS
from pybroker.cli.exit_codes import end
from pybroker.cli.standard_streams import open_closed
from pybroker.kafka_home.common_options import CannotTranslate
from pybroker.kafka_home.translate import TRANSLATIONS

_STORAGE = {
    "format": "tools.data.format",
    "info": "tools.data.storage_info",
    "random-uuid": "tools.random_uuid",
}

#: Main classes that programs name by kafka-run-class.
_CLASSES = {
    "kafka.Kafka": "kafka-server-start",
    "kafka.admin.AclCommand": "kafka-acls",
    "kafka.admin.ConfigCommand": "kafka-configs",
    "kafka.admin.TopicCommand": "kafka-topics",
    "kafka.tools.DumpLogSegments": "kafka-dump-log",
    "kafka.tools.StorageTool": "kafka-storage",
    "org.apache.kafka.tools.AclCommand": "kafka-acls",
    "org.apache.kafka.tools.TopicCommand": "kafka-topics",
    "org.apache.kafka.tools.consumer.ConsoleConsumer": "kafka-console-consumer",
}


TOOLS = (
    *TRANSLATIONS,
    "kafka-dump-log",
    "kafka-run-class",
    "kafka-server-start",
    "kafka-storage",
    "zookeeper-server-start",
)
"""All scripts that there are, without .sh."""


def server_command(arguments: Sequence[str]) -> list[str]:
    """The module and arguments of a broker that is started as Apache Kafka's."""
    return ["broker.main", *(each for each in arguments if each not in ("-daemon", "-loggc"))]


def storage_command(arguments: Sequence[str]) -> list[str]:
    """The module and arguments of kafka-storage. Raises CannotTranslate."""
    action = next((each for each in arguments if each in _STORAGE), None)
    if action is None:
        raise CannotTranslate(f"there are {', '.join(_STORAGE)}")
    rest = list(arguments)
    rest.remove(action)
    # A node that is to join others; here it has no others, and is its own controller
    return [_STORAGE[action], *(each for each in rest if each not in ("-N", "--no-initial-controllers"))]


def run(tool: str, arguments: Sequence[str]) -> int:
    """Run a tool in this process, or become it; the exit code."""
    try:
        return _run(tool.removesuffix(".sh"), arguments)
    except CannotTranslate as error:
        print(f"{tool}: pybroker has not all of it: {error}", file=sys.stderr)
        return 1


def _run(tool: str, arguments: Sequence[str]) -> int:
    if tool == "kafka-run-class":
        words = [each for each in arguments if not each.startswith("-")]
        name = next((each for each in words if each in _CLASSES), words[0] if words else "")
        if name not in _CLASSES:
            raise CannotTranslate(f"{name or 'no class'} is not known: there are {', '.join(_CLASSES)}")
        place = list(arguments).index(name)
        is_daemon = name == "kafka.Kafka" and "-daemon" in arguments[:place]
        return _run(_CLASSES[name], [*(["-daemon"] if is_daemon else []), *arguments[place + 1 :]])
    if tool == "kafka-server-start":
        _start(arguments)
    if tool == "kafka-storage":
        become(storage_command(arguments))
    if tool == "kafka-dump-log":
        become(["tools.data.dump_log", *arguments])
    if tool == "zookeeper-server-start":
        from pybroker.kafka_home.no_zookeeper import serve

        return serve(arguments)
    if tool not in TRANSLATIONS:
        raise CannotTranslate(f"there are {', '.join(TOOLS)}")
    for command in TRANSLATIONS[tool](arguments):
        if command.stdin is not None:
            sys.stdin = io.StringIO(command.stdin)
        exit_code: int = import_module(COMMANDS[command.name].module).main(command.arguments)
        if exit_code != 0:
            return exit_code
    return 0


def _start(arguments: Sequence[str]) -> NoReturn:
    """Become the broker. Its log goes to standard output, where Kafka's goes; with -daemon into a file of $LOG_DIR."""
    if "-daemon" in arguments:
        directory = os.environ.get("LOG_DIR", "/tmp")
        try:
            os.makedirs(directory, exist_ok=True)
            log = os.open(os.path.join(directory, "kafkaServer.out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            sys.exit(f"kafka-server-start: {error.filename}: {error.strerror}")
        if os.fork():
            sys.exit(0)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
    else:
        # Who reads standard error is not told of its end: programs that wait for lines of both would wait in circles
        os.set_inheritable(os.dup(2), True)
    os.dup2(1, 2)
    become(server_command(arguments))


def become(words: Sequence[str]) -> NoReturn:
    """Run a module in this process's place."""
    sys.stdout.flush()
    os.execv(sys.executable, engine_process.command(words[0], words[1:]))


if __name__ == "__main__":
    open_closed()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    end(partial(run, sys.argv[1], sys.argv[2:]))
