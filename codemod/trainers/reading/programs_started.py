"""Programs that train though no launch line starts them, and the code that a program builds by a name.

A script asks for its own name; a package has a ``__main__.py``; a distribution installs commands. What a program uses
is seen by the names that it reads. Where these lead to no training step, one may be built from a string: by a registry,
or from a module that is imported by a computed name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...purpose.computed_names import imported_below, is_below
from ...purpose.files import is_test, purpose_of
from ...purpose.imports import importers_of, reached_from
from ...purpose.training import steps_in, training_modules
from ...python.names import FunctionNode, ModuleNames, attribute_chain, modules_at, modules_with, string_of
from ...python.reach import reached
from ...python.scopes import is_docstring
from ...source.documents import FileKind
from ...source.facts import fact, memo
from ...source.project import Project
from ..parsers.programs import is_main_guard
from .run_code import is_used

MAIN = "__main__"
"""What a program asks its own name for."""
ACTING = frozenset({"main", "step", "fit", "train", "parse_args", "parse_known_args", "Fire"})
"""Calls of a program that does something: it has a main function, an optimizer, or asks for its command line."""
MAX_MODULES = 40
"""How many modules of the project a script's imports are followed through."""
REGISTERING = "register"
"""Part of the name of what keeps a class for a string: ``@TRAINERS.register("plain")``."""
NO_ACTION = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
"""Statements at the top of a module that run nothing."""
COMMAND = re.compile(r"""^\s*["']?[\w.-]+["']?\s*=\s*["']?(?P<module>[A-Za-z_][\w.]*):[A-Za-z_]\w*""", re.MULTILINE)
"""``work-train = "work.cli:main"`` of pyproject.toml, setup.cfg and setup.py."""
COMMANDS = ("console_scripts", "project.scripts", "poetry.scripts")


@fact
def candidates(project: Project) -> tuple[str, ...]:
    """The files that somebody can start: by their name, as a package, as a command, as a plain script."""
    asking = (document.path for document in project.python_documents((MAIN,)))
    packages = (path for path in project.paths if path.rpartition("/")[2] == f"{MAIN}.py")
    plain = (module.document.path for module in training_modules(project) if _trains_at_top(project, module))
    calling = (module.document.path for module in _top_importers(project) if _calls_step(project, module))
    found = dict.fromkeys((*asking, *packages, *project.fact(_commands), *sorted(plain), *sorted(calling)))
    return tuple(path for path in found if not (purpose_of(path).is_foreign or _only_tests_itself(project, path)))


def _trains_at_top(project: Project, module: ModuleNames) -> bool:
    """Whether a script runs a training step as it is read: at its top, or in what is used there."""
    acting = [(module, item) for item in _acting(module) if any(isinstance(node, ast.Call) for node in ast.walk(item))]
    found = reached(project, acting) if acting else None
    return found is not None and any(found.holds(module, node) for node in steps_in(module))


def _top_importers(project: Project) -> Iterator[ModuleNames]:
    """The modules that import one which trains, have no training step and are imported by nobody."""
    trained = training_modules(project)
    near = dict.fromkeys(other for module in trained for other in importers_of(project, module))
    return (module for module in near if module not in trained and not importers_of(project, module))


def _calls_step(project: Project, module: ModuleNames) -> bool:
    """Whether a statement of a script calls what runs a step elsewhere; what it only passes on does not count."""
    statements = (
        node for item in _acting(module) for node in ast.walk(item) if isinstance(node, ast.Expr | ast.Assign)
    )
    called = [item.value.func for item in statements if isinstance(item.value, ast.Call)]
    found = reached(project, ((module, node) for node in called))
    trained = set(training_modules(project))
    return any(
        found.holds(other, node)
        for other in (found.modules if called else ())
        for node in (steps_in(other) if other in trained else ())
    )


def _acting(module: ModuleNames) -> list[ast.stmt]:
    return [item for item in module.tree.body if not isinstance(item, NO_ACTION) and not is_docstring(item)]


def _commands(project: Project) -> tuple[str, ...]:
    """The modules whose functions a distribution installs as commands."""
    texts = [item.text for kind in (FileKind.TOML, FileKind.TEXT) for item in project.documents(kind, COMMANDS)]
    for module in modules_with(project, (COMMANDS[0],)):
        strings = (node.value for node in module.of_type(ast.Constant))
        texts += (value for value in strings if isinstance(value, str))
    named = (project.python_path(found["module"]) for text in texts for found in COMMAND.finditer(text))
    return tuple(dict.fromkeys(path for path in named if path is not None))


@memo
def is_program(project: Project, path: str) -> bool:
    """Whether a Python file does something when it is started."""
    if path in project.fact(_commands):
        return True
    if _only_tests_itself(project, path):
        return False
    for module in modules_at(project, [path]):
        if "__name__" in module.name_loads:
            return any(isinstance(module.parents.get(load), ast.Compare) for load in module.name_loads["__name__"])
        code = [item for item in module.tree.body if not is_docstring(item)]
        acts = any(isinstance(item, ast.Expr | ast.For | ast.With) for item in code)
        return acts and (not _is_imported(project, module) or _trains_at_top(project, module))
    return False


@memo
def trains_among_tests(project: Project, path: str) -> bool:
    """Whether a script stands among tests, is not named as one, and trains as it is read."""
    is_among = is_test(path) and not is_test(path.rpartition("/")[2])
    return is_among and any(_trains_at_top(project, module) for module in modules_at(project, [path]))


def _only_tests_itself(project: Project, path: str) -> bool:
    """Whether other code imports a module, and what it does as a script is to try out its own parts."""
    modules = [*modules_at(project, [path])]
    if path in project.fact(_commands) or not any(_is_imported(project, module) for module in modules):
        return False
    found = reached(project, ((module, node) for module in modules for node in module.tree.body if is_main_guard(node)))
    calls = ((each, call) for each in found.modules for name in ACTING for call in each.calls_by_name.get(name, ()))
    return bool(found.parts) and not any(found.holds(each, call) for each, call in calls)


def _is_imported(project: Project, module: ModuleNames) -> bool:
    """Whether code other than tests imports a module."""
    return any(not is_test(other.path) for other in importers_of(project, module))


@memo
def modules_of(project: Project, script: str) -> tuple[ModuleNames, ...]:
    """The script and the project's modules that it imports, near ones first."""
    starts = [*modules_at(project, [script])]
    return reached_from(project, starts, MAX_MODULES)


def uses_step_of(project: Project, script: str, module: ModuleNames) -> bool:
    """Whether a script uses a training step of a module, by the names that it reads."""
    rows = (module.document.span(node).row for node in steps_in(module))
    return any(is_used(project, script, module.document.path, row) for row in rows)


def rows_of_main(module: ModuleNames) -> Iterator[int]:
    """Where the functions and classes of a module stand that it calls when it is started."""
    guarded = (call for node in module.tree.body if is_main_guard(node) for call in ast.walk(node))
    names = [call.func.id for call in guarded if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)]
    bindings = (item for name in names for item in module.module_scope.bindings.get(name, ()))
    yield from (item.node.lineno for item in bindings if isinstance(item.node, FunctionNode | ast.ClassDef))


@memo
def built_by_name(project: Project, script: str) -> tuple[ModuleNames, ...]:
    """The modules from which a program builds what trains by a string, where it names no training step itself."""
    trained = training_modules(project)
    own = modules_of(project, script)
    mine = [module for module in own if module in trained]
    if any(uses_step_of(project, script, module) for module in mine):
        return ()
    registered = [module for module in mine if any(_registers(module, node) for node in steps_in(module))]
    prefixes = tuple(dict.fromkeys(prefix for module in own for prefix in _computed_imports(module)))
    imported = [module for module in trained if any(is_below(module.path, prefix) for prefix in prefixes)]
    named = {path for module in own for path in _looked_up_in(project, module)}
    return tuple(dict.fromkeys((*registered, *imported, *(module for module in mine if module.path in named))))


def _looked_up_in(project: Project, module: ModuleNames) -> Iterator[str]:
    """The modules of which a part is picked by a computed name: ``getattr(trainers, config.trainer)``."""
    for call in module.calls_by_name.get("getattr", ()):
        name = module.qualified(call.args[0]) if len(call.args) > 1 else None
        path = project.python_path(name, module.path) if name and not isinstance(call.args[1], ast.Constant) else None
        if path is not None:
            yield path


def _registers(module: ModuleNames, node: ast.AST) -> bool:
    """Whether the class or function around a training step is kept under a name by its decorator."""
    holders = (item for item in (node, *module.ancestors(node)) if isinstance(item, ast.ClassDef | ast.FunctionDef))
    decorators = (item for holder in holders for item in holder.decorator_list)
    called = (item.func if isinstance(item, ast.Call) else item for item in decorators)
    return any(REGISTERING in part.lower() for item in called for part in attribute_chain(item) or ())


def _computed_imports(module: ModuleNames) -> Iterator[str]:
    """``models/`` of ``import_module("models." + name)``, ``models/a.py`` of ``import_module("models.a")``."""
    for call in module.calls_by_name.get("import_module", ()):
        text = string_of(call.args[0]) if call.args else ""
        if text is not None and "." in text.strip("."):
            yield text.replace(".", "/") + ".py"
        elif text is None and "/" in imported_below(module, call):
            yield imported_below(module, call)
