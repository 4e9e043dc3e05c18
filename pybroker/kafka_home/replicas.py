"""Translate the tools of replicas: reassignment, elections, verification, and the metadata quorum."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.kafka_home.common_options import (
    BadCommandLine,
    CannotTranslate,
    Command,
    connection_words,
    tool_parser,
)

_MOVES = ("generate", "execute", "verify", "cancel", "list")
_LATEST, _EARLIEST = -1, -2
_QUORUM = ("describe", "add-controller", "remove-controller")


def reassign_partitions(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker reassign`. Here --broker-list names the brokers to use, not those to connect to."""
    parser = tool_parser("kafka-reassign-partitions", older_names=())
    for action in _MOVES:
        parser.add_argument(f"--{action}", action="append_const", const=action, dest="actions", default=[])
    parser.add_argument("--replica-alter-log-dirs-throttle", type=int, default=-1)
    parser.add_argument("--throttle", type=int, default=-1)
    parser.add_argument("--disallow-replication-factor-change", action="store_true")
    parser.add_argument("--timeout", type=int)
    options, rest = parser.parse_known_args(arguments)
    if len(options.actions) != 1:
        raise BadCommandLine(f"Command must include exactly one action: --{', --'.join(_MOVES)}")
    words = [] if options.throttle < 0 else ["--throttle", str(options.throttle)]
    if options.replica_alter_log_dirs_throttle >= 0:
        words += ["--replica-alter-log-dirs-throttle", str(options.replica_alter_log_dirs_throttle)]
    if options.disallow_replication_factor_change:
        words.append("--disallow-replication-factor-change")
    if options.timeout is not None:
        if options.actions != ["execute"]:
            raise BadCommandLine(f'Option "[timeout]" can\'t be used with action "[{options.actions[0]}]"')
        words += ["--move-timeout", str(max(options.timeout, 1) / 1000)]
    return [Command("reassign", [*options.actions, *words, *rest, *connection_words(options)])]


def leader_election(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker elect-leaders`."""
    parser = tool_parser("kafka-leader-election")
    parser.add_argument("--admin.config", dest="config")  # the older name of --command-config
    parser.add_argument("--election-type")
    parser.add_argument("--topic")
    parser.add_argument("--partition")
    options, rest = parser.parse_known_args(arguments)
    if options.election_type is None:
        raise BadCommandLine("Missing required option(s): election-type")
    if (options.topic is None) != (options.partition is None):
        raise BadCommandLine("--topic and --partition belong together")
    words = ["--election-type", options.election_type]
    if options.topic is not None:
        words += ["--topic", options.topic, "--partition", options.partition]
    return [Command("elect-leaders", [*words, *rest, *connection_words(options)])]


def replica_verification(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker verify-replicas` that runs until it is interrupted, as the tool does."""
    parser = tool_parser("kafka-replica-verification")
    parser.add_argument("--time", type=int, default=_LATEST)
    options, rest = parser.parse_known_args(arguments)
    if options.bootstrap is None:
        raise BadCommandLine('Missing required argument "[broker-list]"')
    if options.time not in (_LATEST, _EARLIEST):
        raise CannotTranslate("--time: the initial offsets are the first (-2) or the last ones (-1)")
    words = ["--from-end"] if options.time == _LATEST else []
    return [Command("verify-replicas", ["--watch", *words, *rest, *connection_words(options)])]


def metadata_quorum(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker cluster quorum`. It only describes: pybroker's commands do not talk to controllers."""
    parser = tool_parser("kafka-metadata-quorum")
    parser.add_argument("action", choices=_QUORUM)
    parser.add_argument("--status", action="store_true")
    parser.add_argument("--replication", action="store_true")
    parser.add_argument("--human-readable", action="store_true")
    options, rest = parser.parse_known_args(arguments)
    connection = connection_words(options)
    if options.action != "describe":
        raise CannotTranslate(f"{options.action} needs a controller of Apache Kafka, and its tool")
    if rest:
        raise BadCommandLine(f"unrecognized arguments: {' '.join(rest)}")
    if options.status == options.replication:
        raise BadCommandLine("describe takes one of --status and --replication")
    if options.status and options.human_readable:
        raise BadCommandLine("The option --human-readable is only supported along with --replication")
    words = ["--replication"] if options.replication else []
    words += ["--human-readable"] if options.human_readable else []
    return [Command("cluster", ["quorum", *words, *connection])]
