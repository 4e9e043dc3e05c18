"""The command `pybroker`: starts the broker, or one of the commands that stand around it.

The broker, and each command on its files, is a process of its own in Python's isolated mode, in this process's place:
their rooms have names (`storage`, `protocol`) that a folder one happens to stand in may have too. The broker does
without a second start of the interpreter where this process can be isolated as it is (isolation.py).
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import NoReturn

from pybroker.cli.exit_codes import end
from pybroker.cli.standard_streams import open_closed

USAGE = """usage: pybroker CONFIG [--override KEY=VALUE ...] [--strict] [--log-level LEVEL] [--log-format text|json]
                                                           start the broker with a server.properties
       pybroker serve [CONFIG] [--ephemeral] [--print-json] [--until-stdin-ends] [--control] [...]
                                                           the same, and brokers that leave nothing behind, for tests
       pybroker serve [CONFIG] --daemon [--pid-file FILE] [--log-file FILE] [...]
                                                           the same in the background
       pybroker stop [--pid-file FILE] [--timeout SECONDS] end that
       pybroker --help-broker                              what the options of the broker do
       pybroker pipeline run|check|...|package FILE        a data pipeline on Spark
       pybroker produce TOPIC [--follow] [FILE...]         send lines of files, or of standard input, into a topic
       pybroker archive DIR --topics T,... [...]           topics into Parquet files, each record once
       pybroker restore DIR TOPIC [...]                    an archived topic into a topic, each record once
       pybroker topics list|describe|create|alter|delete [...]
       pybroker consume TOPIC [--from-beginning] [...]     print records of a topic
       pybroker groups list|describe|reset-offsets|delete|delete-offsets [...]
       pybroker configs describe|alter [...]               settings of topics and brokers
       pybroker cluster describe|id   [...]                brokers of a cluster, its id
       pybroker acls list|add|remove [...]                 who may do what
       pybroker users list|create|delete [...]             users with passwords (SCRAM)
       pybroker quotas list|set|delete [...]               how much users, clients and addresses may take
       pybroker client-metrics list|describe|alter|delete|clients [...]
                                                           which of their metrics clients push, and who has
       pybroker transactions list|describe|find-hanging|abort [...]
       pybroker mirror --source HOST:PORT [...]            copy topics and groups, offsets included, and follow
       pybroker perf produce|consume|end-to-end [...]      how quick a cluster is
       pybroker top [--once] [...]                         throughput, topics and lag as they change
       pybroker conformance [--bootstrap-server X] [...]   each API in each version: does a broker answer as it should
       pybroker dump-log --files FILE,... [...]            print what is in files of a log directory
       pybroker format -c CONFIG [-t CLUSTER_ID] [...]     make log directories ready (else done at the first start)
       pybroker verify DIR... [--deep] [--repair] [...]    check (and repair) the log directories of a stopped broker
       pybroker config print|explain|validate [...]        what a configuration comes to, and what keys mean
       pybroker kafka-home DIR                             bin/kafka-*.sh that run pybroker, for test suites
       pybroker doctor [CONFIG] [--json]                   is this machine ready for a broker, and what is to be done
       pybroker explain produce|fetch|rebalance|transaction  real requests through a broker, step by step, with bytes
       pybroker record --listen HOST:PORT [-o FILE] [...]  keep what clients and a cluster say to each other
       pybroker replay FILE [--bootstrap-server X] [...]   play that against another broker: what it answers otherwise
       pybroker completion bash|zsh|fish                   what completes command lines in a shell
       pybroker man                                        the manual page
       pybroker random-uuid                                print an id for a cluster
       pybroker help COMMAND                               the options of a command
       pybroker --version
"""


#: Commands on the files of a broker that is not running (or that are only read), or on what goes over the wire, and the
#: modules that do them.
OFFLINE = {
    "completion": "tools.completion",
    "conformance": "tools.wire.conformance.command",
    "config": "tools.config",
    "doctor": "tools.doctor",
    "dump-log": "tools.data.dump_log",
    "explain": "tools.wire.explain",
    "format": "tools.data.format",
    "man": "tools.man_page",
    "random-uuid": "tools.random_uuid",
    "record": "tools.wire.record",
    "replay": "tools.wire.replay",
    "verify": "tools.data.verify",
}


#: Commands that talk to a broker, and the modules that do them.
CLIENTS = {
    "acls": "pybroker.cli.acls",
    "archive": "pybroker.cli.archive",
    "client-metrics": "pybroker.cli.client_metrics",
    "cluster": "pybroker.cli.cluster",
    "configs": "pybroker.cli.configs",
    "consume": "pybroker.cli.consume",
    "groups": "pybroker.cli.groups",
    "mirror": "pybroker.cli.mirror",
    "perf": "pybroker.cli.perf",
    "produce": "pybroker.cli.produce",
    "quotas": "pybroker.cli.quotas",
    "restore": "pybroker.cli.restore",
    "top": "pybroker.cli.top",
    "topics": "pybroker.cli.topics",
    "transactions": "pybroker.cli.transactions",
    "users": "pybroker.cli.users",
}


#: Commands about processes of this machine, which need neither.
PLAIN = {"stop": "pybroker.cli.daemon"}


#: Commands with a room of their own.
OTHERS = {"kafka-home": "pybroker.kafka_home.home", "pipeline": "pybroker.pipeline.main"}


#: What others call a command of ours.
OTHER_WORDS = {"broker": "serve", "run": "serve", "server": "serve", "start": "serve"}


def main() -> NoReturn:
    """Run the command line."""
    open_closed()
    match sys.argv[1:]:
        case [] | ["-h" | "--help" | "help"] | ["-h" | "--help", *_]:
            end(partial(_tell, USAGE, 0 if sys.argv[1:] else 2))
        case ["help", *words]:
            sys.argv[1:] = [*words, "--help"]
            main()
        case ["--version" | "-V" | "version"]:
            from importlib.metadata import version

            end(partial(_tell, f"pybroker {version('pybroker')}\n"))
        case ["--help-broker"]:
            _serve(["--help"])
        case ["serve", *arguments]:
            _serve(arguments)
        case [command, *arguments] if (module := {**CLIENTS, **PLAIN, **OTHERS}.get(command)) is not None:
            end(partial(_run, module, arguments))
        case [command, *arguments] if command in OFFLINE:
            _become(OFFLINE[command], arguments)
        case [word, *_] if _is_no_file(word):
            sys.stderr.write(f"pybroker: {word}: No such file or directory, and no command{_hint(word)}\n")
            sys.exit(2)
        case arguments:
            _serve(arguments)


def _run(module: str, arguments: list[str]) -> int:
    from importlib import import_module

    code: int = import_module(module).main(arguments)
    return code


def _tell(text: str, code: int = 0) -> int:
    sys.stdout.write(text)
    return code


def _is_no_file(word: str) -> bool:
    """Whether it looks like a command, or a name: with a dot or a slash it is a file, which the broker looks for."""
    return not word.startswith("-") and not {".", "/"} & set(word) and not os.path.exists(word)


def _hint(word: str) -> str:
    from difflib import get_close_matches

    commands = sorted([*OFFLINE, *CLIENTS, *PLAIN, *OTHERS, "serve"])
    near = [OTHER_WORDS[word]] if word in OTHER_WORDS else get_close_matches(word, commands, n=1)
    return f": did you mean {near[0]}?" if near else f": there are {', '.join(commands)}"


def _serve(arguments: list[str]) -> NoReturn:
    if "--daemon" in arguments and not {"-h", "--help"} & set(arguments):
        from pybroker.cli.daemon import start

        end(partial(start, arguments))
    from pybroker.cli.isolation import isolate

    if not isolate():
        _become("broker.main", arguments)
    from importlib import import_module

    from pybroker import engine_process

    engine_process.enter()
    sys.argv[1:] = arguments
    import_module("broker.main").run()  # by its name: this package imports no room into anybody else's process
    raise AssertionError("the process has ended")


def _become(module: str, arguments: list[str]) -> NoReturn:
    from pybroker import engine_process

    os.execv(sys.executable, engine_process.command(module, arguments))
