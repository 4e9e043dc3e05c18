"""Command lines of Kafka's console consumer and producer, translated to consume and produce."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.kafka_home.common_options import BadCommandLine, CannotTranslate, Command
from pybroker.kafka_home.translate import TRANSLATIONS

#: Options that make lines be read as Java's reader does.
LINES = " --reader-property parse.key=false"


def words(tool: str, given: str) -> str:
    """Return the arguments of the single command that results."""
    ((command),) = TRANSLATIONS[f"kafka-console-{tool}"](given.split())
    assert command == Command({"consumer": "consume", "producer": "produce"}[tool], command.arguments)
    return " ".join(command.arguments)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            "--topic t --from-beginning --max-messages 2 --timeout-ms 1500 --property print.key=true"
            " --formatter-property key.separator=:",
            "--topic t --from-beginning --max-messages 2 --timeout-ms 1500 --formatter-property print.key=true"
            " --formatter-property key.separator=:",
        ),
        ("--topic t", "--topic t --formatter-property print.value=true"),
        ("--topic t --max-messages -1 --timeout-ms -1", "--topic t --formatter-property print.value=true"),
        (
            "--topic t --partition 0 --offset 3",
            "--topic t --offset 3 --partition 0 --formatter-property print.value=true",
        ),
        ("--include t.*", "--include t.* --formatter-property print.value=true"),
        ("--whitelist t.* --group g", "--include t.* --group g --formatter-property print.value=true"),
        (
            "--topic t --formatter kafka.tools.DefaultMessageFormatter --key-deserializer a.LongDeserializer",
            "--topic t --formatter-property key.deserializer=a.LongDeserializer",
        ),
        (
            "--topic t --consumer-property group.id=g --command-property auto.offset.reset=earliest"
            " --consumer-property isolation.level=read_committed --consumer-property client.id=c",
            "--topic t --group g --from-beginning --isolation-level read_committed -X client.id=c"
            " --formatter-property print.value=true",
        ),
    ],
)
def test_consumer_options_are_translated(given: str, expected: str) -> None:
    """Properties for which consume has options become these options."""
    assert words("consumer", given) == expected


def test_offset_needs_a_partition() -> None:
    """As with Kafka's tool; pybroker consume has offsets of all partitions."""
    with pytest.raises(BadCommandLine, match="partition is required"):
        words("consumer", "--topic t --offset 3")


def test_consumer_properties_files_are_translated(tmp_path: Path) -> None:
    """As Kafka's consumer.properties; the command line has priority."""
    path = tmp_path / "consumer.properties"
    path.write_text("bootstrap.servers=h:1\ngroup.id=of-the-file\nisolation.level=read_committed\n")
    shown = tmp_path / "formatter.properties"
    shown.write_text("print.key=true\n")

    given = f"--topic t --consumer.config {path} --group g --formatter-config {shown} --property print.key=false"
    assert words("consumer", given) == (
        "--topic t --group g --isolation-level read_committed --formatter-property print.key=false"
        f" --command-config {path}"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--topic t --sync --line-reader kafka.tools.ConsoleProducer$LineMessageReader", "--topic t" + LINES),
        (
            "--topic t --property parse.key=true --reader-property key.separator=:",
            "--topic t --reader-property parse.key=true --reader-property key.separator=:",
        ),
        (
            "--topic t --compression-codec --timeout 5 --producer-property linger.ms=6",
            "--topic t -X compression.type=gzip -X linger.ms=6" + LINES,
        ),
        ("--topic t --request-required-acks 1", "--topic t -X acks=1 -X enable.idempotence=false" + LINES),
        ("--topic t --producer-property acks=all", "--topic t -X acks=all" + LINES),
        ("--topic t --producer.config /dev/null", f"--topic t{LINES} --command-config /dev/null"),
    ],
)
def test_producer_options_are_translated(given: str, expected: str) -> None:
    """Properties of either kind. Producers without acks=all are not idempotent, as there.

    Lines end as there: CR LF leaves no CR in a value.
    """
    assert words("producer", given) == expected


@pytest.mark.parametrize(
    ("tool", "given", "problem"),
    [
        ("consumer", "--topic t --group g --consumer-property enable.auto.commit=false", "offsets are committed"),
        ("consumer", "--topic t --consumer.config /nowhere", "/nowhere: No such file"),
        ("producer", "--topic t --reader-config /nowhere", "/nowhere: No such file"),
    ],
)
def test_unsupported_options_are_rejected(tool: str, given: str, problem: str) -> None:
    """They are not ignored."""
    with pytest.raises(CannotTranslate, match=problem):
        words(tool, given)
