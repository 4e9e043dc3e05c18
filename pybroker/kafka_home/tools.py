"""Run Apache Kafka's scripts with pybroker: `python -I -m pybroker.kafka_home.tools TOOL ARGUMENT...`.

The broker and the tools on its files run in a new process in this one's place; tools that talk to a broker run here.
Exit codes are those of Kafka's tools: 1 for errors, and for a tool or an option that pybroker does not have. The tools
of groups end with 0 after most errors of the broker, as Kafka's do.
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
from pybroker.kafka_home.common_options import VERSION_LINE, BadCommandLine, CannotTranslate
from pybroker.kafka_home.translate import TRANSLATIONS

#: Exit codes of pybroker's commands.
_FAILED, _WRONG_COMMAND_LINE = 1, 2

_STORAGE = {
    "format": "tools.data.format",
    "info": "tools.data.storage_info",
    "random-uuid": "tools.random_uuid",
}

#: Main classes for kafka-run-class, and their scripts.
_CLASSES = {
    "kafka.Kafka": "kafka-server-start",
    "kafka.admin.AclCommand": "kafka-acls",
    "kafka.admin.ConfigCommand": "kafka-configs",
    "kafka.admin.ConsumerGroupCommand": "kafka-consumer-groups",
    "kafka.admin.TopicCommand": "kafka-topics",
    "kafka.tools.ConsoleConsumer": "kafka-console-consumer",
    "kafka.tools.ConsoleProducer": "kafka-console-producer",
    "kafka.tools.DumpLogSegments": "kafka-dump-log",
    "kafka.tools.StorageTool": "kafka-storage",
    "org.apache.kafka.tools.AclCommand": "kafka-acls",
    "org.apache.kafka.tools.BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "org.apache.kafka.tools.ClientMetricsCommand": "kafka-client-metrics",
    "org.apache.kafka.tools.ClusterTool": "kafka-cluster",
    "org.apache.kafka.tools.ConfigCommand": "kafka-configs",
    "org.apache.kafka.tools.ConsoleProducer": "kafka-console-producer",
    "org.apache.kafka.tools.ConsumerPerformance": "kafka-consumer-perf-test",
    "org.apache.kafka.tools.LeaderElectionCommand": "kafka-leader-election",
    "org.apache.kafka.tools.MetadataQuorumCommand": "kafka-metadata-quorum",
    "org.apache.kafka.tools.ProducerPerformance": "kafka-producer-perf-test",
    "org.apache.kafka.tools.ReplicaVerificationTool": "kafka-replica-verification",
    "org.apache.kafka.tools.TopicCommand": "kafka-topics",
    "org.apache.kafka.tools.consumer.ConsoleConsumer": "kafka-console-consumer",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": "kafka-consumer-groups",
    "org.apache.kafka.tools.consumer.group.ShareGroupCommand": "kafka-share-groups",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand": "kafka-reassign-partitions",
    "org.apache.kafka.tools.streams.StreamsGroupCommand": "kafka-streams-groups",
}


TOOLS = (
    *TRANSLATIONS,
    "kafka-dump-log",
    "kafka-run-class",
    "kafka-server-start",
    "kafka-storage",
    "zookeeper-server-start",
)
"""The names of all scripts, without .sh."""


def server_command(arguments: Sequence[str]) -> list[str]:
    """Return the module and arguments of a broker, for the arguments of kafka-server-start."""
    rest = [each for each in arguments if each not in ("-daemon", "-loggc")]
    return ["broker.main", "--kafka-exit-codes", *rest]


def storage_command(arguments: Sequence[str]) -> list[str]:
    """Return the module and arguments for those of kafka-storage. Raises CannotTranslate."""
    action = next((each for each in arguments if each in _STORAGE), None)
    if action is None:
        raise CannotTranslate(f"the actions are {', '.join(_STORAGE)}")
    rest = list(arguments)
    rest.remove(action)
    # -N: this node will join other controllers. Here every node is its own controller
    return [_STORAGE[action], *(each for each in rest if each not in ("-N", "--no-initial-controllers"))]


def run(tool: str, arguments: Sequence[str]) -> int:
    """Run a tool in this process, and return its exit code; or replace this process by the tool."""
    try:
        return _run(tool.removesuffix(".sh"), arguments)
    except BadCommandLine as error:
        print(f"{tool}: {error}", file=sys.stderr)
        return 1
    except CannotTranslate as error:
        print(f"{tool}: not supported by pybroker: {error}", file=sys.stderr)
        return 1


def _run(tool: str, arguments: Sequence[str]) -> int:
    if tool == "kafka-run-class":
        words = [each for each in arguments if not each.startswith("-")]
        name = next((each for each in words if each in _CLASSES), words[0] if words else "")
        if name not in _CLASSES:
            raise CannotTranslate(f"{name or 'no class'} is not known; the classes are {', '.join(_CLASSES)}")
        place = list(arguments).index(name)
        is_daemon = name == "kafka.Kafka" and "-daemon" in arguments[:place]
        return _run(_CLASSES[name], [*(["-daemon"] if is_daemon else []), *arguments[place + 1 :]])
    if tool in ("kafka-server-start", "kafka-dump-log") and "--version" in arguments:
        print(VERSION_LINE)
        return 0
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
    try:
        for command in TRANSLATIONS[tool](arguments):
            if command.question and not _is_confirmed(command.question):
                return 0
            if command.stdin is not None:
                sys.stdin = io.StringIO(command.stdin)
            module = import_module(COMMANDS[command.name].module)
            if command.wrong_line_errors:
                from pybroker.cli.client.command import run as run_client

                exit_code = run_client(module.command_line(), command.arguments, command.wrong_line_errors)
            else:
                exit_code = module.main(command.arguments)
            if exit_code == _FAILED:
                return command.failure
            if exit_code != 0:
                return 1 if exit_code == _WRONG_COMMAND_LINE else exit_code
    except SystemExit as ended:  # of a parser
        return 1 if ended.code == _WRONG_COMMAND_LINE else int(ended.code or 0)
    return 0


def _is_confirmed(question: str) -> bool:
    """Ask the user, on the terminal or by standard input. Raises CannotTranslate if nobody can answer."""
    print(question, end=" ", flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise BadCommandLine("nobody can answer the question: add --force")
    return answer.strip().lower() == "y"


def _start(arguments: Sequence[str]) -> NoReturn:
    """Become the broker. As Kafka does, it logs to standard output, and with -daemon to a file in $LOG_DIR."""
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
        # keep standard error open: programs that wait for lines of both streams would deadlock at its end
        os.set_inheritable(os.dup(2), True)
    os.dup2(1, 2)
    become(server_command(arguments))


def become(words: Sequence[str]) -> NoReturn:
    """Replace this process by one that runs a module of the engine."""
    sys.stdout.flush()
    os.execv(sys.executable, engine_process.command(words[0], words[1:]))


if __name__ == "__main__":
    open_closed()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    end(partial(run, sys.argv[1], sys.argv[2:]))
