"""Switches without which a program does not train: taken as given where nothing shows how the program is started.

``if args.do_train:`` around all that trains, with ``--do_train`` off by default: a program is there to train.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..formats.shell_launchers import starts_programs
from ..python.callers import callers_of
from ..python.names import FunctionNode, ModuleNames, modules_at
from ..python.options import Option
from ..python.paths import function_of, guard_facts
from ..python.precision_words import SWITCHING
from ..source.documents import FileKind
from ..source.project import Project
from ..torch.dtypes import TextCondition
from .files import is_test
from .imports import importers_of, reached_from
from .switches import LAUNCHING, declared_options
from .training import RUNS_STEP, WORDS

MAX_HOPS = 4
"""How many calls up a training step is followed."""
MAX_MODULES = 40
"""How many modules of a program are looked at."""
SAYING = (FileKind.YAML, FileKind.JSON, FileKind.TOML)
"""Files that start a program which they only name."""
MARKS = str.maketrans("=`'\"()[],;:", " " * 11)
Switches = frozenset[str] | None
"""The names without which a place does not run; None where nothing is seen to come to it."""


def is_taken_as_given(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    """Whether a condition asks a switch of which the code says that the program does nothing without it."""
    if item.values != (True,) or not isinstance(item.node, ast.Attribute):
        return False
    return is_needed(project, module, item.node.attr)


def is_needed(project: Project, module: ModuleNames, name: str) -> bool:
    """Whether a program of a module trains with an option alone, and nothing shows how it is started."""
    return _is_switch(project, module, name) and name in project.memo(_needed_in, module)


def _is_switch(project: Project, module: ModuleNames, name: str) -> bool:
    """Whether all that declares an option leaves it off, and it is none of precision."""
    found = project.memo(declared_options, (module, name))
    said = set(name.lower().split("_"))
    return bool(found) and said.isdisjoint(SWITCHING) and all(map(_is_off_by_default, found))


def _is_off_by_default(option: Option) -> bool:
    default = option.default
    plain = isinstance(default, ast.Constant) and default.value is False
    return not option.value_when_absent if option.switch is not None else plain


def _needed_in(project: Project, module: ModuleNames) -> frozenset[str]:
    """The switches that the training of each program above a module needs."""
    programs = list(_programs_of(project, module)) if not is_test(module.path) else []
    found = [project.memo(_needed_by, program) for program in programs]
    return frozenset().union(*found)


def _programs_of(project: Project, module: ModuleNames) -> Iterator[ModuleNames]:
    """The module and those that import it, directly or through others, as far as nobody imports them."""
    waiting, seen = [module], {module}
    while waiting and len(seen) < MAX_MODULES:
        current = waiting.pop()
        above = [item for item in importers_of(project, current) if not is_test(item.path)]
        if not above or "__main__" in current.document.text:
            yield current
        waiting += [item for item in above if item not in seen]
        seen |= set(above)


def _needed_by(project: Project, program: ModuleNames) -> frozenset[str]:
    inside = reached_from(project, [program], MAX_MODULES)
    training = set(project.python_paths(WORDS))
    steps = [(item, step) for item in inside if item.path in training for step in _steps_in(item)]
    if not steps or _is_started(project, program):
        return frozenset()
    ways = [_switches_around(project, item, step, frozenset(inside), ()) for item, step in steps]
    known = [way for way in ways if way is not None]
    if not known or frozenset() in known:
        return frozenset()
    alone = (way for way in known if len(way) == 1)
    return frozenset.intersection(*known).union(*alone)


def _steps_in(module: ModuleNames) -> Iterator[ast.Call]:
    """The calls that train: a backward pass, ``trainer.train()``, ``trainer.fit(model)``."""
    for name in sorted(RUNS_STEP):
        yield from module.calls_by_name.get(name, ())
    for name in ("train", "fit"):
        for call in module.calls_by_name.get(name, ()):
            if isinstance(call.func, ast.Attribute) and "trainer" in ast.unparse(call.func.value).lower():
                yield call


def _switches_around(
    project: Project, module: ModuleNames, node: ast.AST, inside: frozenset[ModuleNames], way: tuple[ast.AST, ...]
) -> Switches:
    names = {text.rpartition(".")[2] for text, holds in guard_facts(module, node) if holds and "." in text}
    own = frozenset(name for name in names if name.isidentifier() and _is_switch(project, module, name))
    function = function_of(module, node)
    if not isinstance(function, FunctionNode):
        return own
    if function in way or len(way) >= MAX_HOPS:
        return None
    sites = [(item.module, item.call) for item in callers_of(project, module, function).sites]
    sites = sites or [(item, call) for item in inside for call in item.calls_by_name.get(function.name, ())]
    ways = [_switches_around(project, *site, inside, (*way, function)) for site in sites if site[0] in inside]
    known = [each for each in ways if each is not None]
    return own | frozenset.intersection(*known) if known else None


# --- launch lines -----------------------------------------------------------------------------------------------------


def is_seen_started(project: Project, module: ModuleNames) -> bool:
    """Whether something is seen to start a program that has a module."""
    return any(_is_started(project, program) for program in _programs_of(project, module))


def _is_started(project: Project, program: ModuleNames) -> bool:
    """Whether a script, a text, a configuration or other code of the project is seen to start a program."""
    path = program.path
    name = path.rpartition("/")[2]
    dotted = path.removesuffix(".py").replace("/", ".")
    for kind in (*LAUNCHING, FileKind.NOTEBOOK):
        for document in project.documents(kind, (name, dotted)):
            is_plain = kind in SAYING
            if any(_starts(line, path, dotted, is_plain=is_plain) for line in document.text.splitlines()):
                return True
    if any(_starts(line, path, dotted, is_plain=False) for line in program.document.text.splitlines() if name in line):
        return True
    others = (other for other in project.python_paths((name, f"{dotted}:")) if other != path and not is_test(other))
    return any(_says(module, name, dotted) for module in modules_at(project, others))


def _starts(line: str, path: str, dotted: str, *, is_plain: bool) -> bool:
    words = line.translate(MARKS).split()
    named = (_is_path(word, path) or word == dotted for word in words)
    return any(named) and (is_plain or any(starts_programs(word.strip("$!>%")) for word in words))


def _is_path(word: str, path: str) -> bool:
    """Whether a word names a file: by its name alone, or by the end of its path."""
    named = word.rpartition("$")[2].partition("}")[2] or word
    end = named.removeprefix("./").lstrip("/")
    while end.startswith("../"):
        end = end.removeprefix("../")
    return end.endswith(".py") and (f"/{path}".endswith(f"/{end}") or f"/{end}".endswith(f"/{path}"))


def _says(module: ModuleNames, name: str, dotted: str) -> bool:
    """Whether code names the file of a program in a string: ``[sys.executable, "train.py"]``."""
    strings = (node.value for node in module.of_type(ast.Constant) if isinstance(node.value, str))
    return any(name in text or f"{dotted}:" in text for text in strings)
