"""`pybroker topics`: list, describe, create, alter and delete topics."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import print_line, show
from pybroker.cli.option_values import key_value, natural, positive, regex
from pybroker.cli.reassign import moves
from pybroker.cli.terminal_escape import escape_controls

if TYPE_CHECKING:
    from confluent_kafka import TopicPartitionInfo, Uuid
    from confluent_kafka.admin import TopicDescription

    from pybroker.cli.client.session import Place, Session

_EXAMPLES = """\
examples:
  pybroker topics list
  pybroker topics create orders --partitions 3 --config retention.ms=86400000
  pybroker topics describe orders --json
  pybroker topics alter orders --partitions 6
  pybroker topics --bootstrap-server localhost:9092 --create --topic orders    (as with kafka-topics)"""

_FOR_URLS = str.maketrans("+/", "-_")

#: Options that show unhealthy partitions, with their test and a description.
_TROUBLED: dict[str, tuple[Callable[[TopicPartitionInfo], bool], str]] = {
    "--under-replicated-partitions": (lambda each: len(each.isr) < len(each.replicas), "those that lack replicas"),
    "--unavailable-partitions": (lambda each: each.leader is None, "those without a leader"),
}
_LACKING = "--under-replicated-partitions"
_UNDER, _AT = "--under-min-isr-partitions", "--at-min-isr-partitions"
_MIN_ISR = "min.insync.replicas"
_NOT_AUTHORIZED = 31  # CLUSTER_AUTHORIZATION_FAILED
#: Options that compare with min.insync.replicas.
_BELOW = {
    _UNDER: "those with fewer replicas in sync than min.insync.replicas",
    _AT: "those with exactly that many",
}


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker topics", "Topics of a cluster.", _EXAMPLES)
    names = parser.add_action("list", _list, "list the names of topics")
    _add_include(names)
    names.add_argument("--exclude-internal", action="store_true", help="without internal topics")
    described = parser.add_action("describe", _describe, "show partitions of topics, and their configs")
    _add_names(described)
    _add_include(described)
    described.add_argument("--topic-id", metavar="ID", help="the topic with this id")
    _add_if_exists(described)
    described.add_argument("--exclude-internal", action="store_true", help="without internal topics")
    chosen = described.add_mutually_exclusive_group()
    for option, (_, which) in _TROUBLED.items():
        chosen.add_argument(option, action="store_const", dest="troubled", const=option, help=f"only {which}")
    chosen.add_argument("--topics-with-overrides", action="store_true", help="only topics with their own configs")
    for option, which in _BELOW.items():
        chosen.add_argument(option, action="store_const", dest="troubled", const=option, help=f"only {which}")
    created = parser.add_action("create", _create, "make topics")
    _add_names(created)
    created.add_argument("--partitions", type=positive, help="(default: num.partitions of the broker)")
    created.add_argument("--replication-factor", type=positive, help="(default: the broker's)")
    created.add_argument(
        "--replica-assignment",
        type=_assignment,
        metavar="ID:ID,...",
        help="the brokers of each partition, instead of numbers of partitions and replicas",
    )
    created.add_argument("--config", type=key_value, action="append", default=[], metavar="KEY=VALUE")
    created.add_argument("--if-not-exists", action="store_true", help="do not fail for topics that exist")
    altered = parser.add_action("alter", _alter, "add partitions to topics")
    _add_names(altered)
    _add_include(altered)
    _add_if_exists(altered)
    altered.add_argument("--partitions", type=positive, required=True, help="the new number of partitions")
    deleted = parser.add_action("delete", _delete, "delete topics and their records")
    _add_names(deleted)
    _add_include(deleted)
    _add_if_exists(deleted)
    return parser


def _add_include(parser: ClientParser) -> None:
    parser.add_argument("--include", type=regex, metavar="REGEX", help="the topics whose full names match")


def _add_if_exists(parser: ClientParser) -> None:
    parser.add_argument("--if-exists", action="store_true", help="do not fail for topics that do not exist")


def _assignment(text: str) -> list[list[int]]:
    """Parse the broker ids of each partition: `1:2,2:3`."""
    try:
        return [[natural(word) for word in partition.split(":")] for partition in text.split(",")]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not ID:ID,... for each partition") from None


def _add_names(parser: ClientParser) -> None:
    parser.add_argument("names", nargs="*", metavar="TOPIC")
    parser.add_argument("--topic", action="append", default=[], metavar="TOPIC", help="the same; can be repeated")


def _names(options: argparse.Namespace) -> list[str]:
    names = list(dict.fromkeys([*options.names, *options.topic]))
    if not names or "" in names:
        raise UsageError("which topic?")
    return names


def _chosen(session: Session, options: argparse.Namespace) -> list[str]:
    """Return the names that the options give, and those that --include matches. Raises CommandError for no match."""
    if options.include is None:
        return _names(options)
    found = sorted(filter(options.include.fullmatch, session.admin.list_topics(timeout=session.timeout_s).topics))
    if not found and not options.if_exists:
        raise CommandError(f"no topic matches {options.include.pattern}")
    return list(dict.fromkeys([*(_names(options) if options.names or options.topic else ()), *found]))


def _list(session: Session, options: argparse.Namespace) -> None:
    found = describe_all(session)
    if options.include is not None:
        found = [each for each in found if options.include.fullmatch(each.name)]
    rows = [
        {"topic": each.name, "partitions": len(each.partitions), "internal": each.is_internal}
        for each in sorted(found, key=lambda each: each.name)
        if not (each.is_internal and options.exclude_internal)
    ]
    if options.json:
        show(rows, as_json=True)
    else:
        print("".join(f"{row['topic']}\n" for row in rows), end="")


def _describe(session: Session, options: argparse.Namespace) -> None:
    found = _described(session, options)
    if options.exclude_internal:
        found = [topic for topic in found if not topic.is_internal]
    own = _settings_of(session, [topic.name for topic in found])
    if options.topics_with_overrides:
        found = [topic for topic in found if own[topic.name]]
    least = _min_isr_of(session, found) if options.troubled in _BELOW else {}
    added = added_replicas(session, found) if options.troubled == _LACKING else {}
    shown = [
        (topic, select_partitions(partitions_without_added(topic, added), options.troubled, least.get(topic.name, 1)))
        for topic in sorted(found, key=_by_name)
    ]
    if options.troubled is not None:
        shown = [(topic, partitions) for topic, partitions in shown if partitions]
    places = [(topic.name, index) for topic, partitions in shown for index in with_leader(partitions)]
    starts = session.starts(places, if_there=True)
    ends = session.ends(places, if_there=True)
    for number, (topic, partitions) in enumerate(shown):
        rows = [
            {
                "partition": each.id,
                "leader": each.leader.id if each.leader is not None else None,
                "replicas": [node.id for node in each.replicas],
                "isr": [node.id for node in each.isr],
                "start_offset": starts.get((topic.name, each.id)),
                "end_offset": ends.get((topic.name, each.id)),
            }
            for each in partitions
        ]
        id_, settings = id_text(topic.topic_id), own[topic.name]
        if options.json:
            head = {"topic": topic.name, "id": id_, "internal": topic.is_internal, "configs": settings}
            show([{**head, "partitions": rows}], as_json=True)
            continue
        if number:
            print()
        print_line("  ".join((topic.name, id_, *(f"{key}={value}" for key, value in (settings or {}).items()))))
        show(rows, as_json=False)


def _described(session: Session, options: argparse.Namespace) -> list[TopicDescription]:
    """Return the topics that the options name, all if they name none. Raises CommandError for a missing one."""
    if options.topic_id is not None:
        found = [topic for topic in describe_all(session) if id_text(topic.topic_id) == options.topic_id]
        if not found and not options.if_exists:
            raise CommandError(f"there is no topic with the id {options.topic_id}")
        return found
    if not (options.names or options.topic or options.include):
        return describe_all(session)
    names = _chosen(session, options)
    return describe(session, names, if_there=options.if_exists) if names else []


def _min_isr_of(session: Session, topics: Sequence[TopicDescription]) -> dict[str, int]:
    """Return min.insync.replicas of each topic."""
    from confluent_kafka.admin import ConfigResource, ResourceType

    wanted = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
    futures = session.admin.describe_configs(wanted, request_timeout=session.timeout_s) if wanted else {}
    return {
        resource.name: int(session.wait(future, resource.name)[_MIN_ISR].value) for resource, future in futures.items()
    }


def added_replicas(session: Session, topics: Sequence[TopicDescription]) -> dict[Place, list[int]]:
    """Return the replicas that reassignments add; none if the user may not see them, as kafka-topics.

    Only a controller knows them: without a majority of controllers the answer takes as long as the client waits. So
    nobody asks while all replicas are in sync, and without an answer all partitions count as they are.
    """
    if not any(len(each.isr) < len(each.replicas) for topic in topics for each in topic.partitions):
        return {}
    try:
        with session.administration() as client:
            return {place: move.adding for place, move in moves(client).items()}
    except CommandError as error:
        if error.error_code != _NOT_AUTHORIZED:
            line = f"reassignments are unknown, so replicas that they add count as lacking: {error}"
            print(f"pybroker topics: {escape_controls(line)}", file=sys.stderr)
        return {}


def partitions_without_added(topic: TopicDescription, added: Mapping[Place, Sequence[int]]) -> list[TopicPartitionInfo]:
    """Return the partitions that lack replicas beside those that a reassignment is still adding."""
    if not added:
        return list(topic.partitions)
    return [
        each
        for each in topic.partitions
        if len(each.isr) < len(each.replicas) - len(added.get((topic.name, each.id), ())) or each.leader is None
    ]


def _by_name(topic: TopicDescription) -> str:
    return topic.name


def id_text(id_: Uuid) -> str:
    """Return a topic id as Kafka writes it, in Base64 for URLs; librdkafka uses standard Base64."""
    return str(id_).translate(_FOR_URLS)


def select_partitions(
    partitions: Sequence[TopicPartitionInfo], option: str | None, min_isr: int = 1
) -> list[TopicPartitionInfo]:
    """Return the partitions that the options of describe select; without such an option, all."""
    if option == _UNDER:
        return [each for each in partitions if each.leader is None or len(each.isr) < min_isr]
    if option == _AT:
        return [each for each in partitions if len(each.isr) == min_isr]
    return [each for each in partitions if option is None or _TROUBLED[option][0](each)]


def with_leader(partitions: Sequence[TopicPartitionInfo]) -> list[int]:
    """Return the partitions that a broker leads. librdkafka fails if it looks up offsets of others alone."""
    return [each.id for each in partitions if each.leader is not None]


def _settings_of(session: Session, names: Sequence[str]) -> dict[str, dict[str, str] | None]:
    """Return the topics' own configs; None if the user may not see them, or the topic was deleted."""
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import ConfigResource, ResourceType

    if not names:
        return {}
    wanted = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    found: dict[str, dict[str, str] | None] = dict.fromkeys(names)
    for resource, future in session.admin.describe_configs(wanted, request_timeout=session.timeout_s).items():
        try:
            found[resource.name] = _own(session.wait(future, resource.name))
        except CommandError as error:
            if error.error_code not in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART):
                raise
    return found


def _create(session: Session, options: argparse.Namespace) -> None:
    from confluent_kafka.admin import NewTopic

    if options.replica_assignment and (options.partitions or options.replication_factor):
        raise UsageError("--replica-assignment: not with --partitions or --replication-factor")
    wanted = [
        NewTopic(
            name,
            num_partitions=options.partitions or -1,
            replication_factor=options.replication_factor or -1,
            config=dict(options.config),
        )
        if options.replica_assignment is None
        else NewTopic(
            name,
            num_partitions=len(options.replica_assignment),
            replica_assignment=options.replica_assignment,
            config=dict(options.config),
        )
        for name in _names(options)
    ]
    _do(session, options, "created", session.admin.create_topics(wanted, request_timeout=session.timeout_s))


def _alter(session: Session, options: argparse.Namespace) -> None:
    from confluent_kafka.admin import NewPartitions

    wanted = [NewPartitions(name, options.partitions) for name in _chosen(session, options)]
    if wanted:
        _do(session, options, "altered", session.admin.create_partitions(wanted, request_timeout=session.timeout_s))


def _delete(session: Session, options: argparse.Namespace) -> None:
    names = _chosen(session, options)
    if names:
        _do(session, options, "deleted", session.admin.delete_topics(names, request_timeout=session.timeout_s))


def _do(session: Session, options: argparse.Namespace, done: str, futures: Mapping[str, Future[None]]) -> None:
    """Wait for the result of each topic and print it; raise the first error at the end."""
    from confluent_kafka import KafkaError

    forgiven = set()
    if getattr(options, "if_not_exists", False):
        forgiven.add(KafkaError.TOPIC_ALREADY_EXISTS)
    if getattr(options, "if_exists", False):
        forgiven.add(KafkaError.UNKNOWN_TOPIC_OR_PART)
    problems = []
    for name, future in futures.items():
        try:
            session.wait(future, name)
        except CommandError as error:
            if error.error_code not in forgiven:
                problems.append(str(error))
            continue
        if options.json:
            show([{"topic": name, done: True}], as_json=True)
        else:
            print(f"{done} {name}")
    if problems:
        raise CommandError("; ".join(problems))


def describe(session: Session, names: Sequence[str], *, if_there: bool = False) -> list[TopicDescription]:
    """Describe topics. Raises CommandError for one that does not exist, unless the options allow it."""
    from confluent_kafka import KafkaError, TopicCollection

    futures = session.admin.describe_topics(TopicCollection(list(names)), request_timeout=session.timeout_s)
    if not if_there:
        return list(session.wait_for_all(futures).values())
    found = []
    for name, future in futures.items():
        try:
            found.append(session.wait(future, name))
        except CommandError as error:
            if error.error_code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def describe_all(session: Session) -> list[TopicDescription]:
    """Describe all topics, except those that are deleted meanwhile."""
    names = list(session.admin.list_topics(timeout=session.timeout_s).topics)
    return describe(session, names, if_there=True) if names else []


def own_settings(session: Session, name: str) -> dict[str, str]:
    """Return the topic's own configs."""
    from confluent_kafka.admin import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, name)
    (future,) = session.admin.describe_configs([resource], request_timeout=session.timeout_s).values()
    return _own(session.wait(future, name))


def _own(entries: Mapping[str, Any]) -> dict[str, str]:
    from confluent_kafka.admin import ConfigSource

    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {each.name: each.value for each in entries.values() if each.source == own}
