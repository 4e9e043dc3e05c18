"""The table of all commands: a command is added here, and in the module that it names.

From it come the usage of `pybroker`, the dispatch, the completion of shells, the manual page and the site's pages. A
module has `command_line()`, which returns its parser, and `main(arguments)`, which returns the exit code.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Where a command runs. `client`: in this process, as a client of a broker. `local`: in this process, without one.
#: `engine`: in a process of the engine (pybroker/engine_process.py), as it imports the engine's packages.
Kind = Literal["client", "local", "engine"]


class Command(NamedTuple):
    """A row of the table. `arguments` follows the name in the usage, `help` is one line."""

    group: str
    name: str
    module: str
    kind: Kind
    arguments: str
    help: str


# fmt: off
_GROUPS: dict[str, tuple[tuple[str, str, Kind, str, str], ...]] = {
    "Broker": (
        ("serve", "broker.main", "engine", "[CONFIG] [...]", "start a broker"),
        ("stop", "pybroker.cli.daemon", "local", "[...]", "stop a broker or a cluster started with --daemon"),
    ),
    "Records": (
        ("produce", "pybroker.cli.produce", "client", "TOPIC [FILE...]", "send lines to a topic"),
        ("consume", "pybroker.cli.consume", "client", "TOPIC [...]", "print the records of a topic"),
        ("archive", "pybroker.cli.archive", "client", "DIR --topics T,...", "copy topics into Parquet files"),
        ("restore", "pybroker.cli.restore", "client", "DIR TOPIC", "copy an archived topic into a topic"),
        ("mirror", "pybroker.cli.mirror", "client", "--source HOST:PORT", "copy topics and groups, and follow"),
        ("pipeline", "pybroker.pipeline.main", "local", "run|check|... FILE", "run a data pipeline on Spark"),
    ),
    "Cluster": (
        ("topics", "pybroker.cli.topics", "client", "ACTION", "list, create, alter and delete topics"),
        ("groups", "pybroker.cli.groups", "client", "ACTION", "show groups and lag, reset offsets"),
        ("configs", "pybroker.cli.configs", "client", "ACTION", "show and set configs"),
        ("cluster", "pybroker.cli.cluster", "client", "ACTION", "show brokers, quorum and features; hand over"),
        ("reassign", "pybroker.cli.reassign", "client", "ACTION", "move replicas to other brokers"),
        ("elect-leaders", "pybroker.cli.elect_leaders", "client", "[...]", "let preferred replicas lead"),
        ("verify-replicas", "pybroker.cli.verify_replicas", "client", "[...]", "compare the replicas of partitions"),
        ("acls", "pybroker.cli.acls", "client", "ACTION", "list, add and remove ACLs"),
        ("users", "pybroker.cli.users", "client", "ACTION", "list, create and delete SCRAM users"),
        ("quotas", "pybroker.cli.quotas", "client", "ACTION", "list, set and delete quotas"),
        ("client-metrics", "pybroker.cli.client_metrics", "client", "ACTION", "choose the metrics that clients push"),
        ("transactions", "pybroker.cli.transactions", "client", "ACTION", "show and abort transactions"),
        ("perf", "pybroker.cli.perf", "client", "ACTION", "measure throughput and latency"),
        ("top", "pybroker.cli.top", "client", "[...]", "watch throughput, topics and lag"),
    ),
    "Configuration and files": (
        ("config", "tools.config", "engine", "print|explain|validate", "show what a configuration means"),
        ("format", "tools.data.format", "engine", "-c CONFIG", "format log directories"),
        ("dump-log", "tools.data.dump_log", "engine", "--files FILE,...", "print files of a log directory"),
        ("verify", "tools.data.verify", "engine", "DIR...", "check and repair log directories"),
        ("doctor", "tools.doctor", "engine", "[CONFIG]", "check that this machine is ready for a broker"),
        ("random-uuid", "tools.random_uuid", "engine", "", "print a new cluster id"),
    ),
    "Wire protocol": (
        ("explain", "tools.wire.explain", "engine", "SUBJECT", "show requests to a broker, with bytes"),
        ("record", "tools.wire.record", "engine", "--listen HOST:PORT", "record what clients send"),
        ("replay", "tools.wire.replay", "engine", "FILE", "replay a recording, and compare responses"),
        ("conformance", "tools.wire.conformance.command", "engine", "[...]", "test every API of a broker"),
    ),
    "Others": (
        ("kafka-home", "pybroker.kafka_home.home", "local", "DIR", "make bin/kafka-*.sh that run pybroker"),
        ("completion", "tools.completion", "engine", "bash|zsh|fish", "print a completion script"),
        ("man", "tools.man_page", "engine", "", "print the manual page"),
    ),
}
# fmt: on

#: All commands by name, in the order of the usage.
COMMANDS = {row[0]: Command(group, *row) for group, rows in _GROUPS.items() for row in rows}

#: Names that other programs use for one of our commands.
SYNONYMS = {"broker": "serve", "run": "serve", "server": "serve", "start": "serve"}

_HEAD = """\
usage: pybroker CONFIG [--override KEY=VALUE ...] [--strict] [--log-level LEVEL] [--log-format text|json]
       pybroker serve [CONFIG] [--ephemeral] [--print-json] [--until-stdin-ends] [--control] [...]
       pybroker serve --brokers COUNT [--racks RACK,...] [--directory DIR] [--control] [...]
       pybroker serve [CONFIG | --brokers COUNT] --daemon [--pid-file FILE] [--log-file FILE] [...]
       pybroker COMMAND [...]

CONFIG is a server.properties file. `pybroker help COMMAND` shows the options of a command.
"""
_TAIL = """
  pybroker --help-broker                       show the options of the broker
  pybroker --version
"""
_HELP_COLUMN = 47


def usage() -> str:
    """Return the text of `pybroker --help`: the commands by group."""
    lines = [_HEAD.rstrip()]
    group = ""
    for row in COMMANDS.values():
        if row.group != group:
            group = row.group
            lines.append(f"\n{group}:")
        lines.append(f"{f'  pybroker {row.name} {row.arguments}':<{_HELP_COLUMN - 1}} {row.help}")
    return "\n".join(lines) + "\n" + _TAIL


def modules(kind: Kind | None = None) -> dict[str, str]:
    """Return the module of each command with a parser, by name: of one kind, or of all. The broker has no parser."""
    return {row.name: row.module for row in COMMANDS.values() if row.name != "serve" and kind in (None, row.kind)}
