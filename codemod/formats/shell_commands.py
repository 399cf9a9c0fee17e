"""From shell tokens to what they say: assignments, flags with their owner, hydra-style overrides, here-documents."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate

from .lines import line_start
from .shell_found import Found, Where
from .shell_functions import ShellFunctions
from .shell_launchers import FLAG, OVERRIDE, SILENT, WordRoles, find_roles, is_launcher, is_value
from .shell_statements import Command, leaves_hole, split, without_reserved, written_to
from .shell_variables import PLAIN, REFERENCE, Variables, VariableUse
from .shell_words import ASSIGNMENT, Tokenizer, Unclosed, Word, without_marks
from .text import CommandLine, Heredoc

_NAMED_REFERENCE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_HOLDS_COMMAND = re.compile(r"cmd|command|launch|run|exec|script", re.IGNORECASE)
_HOLDS_FLAGS = re.compile(r"arg|opt|flag|param|override", re.IGNORECASE)
_SUBSTITUTION = re.compile(r"\$\((?!\()[^()]*\.py\b[^()]*\)")
_DECLARERS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_MAX_PIPES = 6
"""How far down a pipeline the file that a here-document ends in is looked for."""
_MAX_STRINGS = 3
"""How deep commands in strings in strings are followed."""


@dataclass(slots=True)
class CommandReader:
    """Reads ranges of one text, collecting what it finds."""

    text: str
    found: list[Found] = field(default_factory=list)
    heredocs: list[Heredoc] = field(default_factory=list)
    commands: list[CommandLine] = field(default_factory=list)
    _variables: Variables = field(default_factory=Variables)
    _functions: ShellFunctions = field(default_factory=ShellFunctions)
    _starts: dict[int, list[int]] = field(default_factory=dict)
    """A command line that a variable holds, or a function -> the command lines that it is started with."""

    def read(self, start: int, end: int) -> None:
        """Read shell text. Raises Unclosed."""
        tokenizer = Tokenizer(self.text, start, end)
        commands = split(tokenizer.run())
        for number, command in enumerate(commands):
            self._statement(commands, number)
            for redirect in command.redirects:
                if redirect.start in tokenizer.bodies:
                    self._heredoc(commands, number, tokenizer.bodies[redirect.start])

    def finish(self) -> list[Found]:
        """Everything found, in text order, flags in variables with the command that uses the variable."""
        done = [self._resolved(found) for found in self.found]
        kept = [number for number in range(len(self.commands)) if number not in self._starts]
        place = {number: index for index, number in enumerate(kept)}
        self.commands = [self._filled(self.commands[number]) for number in kept]
        done = [
            replace(found, call=place.get(found.call, -1), also=tuple(map(place.__getitem__, found.also)))
            for found in done
        ]
        return sorted(done, key=lambda found: (found.item_start, found.key_start))

    def assignment(self, name: str, key_end: int, word: tuple[int, int], statement: tuple[int, int]) -> None:
        """A ``NAME=value`` that its file format shows as a line of its own (env, make, Docker)."""
        start, end = word
        found = Found("assignment", name, key_end - len(name), key_end, start, end, key_end - len(name), end)
        first, last = statement
        self.found.append(replace(found, sole=True, statement_start=first, statement_end=last))
        plus = self.text[key_end:start].rstrip(" \t").endswith("+=")
        self._value_words(name, start, end, Where(), plus=plus)

    def list_of_words(self, words: list[Word], *, layout: str = "words") -> None:
        """Words of one command that were cut elsewhere (Docker's exec form)."""
        before = len(self.found)
        self._words(words, Where(quote="json" if layout == "exec" else ""), is_command=True)
        self.found[before:] = [replace(found, layout=layout) for found in self.found[before:]]

    def _statement(self, commands: list[Command], number: int) -> None:
        command = commands[number]
        if self._functions.enter([word.value for word in command.words], command.after):
            return
        words, hole = without_reserved(command.words)
        rest = words[(assigned := self._leading_assignments(words)) :]
        if rest and rest[0].value == "env":
            rest = self._behind_env(rest)
        declared: list[Word] = []
        if len(rest) > 3 and rest[0].value == "for" and rest[2].value == "in":
            self._variables.loop(rest[1].value, [word.value for word in rest[3:]])
        elif rest and rest[0].value in _DECLARERS:
            declared = [word for word in rest[1:] if ASSIGNMENT.match(self.text, word.start, word.end)]
        elif rest and rest[0].value == ":":
            self._defaults(rest[1:])
        elif rest and not SILENT.fullmatch(rest[0].value):
            self._words(rest, Where(), is_command=True)
        targets = words[:assigned] + declared
        options = sum(word.value.startswith("-") for word in rest[1:])
        alone = not rest or (bool(declared) and options + 2 == len(rest))
        plain = len(targets) == 1 and alone and not command.redirects
        joined = hole or leaves_hole(commands, number)
        for word in targets:
            self._assign(word, plain, (words[0].start, words[-1].end), joined)

    def _defaults(self, words: list[Word]) -> None:
        """Variables that get a value where they have none: ``: "${PRECISION:=bf16}"``."""
        for word in words:
            *inner, quote = self._unquoted(word, Where())
            match = REFERENCE.fullmatch(self.text, *inner)
            if match is not None and (match[2] or "").endswith("=") and PLAIN.fullmatch(match[3]):
                found = Found("assignment", match[1], *match.span(1), *match.span(3), word.start, word.end, quote=quote)
                self.found.append(found)
                self._variables.assign(match[1], match.start(3), [match[3]], plus=False, extends=True, sometimes=True)

    def _behind_env(self, words: list[Word]) -> list[Word]:
        """The command behind ``env A=b``, whose variables are noted."""
        count = 0
        for word in words:
            if ASSIGNMENT.match(self.text, word.start, word.end):
                self._assign(word, False, (word.start, word.end), False)
            elif word.value != "env":
                break
            count += 1
        return words[count:]

    def _leading_assignments(self, words: list[Word]) -> int:
        count = 0
        while count < len(words) and ASSIGNMENT.match(self.text, words[count].start, words[count].end):
            count += 1
        return count

    def _assign(self, word: Word, sole: bool, statement: tuple[int, int], joined: bool) -> None:
        match = ASSIGNMENT.match(self.text, word.start, word.end)
        if match is None:
            return
        name, start = match[1], match.end()
        found = Found("assignment", name, word.start, word.start + len(name), start, word.end, word.start, word.end)
        first, last = statement
        self.found.append(replace(found, sole=sole, statement_start=first, statement_end=last, joined=joined))
        plus = self.text.startswith("+=", start - 2)
        sometimes = joined or self.text[line_start(self.text, word.start) : word.start][:1].isspace()
        if word.is_array:
            items = list(word.items)
            self._words(items, Where(inside=name), is_command=bool(items) and is_launcher(items[0].value))
            self._remember(name, word.start, word.end, items, plus=plus, sometimes=sometimes)
        else:
            self._value_words(name, start, word.end, Where(), plus=plus, sometimes=sometimes)

    def _remember(self, name: str, start: int, end: int, words: list[Word], *, plus: bool, sometimes: bool) -> None:
        extends = plus or name in _NAMED_REFERENCE.findall(self.text, start, end)
        values = [word.value for word in words]
        self._variables.assign(name, start, values, plus=plus, extends=extends, sometimes=sometimes)

    def _value_words(
        self, name: str, start: int, end: int, place: Where, *, plus: bool = False, sometimes: bool = False
    ) -> None:
        """Flags hidden in an assigned string."""
        raw = self.text[start:end]
        quote = raw[0] if len(raw) > 1 and raw[0] in "\"'" and raw[0] == raw[-1] else ""
        if quote:
            start, end = start + 1, end - 1
        elif raw.startswith("$'"):
            return
        if _SUBSTITUTION.fullmatch(self.text, start, end):  # LOG=$(python train.py --bf16)
            with suppress(Unclosed):
                self.read(start + 2, end - 1)
        commands = self._string(start, end, Where(name, quote or place.quote, place.depth + 1), named=name)
        words = commands[0].words if len(commands) == 1 else []
        self._remember(name, start, end, words, plus=plus, sometimes=sometimes)

    def _string(self, start: int, end: int, place: Where, *, named: str = "") -> list[Command]:
        """Flags or whole commands in a string's text, which is returned; one that is not shell words holds none."""
        if place.depth > _MAX_STRINGS:
            return []
        try:
            is_quoted = self.text[start - 1 : start] == '"'
            commands = split(Tokenizer(self.text, start, end, newline_ends=False, is_quoted=is_quoted).run())
        except Unclosed:
            return []
        plain = not any(mark in self.text[start:end] for mark in "-=")
        for command in commands:
            words, _ = without_reserved(command.words)
            leading = self._leading_assignments(words)
            if plain and (len(words) < 2 or not (is_launcher(words[0].value) or words[0].value.startswith("$"))):
                continue
            runs = leading < len(words) and is_launcher(words[leading].value)
            if runs:
                words = words[leading:]
            is_list = bool(words) and (FLAG.match(words[0].value) or words[0].value.startswith("$"))
            runs = runs or (not is_list and bool(_HOLDS_COMMAND.search(named)) and leading == 0)
            if runs or is_list or _HOLDS_FLAGS.search(named):
                self._words(words, place, is_command=runs)
        return commands

    def _words(self, words: list[Word], place: Where, *, is_command: bool) -> None:
        """Flags and overrides among the words of one command."""
        roles = self._numbered(words, self._roles(words, is_command=is_command), place)
        index = 1 if is_command and words and not FLAG.match(words[0].value) else 0
        while index < len(words):
            index += 1 + self._word(words, index, roles, place)
        for index, word in enumerate(words):
            command, owner = roles.of(index)
            for name in _NAMED_REFERENCE.findall(self.text, word.start, word.end) if "$" in word.value else ():
                if not self._variables.is_used_within(name, word.start, word.end):
                    told = (command, owner) if command else (place.inside, "variable")
                    self._variables.used(name, VariableUse(word.start, *told, roles.number))

    def _roles(self, words: list[Word], *, is_command: bool) -> WordRoles:
        """Who owns the words, with the words that variables hold in their places."""
        filled = [list(self._variables.filled([word.value])) for word in words]
        filled[:1] = [list(self._filled_in([word.value])) for word in words[:1]]
        ends = list(accumulate(map(len, filled)))
        roles = find_roles([each for some in filled for each in some], is_command=is_command)
        script = None if roles.script is None else bisect_right(ends, roles.script)
        launchers = tuple((bisect_right(ends, at), name) for at, name in roles.launchers)
        return replace(roles, script=script, launchers=launchers)

    def _numbered(self, words: list[Word], roles: WordRoles, place: Where) -> WordRoles:
        """Note the command line, unless the words are only arguments of one."""
        if not words or (roles.script is None and not roles.launchers):
            return roles
        written, start = tuple(word.value for word in words), words[0].start
        number, script = len(self.commands), "" if roles.script is None else roles.name
        body = self._functions.note(written, number)
        self.commands.append(CommandLine(start, tuple(self._filled_in(written)), script, written))
        if body is not None:
            self._starts.setdefault(body.call, []).append(number)
        for index in {0, *(index for index, _ in roles.launchers), *([] if roles.script is None else [roles.script])}:
            for held in self._variables.held(written[index], start, is_alone=index + 1 == len(written)):
                self._starts.setdefault(held.call, []).append(number)
        if place.inside:
            told = (script, "script") if script or not roles.launchers else (roles.launchers[-1][1], "launcher")
            self._variables.hold(place.inside, VariableUse(start, *told, number))
        return replace(roles, number=number)

    def _filled_in(self, words: Sequence[str]) -> Iterator[str]:
        """Words with what variables hold, and what the function starts that the first of them calls."""
        body = self._functions.body(words)
        yield from self._variables.filled((*body.words, *words[1:]) if body is not None else words)

    def _word(self, words: list[Word], index: int, roles: WordRoles, place: Where) -> int:
        """Read the word at ``index``; returns how many words behind it belong to it."""
        word = words[index]
        command, owner = roles.of(index)
        start, end, quote = self._unquoted(word, place)
        flag = FLAG.match(self.text, start, end)
        spaced = quote != place.quote and re.search(r"\s", self.text[start:end])
        # "--a=x y" is one flag with a blank in its value, "--a=x --b" are two flags in one string.
        if spaced and (flag is None or re.search(r"\s--?[A-Za-z]", self.text[start:end])):
            self._nested_string(words, index, place, flag is not None)
            return 0
        found = Found("flag", "", start, end, end, end, word.start, word.end, command, owner, place.inside, quote)
        found = replace(found, call=roles.number)
        if flag is not None and (flag.end() == end or self.text[flag.end()] == "="):
            return self._flag(replace(found, name=flag[0], key_end=flag.end()), words, index, roles, place)
        override = OVERRIDE.match(self.text, start, end)
        if override is not None and index != roles.script:
            name_end = override.end(1)
            start, end = without_marks(self.text, override.end(), end)
            self.found.append(replace(found, kind="override", name=override[1], key_end=name_end, start=start, end=end))
        return 0

    def _flag(self, found: Found, words: list[Word], index: int, roles: WordRoles, place: Where) -> int:
        inner_end = found.end
        if found.key_end < inner_end:
            start, end = without_marks(self.text, found.key_end + 1, inner_end)
            self.found.append(replace(found, start=start, end=end))
            self._flag_string(found.name, found.key_end + 1, inner_end, Where(place.inside, found.quote, place.depth))
            return 0
        value = words[index + 1] if index + 1 < len(words) and index + 1 != roles.script else None
        if value is None or not is_value(self.text[value.start : value.end]):
            self.found.append(replace(found, start=found.key_end))
            return 0
        behind = words[index + 2] if index + 2 < len(words) and index + 2 != roles.script else None
        start, end = without_marks(self.text, value.start, value.end)
        if place.quote == "json":
            start, end = start + 1, end - 1
        followed = (
            behind is not None
            and is_value(self.text[behind.start : behind.end])
            and not behind.value.startswith(("$", "`"))
        )
        valued = replace(found, start=start, end=end, item_end=value.end, quote=place.quote)
        self.found.append(replace(valued, separate=True, followed=followed))
        self._flag_string(found.name, start, end, place)
        return 1

    def _flag_string(self, name: str, start: int, end: int, place: Where) -> None:
        """``--wrap="python train.py --bf16"``, ``-c "..."``, ``--args "--a=b"``."""
        raw = self.text[start:end]
        if not place.quote and len(raw) > 2 and raw[0] == raw[-1] and raw[0] in "\"'" and re.search("[ -]", raw):
            named = "command" if name in {"-c", "--wrap", "--command"} else ""
            self._string(start + 1, end - 1, Where(place.inside or name, raw[0], place.depth + 1), named=named)

    def _nested_string(self, words: list[Word], index: int, place: Where, is_flags: bool) -> None:
        word = words[index]
        quote = self.text[word.start]
        width, quote = (2, place.quote) if quote == "\\" else (1, quote)
        before = words[index - 1].value if index else ""
        named = "command" if is_flags or before in {"-c", "eval", "-lc"} else ""
        self._string(word.start + width, word.end - width, Where(place.inside, quote, place.depth + 1), named=named)

    def _unquoted(self, word: Word, place: Where) -> tuple[int, int, str]:
        """The word without quotes around the whole of it, and the quote that is then open."""
        raw = self.text[word.start : word.end]
        if len(raw) > 1 and raw[0] in "\"'" and raw[0] == raw[-1] and raw[0] not in raw[1:-1]:
            return word.start + 1, word.end - 1, place.quote or raw[0]
        return *without_marks(self.text, word.start, word.end), place.quote

    def _heredoc(self, commands: list[Command], number: int, body: Heredoc) -> None:
        command = commands[number]
        words, _ = without_reserved(command.words)
        words = words[self._leading_assignments(words) :]
        program = words[0].value if words else ""
        if program == "read" and len(words) > 1:
            variable = words[-1].value
            self._string(body.start, body.end, Where(inside=variable), named="command")
        target = written_to(command)
        for following in commands[number + 1 : number + _MAX_PIPES]:
            if target or command.after != "|":
                break
            command, target = following, written_to(following)
        self.heredocs.append(replace(body, target_name=" ".join(self._variables.filled([target])), command=program))

    def _resolved(self, found: Found) -> Found:
        """The entry with the command lines that get it."""
        if found.call < 0 and found.inside:
            uses = self._variables.takers(found.inside, found.item_start)
            uses = [use for use in uses if use.owner == uses[0].owner]
            if uses:
                found = replace(found, command=uses[0].command, owner=uses[0].owner)
            calls = [use.call for use in uses]
        else:
            calls = [found.call]
        started = sorted({number for call in calls for number in self._started(call) if number >= 0})
        return replace(found, call=started[0], also=tuple(started[1:])) if started else found

    def _started(self, call: int, hops: int = _MAX_STRINGS) -> Iterator[int]:
        """The command lines that are started where a variable holds this one: itself, where none does."""
        for number in self._starts.get(call, ()) if hops else ():
            yield from self._started(number, hops - 1)
        if call not in self._starts:
            yield call

    def _filled(self, command: CommandLine) -> CommandLine:
        """With what is assigned below: in functions that are called there."""
        script = next(self._variables.filled([command.script]), "")
        return replace(command, words=tuple(self._variables.filled(command.words)), script=script)
