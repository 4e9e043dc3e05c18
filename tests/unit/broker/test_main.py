"""The command line of the broker's process."""

import pytest

from broker.main import KAFKA_EXIT_CODES, Arguments, UsageError, main, parse_arguments


def test_options_may_have_any_order():
    """With and without equals signs. The last override wins, and values may contain equals signs."""
    arguments = parse_arguments(
        ["--override", "a=1", "file", "--override=a=2=3", "--strict", "--log-level=DEBUG", "--log-format", "json"]
    )

    assert Arguments("file", {"a": "2=3"}, True, "debug", "json") == arguments
    assert Arguments() == parse_arguments([])


def test_options_for_other_programs():
    assert Arguments(ephemeral=True) == parse_arguments(["--ephemeral"])
    assert Arguments(print_json=True) == parse_arguments(["--print-json"])
    assert Arguments(until_stdin_ends=True) == parse_arguments(["--until-stdin-ends"])
    of_control = Arguments(ephemeral=True, control=True, until_stdin_ends=True)
    assert of_control == parse_arguments(["--control", "--ephemeral"])


@pytest.mark.parametrize(
    "argv",
    [
        ["one", "two"],
        ["--override"],
        ["--override", "novalue"],
        ["--override", "=x"],
        ["--log-level", "loud"],
        ["--log-format", "xml"],
        ["--unknown"],
        ["--control"],
    ],
)
def test_bad_command_line_is_one_line_and_code_2(argv, capsys):
    with pytest.raises(UsageError):
        parse_arguments(argv)
    assert main(argv) == 2
    assert main([KAFKA_EXIT_CODES, *argv]) == 1
    message = capsys.readouterr().err
    assert message.startswith("pybroker: ")
    assert message.endswith(" (--help-broker shows the options)\n")
    assert message.count("\n") == 2


def test_help_is_on_standard_output(capsys):
    """With exit code 0."""
    assert main(["--help"]) == 0
    assert "--override" in capsys.readouterr().out
