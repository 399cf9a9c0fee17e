"""An option for the other precision beside the one that a trainer's call reads: ``--bf16`` beside ``--fp16``.

``TrainingArguments(fp16=args.fp16)`` can be told of bfloat16 by nobody: code has to read a second option first. It is
declared like the one that is there, the call is passed both, and what asks for the old one asks for the new one. Files
and launch lines that do not ask for it stay, and mean what they meant. A switch that names no precision
(``fp16=args.mixed``) only goes to the other argument. A word that a switch picks (``"fp16" if args.fp16 else "no"``)
gets another one before it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...formats.text import TextEntry
from ...model import (
    Edit,
    EditRefused,
    InsertStatement,
    NameArgument,
    Operation,
    RemoveArgument,
    ReplaceExpression,
    SetArgument,
)
from ...python.class_fields import declared_fields
from ...python.identifiers import words_of
from ...python.names import ModuleNames
from ...python.options import SPEAKING, Option
from ...source.project import Project
from ..reading.command_options import declared_options
from ..reading.links import sources, unfollowed_argument
from ..reading.scopes import FALSE, TRUE, SettingScope
from ..reading.setting_reads import Read, read_of
from ..reading.source import ValueSource
from .handed_values import OF_A_RUN, asks_for_a_device_only
from .steps import ChangeStep, Plan
from .text_editing import renamed
from .widened_options import read_elsewhere

OWN_OPTION = "the program gets an option of its own for it"
OTHER_ARGUMENT = "the option then asks for another precision"
TAKEN_OVER = ("action", "type", "nargs", "const", "dest")
"""What a new option of argparse has in common with the one that it stands beside; its default and help are its own."""
OF_ONE_PRECISION = SPEAKING - {"amp", "precision", "autocast", "device", "devices", "accelerator"}
TWINS = {"bf16": "fp16", "fp16": "bf16"}
LIKE_OTHERS = ("store_true", "BooleanOptionalAction")
"""Actions of switches that are off where nothing is said."""


@dataclass(frozen=True, slots=True)
class Beside:
    """How a call gets its other switch."""

    steps: tuple[ChangeStep, ...]
    """The steps of the plan that this carries out."""
    edits: tuple[Edit, ...]
    done: str
    doubt: str


def beside(project: Project, scope: SettingScope, plan: Plan) -> Beside | None:
    """How a switch of a call that an option decides gives way to the other one; None where that is not known."""
    on = [step for step in plan.steps if step.setting is None and step.key.means and step.value == TRUE]
    off = [step for step in plan.unknown if step.value == FALSE and step.key.means]
    argument = scope.argument(off[0].setting) if len(on) == len(off) == 1 else None
    try:
        if argument is None:
            return _by_word(project, scope, plan)
        names = off[0].key.name, on[0].key.name
        return _Pair(project, scope, off[0], *names, on[0].key.arguments[:1], *argument).written((off[0], on[0]))
    except EditRefused:
        return None


def _by_word(project: Project, scope: SettingScope, plan: Plan) -> Beside | None:
    """The same of the word for a precision that a switch of this name picks: ``"fp16" if args.fp16 else "no"``."""
    steps = [step for step in plan.unknown if step.key.means]
    removed = _removed(project, scope) if not (steps or plan.steps) else None
    if removed is not None:
        return removed.written((removed.off,))
    step = steps[0] if len(steps) == 1 and steps[0].value in TWINS else None
    module, node = (scope.argument(step.setting) if step is not None else None) or (None, None)
    if step is None or module is None or not isinstance(node, ast.IfExp) or not step.key.accepts(step.value):
        return None
    picked, left = (item.value if isinstance(item, ast.Constant) else "" for item in (node.body, node.orelse))
    if picked != TWINS[step.value] or not (left is None or step.key.meaning(str(left)) == "fp32"):
        return None
    return _Pair(project, scope, step, picked, step.value, (), module, node.test, node).written((step,))


def _removed(project: Project, scope: SettingScope) -> _Pair | None:
    """``Accelerator(fp16=args.fp16)``: releases that took this switch beside the word have the word as well."""
    new = (project.target or "").removesuffix("-mixed")
    words = [key for key in scope.framework.keys if key.means and key.choices and key.arguments]
    old = next((item for item in scope.settings if item.key.name == TWINS.get(new) and not item.key.choices), None)
    argument = scope.argument(old) if old is not None and old.value is None else None
    if old is None or argument is None or len(words) != 1 or not words[0].accepts(new) or scope.of(words[0].name):
        return None
    off = ChangeStep("set", old.key, FALSE, old)
    return _Pair(project, scope, off, old.key.name, new, words[0].arguments[:1], *argument, is_removed=True)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The switch that goes off and the one that comes on, with the expression that the first is passed."""

    project: Project
    scope: SettingScope
    off: ChangeStep
    old: str
    """What the one is called that goes off."""
    new: str
    argument: tuple[str, ...]
    """Of the call, for the other one; empty where both pick a word for the same argument."""
    module: ModuleNames
    node: ast.expr
    choice: ast.IfExp | None = None
    """Where ``node`` picks the word."""
    is_removed: bool = False
    """Whether the argument of today goes away, and the other one takes a word."""

    def written(self, steps: tuple[ChangeStep, ...]) -> Beside | None:
        """All edits. Raises EditRefused."""
        call = self.scope.call
        is_passed = bool(self.argument) or self.choice is not None
        if call is None or self.scope.is_open or not is_passed or self.off.setting is None:
            return None
        if any(isinstance(item, ast.Not) for item in ast.walk(self.node)):
            return None  # ``not args.no_fp16``: no option is on that could be named for the other switch
        found = [source for source in sources(self.project, self.module, self.node) if not source.is_guessed]
        if unfollowed_argument(self.project, self.module, self.node) is not None:
            return None
        if not (any(item.value is True for item in found) or asks_for_a_device_only(self.scope, self.off)):
            return None
        reads = list(self._reads())
        if not reads:
            name = next(iter(self.argument), "")
            names_one = not OF_ONE_PRECISION.isdisjoint(words_of(ast.unparse(self.node)))
            if not name or self.is_removed or names_one or any(item.picked_by for item in found):
                return None
            passed = self._here(NameArgument(self.module.document.span(call), self.off.setting.name, name))
            return Beside(steps, (passed,), f"passes the switch as {name}", OTHER_ARGUMENT if found else "")
        if len(reads) != 1 or any(source.picked_by for source in found):
            return None
        read, place = reads[0]
        if read_elsewhere(self.project, self.module, self.off.key, read.name, found):
            return None
        of_mapping = not isinstance(place, ast.Attribute)
        if read.of_environment or (isinstance(place, ast.Call) and not isinstance(place.func, ast.Attribute)):
            return None  # ``getattr(args, "fp16", False)``
        if not _is_on(place) and any(item.value is True and item.kind == "fallback" for item in found):
            return None
        options = declared_options(self.project, read.module, read.name)
        if not (options or of_mapping) or len(options) > 1:
            return None
        edits = (
            *self._in_call(call, read, place),
            *self._declared(options, found),
            *self._given(found),
        )
        other = self._other(read.name)
        return Beside(steps, tuple(dict.fromkeys(edits)), f"reads {other} beside {read.name}", OWN_OPTION)

    def _here(self, operation: Operation) -> Edit:
        return Edit(self.module.document.path, operation)

    def _other(self, name: str) -> str:
        """What an option is called that says of the other switch what ``name`` says of this one."""
        for before, after in ((self.old, self.new), (self.old.upper(), self.new.upper())):
            if before in name:
                return name.replace(before, after)
        raise EditRefused(f"{name} does not name {self.old}")

    def _reads(self) -> Iterator[tuple[Read, ast.expr]]:
        """The settings in the expression that are named for the switch, outermost reads only."""
        waiting: list[ast.AST] = [self.node]
        while waiting:
            node = waiting.pop()
            read = read_of(self.module, node) if isinstance(node, ast.expr) else None
            if read is not None and self.old in words_of(read.name):
                yield read, node  # type: ignore[misc]
            else:
                waiting += ast.iter_child_nodes(node)

    def _in_call(self, call: ast.Call, read: Read, place: ast.expr) -> Iterator[Edit]:
        """Both switches; of a file that may name only one of them each with a default."""
        span = self.module.document.span
        key: ast.expr
        if isinstance(place, ast.Attribute):
            key = ast.Attribute(place.value, self._other(read.name), ast.Load())
        else:
            if self.choice is not None or self.is_removed:
                raise EditRefused("a file may name only one of them")
            assert read.owner is not None
            silent = ast.Compare(ast.Constant(read.name), [ast.NotIn()], [read.owner])
            key = _got(read.owner, self._other(read.name), silent if _is_on(place) else ast.Constant(False))
            if isinstance(place, ast.Subscript) or _is_on(place):
                here = _got(read.owner, read.name, ast.Constant(False))
                yield self._here(ReplaceExpression(span(place), (_written(self.module, here),)))
        other = _written(self.module, _with(self.node, place, key))
        if self.is_removed:
            today, old = self.module.document.source(span(self.node)), self.off.setting.name if self.off.setting else ""
            words = [_written(self.module, ast.Constant(word)) for word in (self.new, self.old)]
            yield self._here(RemoveArgument(span(call), old))
            picked = f"{words[0]} if {other} else {words[1]} if {today} else None"
            yield self._here(SetArgument(span(call), self.argument[0], picked))
        elif self.choice is None:
            yield self._here(SetArgument(span(call), self.argument[0], other))
        else:
            word, today = _written(self.module, ast.Constant(self.new)), self.module.document.source(span(self.choice))
            yield self._here(ReplaceExpression(span(self.choice), (f"{word} if {other} else {today}",)))

    def _declared(self, options: Sequence[Option], found: Sequence[ValueSource]) -> Iterator[Edit]:
        """The option once more for the other switch, where the program does not define it yet."""
        for option in options:
            default = option.default
            is_said = any(item.value is False and item.kind in OF_A_RUN for item in found)
            is_on = isinstance(default, ast.Constant) and default.value is True
            if option.switch or (is_on and is_said) or not (default is None or isinstance(default, ast.Constant)):
                raise EditRefused("it is on where nothing is said")
            if declared_options(self.project, option.module, self._other(option.name)):
                if is_on:
                    raise EditRefused("both are declared, and one is on")
                continue
            document = option.module.document
            statement = option.module.parents.get(option.node)
            if isinstance(option.node, ast.Call) and isinstance(statement, ast.Expr):
                text = f"{_written(option.module, self._option(option.node, is_on))}\n"
            elif isinstance(option.node, ast.AnnAssign) and isinstance(statement, ast.ClassDef):
                text = f"{self._other(option.name)}: {ast.unparse(option.node.annotation)} = {is_on}\n"
                *_, statement = declared_fields(
                    statement
                ).values()  # behind the others: those before it may be passed by their place
            else:
                raise EditRefused("the option is declared in an unusual way")
            yield Edit(document.path, InsertStatement(document.span(statement), text, "after"))
            if is_on and default is not None:
                yield Edit(document.path, ReplaceExpression(document.span(default), ("False",)))

    def _option(self, call: ast.Call, is_on: bool) -> ast.Call:
        """``parser.add_argument("--fp16", action="store_true", help=...)`` for the other switch."""
        words = [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        given = {item.arg: item.value for item in call.keywords}
        flags = [self._other(word) for word in words if self.old in word]
        action = given.get("action")
        if len(words) != len(call.args) or not flags or None in given or not _is_plain(action):
            raise EditRefused("the option is declared in an unusual way")
        keywords = [ast.keyword(name, given[name]) for name in TAKEN_OVER if name in given]
        for keyword in keywords:
            if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
                keyword.value = ast.Constant(self._other(str(keyword.value.value)))
        if "default" in given or is_on:
            keywords.append(ast.keyword("default", ast.Constant(is_on)))
        if "help" in given:
            keywords.append(ast.keyword("help", ast.Constant(f"Train in {self.new} mixed precision.")))
        return ast.Call(call.func, [ast.Constant(flag) for flag in flags], keywords)

    # --- who asks for it ----------------------------------------------------------------------------------------------

    def _given(self, found: Sequence[ValueSource]) -> Iterator[Edit]:
        """The flags and entries that ask for the old switch, under the new name. Raises EditRefused."""
        for source in found:
            if source.value is not True:
                if source.value is not False and source.value is not None:
                    raise EditRefused(f"{source.key} is no truth value")
                continue
            if source.kind in ("option", "field", "fallback"):
                continue  # of the declaration, or the call
            if source.kind == "flag" and source.entry is None:
                continue
            if source.config is None or source.entry is None or source.kind not in ("flag", "entry"):
                raise EditRefused(f"{source.key} is set in an unusual way")
            if source.kind == "entry" and self._beside(source, source.entry) is not None:
                raise EditRefused("both are in the file already")
            text = source.config.document.text
            yield source.config.edit(renamed(text, source.entry, self._other(source.entry.name)))

    def _beside(self, source: ValueSource, entry: TextEntry) -> TextEntry | None:
        assert source.config is not None
        key = (*entry.key[:-1], self._other(entry.name))
        return next(iter(source.config.text.find(*key)), None)


def _written(module: ModuleNames, node: ast.expr) -> str:
    """An expression as source, in the quotes that the file prefers."""
    text, source = ast.unparse(node), module.document.text
    return text.replace("'", '"') if '"' not in text and source.count('"') > source.count("'") else text


def _is_plain(action: ast.expr | None) -> bool:
    text = ast.unparse(action).strip("'\"") if action is not None else LIKE_OTHERS[0]
    return text.rpartition(".")[2] in LIKE_OTHERS


def _got(owner: ast.expr, name: str, default: ast.expr) -> ast.Call:
    """``owner.get("name", default)``."""
    return ast.Call(ast.Attribute(owner, "get", ast.Load()), [ast.Constant(name), default], [])


def _is_on(place: ast.expr) -> bool:
    """``config.get("fp16", True)``: on where a file does not name it."""
    default = place.args[-1] if isinstance(place, ast.Call) and len(place.args) > 1 else None
    return isinstance(default, ast.Constant) and default.value is True


def _with(whole: ast.expr, place: ast.expr, other: ast.expr) -> ast.expr:
    """``whole`` with another expression in one place."""
    if whole is place:
        return other

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return other if node is marked else super().visit(node)

    memo: dict[int, object] = {}
    copied = copy.deepcopy(whole, memo)
    marked = memo[id(place)]
    exchanged = Exchange().visit(copied)
    return exchanged if isinstance(exchanged, ast.expr) else copied
