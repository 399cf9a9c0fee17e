"""Shell tokens cut into simple commands, and what a command means to its neighbors."""

from __future__ import annotations

from dataclasses import dataclass

from .shell_words import Operator, Word

_RESERVED = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"})
_OPENERS = frozenset({"then", "do", "else", "{"})
_CLOSERS = frozenset({"fi", "done", "else", "elif", "}", "esac"})


@dataclass(slots=True)
class Command:
    """One simple command: its words without redirections."""

    words: list[Word]
    redirects: list[Operator]
    before: str
    """The operator in front (empty at the beginning)."""
    after: str = ""


def split(tokens: list[Word | Operator]) -> list[Command]:
    """Cut tokens into simple commands; patterns of ``case`` are dropped."""
    commands: list[Command] = []
    current = Command([], [], "")
    parentheses = 0
    for token in tokens:
        if isinstance(token, Word):
            current.words.append(token)
            continue
        if token.target is not None or token.text.strip("0123456789&").startswith(("<", ">")):
            current.redirects.append(token)
            continue
        if token.text == ")" and not parentheses:
            _drop_pattern(commands, current)
        parentheses = max(0, parentheses + (token.text == "(") - (token.text == ")"))
        current.after = token.text
        if current.words or current.redirects:
            commands.append(current)
        elif token.text == ")" and commands and commands[-1].after == "\n":
            commands[-1].after = ")"
        keeps = token.text == "\n" and not current.words and not current.redirects
        current = Command([], [], current.before if keeps and current.before else token.text)
    if current.words or current.redirects:
        commands.append(current)
    return commands


def _drop_pattern(commands: list[Command], current: Command) -> None:
    current.words.clear()
    while commands and commands[-1].after == "|":
        commands.pop()


def without_reserved(words: list[Word]) -> tuple[list[Word], bool]:
    """The command behind ``if``, ``then``, ``do`` ..., and whether there was one."""
    count = 0
    while count < len(words) and words[count].value in _RESERVED:
        count += 1
    return words[count:], count > 0


def leaves_hole(commands: list[Command], number: int) -> bool:
    """Whether the shell would miss this command if it were gone."""
    command = commands[number]
    if command.before in {"&&", "||", "|", "|&"} or command.after in {"&&", "||", "|", "|&", "&"}:
        return True
    before = commands[number - 1].words[-1:] if number else []
    opened = command.before == "(" or (bool(before) and before[0].value in _OPENERS)
    behind = commands[number + 1].words[:1] if number + 1 < len(commands) else []
    return opened and (command.after == ")" or not behind or behind[0].value in _CLOSERS or behind[0].value == "")


def written_to(command: Command) -> str:
    """The file that the command's output goes to, as spelled; empty when there is none."""
    for redirect in command.redirects:
        if redirect.target is not None and redirect.text.lstrip("0123456789&") in {">", ">>", ">|"}:
            return redirect.target.value
    names = [word.value for word in command.words if not word.value.startswith("-")]
    return names[-1] if "tee" in names[:-1] else ""
