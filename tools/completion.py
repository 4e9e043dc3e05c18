"""`pybroker completion bash|zsh|fish`: print a shell script that completes pybroker's command lines."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence

from pybroker.cli.exit_codes import end
from tools.command_line import OfflineParser
from tools.command_lines import CommandLine, Option, command_lines

_EPILOG = """\
bash: pybroker completion bash > ~/.local/share/bash-completion/completions/pybroker
zsh:  pybroker completion zsh > DIRECTORY_OF_fpath/_pybroker
fish: pybroker completion fish > ~/.config/fish/completions/pybroker.fish"""


class _Parser(OfflineParser):
    usage_exit_code = 2


def command_line() -> ArgumentParser:
    """Return the parser of the command line."""
    from argparse import RawDescriptionHelpFormatter

    parser = _Parser(
        prog="pybroker completion",
        description="Print a script that completes command lines in a shell.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = command_line().parse_args(argv)
    made = {"bash": bash, "zsh": zsh, "fish": fish}[options.shell](command_lines())
    sys.stdout.write(made)
    return 0


def _each(commands: Sequence[CommandLine]) -> Iterator[tuple[str, CommandLine]]:
    """Yield commands and actions, each with the words before it."""
    for command in commands:
        yield command.name, command
        for action in command.actions:
            yield f"{command.name} {action.name}", action


# -- bash --------------------------------------------------------------------------------------------------------------


def bash(commands: Sequence[CommandLine]) -> str:
    """Return a completion function and its registration. Words without completions complete file names."""
    words, values = [], []
    for path, each in _each(commands):
        known = [action.name for action in each.actions] + list(each.choices)
        known += [name for option in each.options for name in option.names]
        words.append(f'    "{path}") words="{" ".join(known)}" ;;')
        for option in each.options:
            if option.choices:
                names = "|".join(f'"{path} {name}"' for name in option.names)
                values.append(
                    f'    {names}) COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur")); return ;;'
                )
    paths = " ".join(f'"{path}"' for path, _ in _each(commands) if " " in path)
    return "\n".join(
        (
            "# completion of pybroker for bash",
            "_pybroker() {",
            "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}",
            '  local path=${COMP_WORDS[1]} words="" each',
            "  if ((COMP_CWORD == 1)); then",
            f'    COMPREPLY=($(compgen -W "{" ".join(each.name for each in commands)} --help --version" -- "$cur"))',
            "    return",
            "  fi",
            f"  for each in {paths}; do",
            '    [[ "${COMP_WORDS[1]} ${COMP_WORDS[2]}" == "$each" && $COMP_CWORD -gt 2 ]] && path=$each',
            "  done",
            '  case "$path $prev" in',
            *values,
            '    *) case "$path" in',
            *words,
            "    esac ;;",
            "  esac",
            '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            "}",
            "complete -o default -F _pybroker pybroker",
            "",
        )
    )


# -- zsh ---------------------------------------------------------------------------------------------------------------


def zsh(commands: Sequence[CommandLine]) -> str:
    """Return a function for a directory of fpath, or for `source`."""
    cases = []
    for path, each in _each(commands):
        known = [(action.name, action.about) for action in each.actions]
        known += [(choice, "") for choice in each.choices]
        known += [(name, option.about) for option in each.options for name in option.names]
        lines = " ".join(_zsh_word(*word) for word in known)
        cases.append(f"    {_quoted(path)}) words_of_it=({lines}) ;;")
    names = " ".join(_zsh_word(each.name, each.about) for each in commands)
    values = [
        f"    {_quoted(f'{path} {name}')}) compadd -- {' '.join(option.choices)}; return ;;"
        for path, each in _each(commands)
        for option in each.options
        for name in option.names
        if option.choices
    ]
    paths = " ".join(_quoted(path) for path, _ in _each(commands) if " " in path)
    return "\n".join(
        (
            "#compdef pybroker",
            "_pybroker() {",
            '  local path_of_it=$words[2] both="$words[2] $words[3]"',
            "  local -a words_of_it actions",
            f"  actions=({paths})",
            "  if ((CURRENT == 2)); then",
            f"    words_of_it=({names})",
            "    _describe command words_of_it",
            "    return",
            "  fi",
            "  ((CURRENT > 3 && $actions[(Ie)$both])) && path_of_it=$both",
            '  case "$path_of_it $words[CURRENT-1]" in',
            *values,
            "  esac",
            '  case "$path_of_it" in',
            *cases,
            "  esac",
            "  _describe -o option words_of_it || _files",
            "}",
            'if [ "$funcstack[1]" = "_pybroker" ]; then _pybroker "$@"; else compdef _pybroker pybroker; fi',
            "",
        )
    )


def _zsh_word(word: str, about: str) -> str:
    escaped = word.replace(":", "\\:")
    return _quoted(f"{escaped}:{about}" if about else escaped)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -- fish --------------------------------------------------------------------------------------------------------------


def fish(commands: Sequence[CommandLine]) -> str:
    """Return lines of `complete`."""
    lines = ["# completion of pybroker for fish"]
    for command in commands:
        lines.append(f"complete -c pybroker -n __fish_use_subcommand -a {command.name} -d {_fish(command.about)}")
    for command in commands:
        seen = f"__fish_seen_subcommand_from {command.name}"
        lines += _fish_lines(command, seen)
        if command.actions:
            none = f"{seen}; and not __fish_seen_subcommand_from {' '.join(each.name for each in command.actions)}"
            for action in command.actions:
                lines.append(f"complete -c pybroker -n {_fish(none)} -f -a {action.name} -d {_fish(action.about)}")
                lines += _fish_lines(action, f"{seen}; and __fish_seen_subcommand_from {action.name}")
    return "\n".join((*lines, ""))


def _fish_lines(command: CommandLine, condition: str) -> Iterator[str]:
    begin = f"complete -c pybroker -n {_fish(condition)}"
    if command.choices:
        yield f"{begin} -f -a {_fish(' '.join(command.choices))}"
    for option in command.options:
        yield f"{begin} {_fish_option(option)}"


def _fish_option(option: Option) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = ""
    if option.choices:
        value = f" -x -a {_fish(' '.join(option.choices))}"
    elif option.value is not None:
        value = " -r"
    return f"{names}{value} -d {_fish(option.about)}" if option.about else f"{names}{value}"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    end(main)
