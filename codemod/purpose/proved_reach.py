"""Whether some run that the project gives comes to a place: the one question that all rules about crashes ask.

Published programs mostly run. What would raise is therefore nearly always code that no run comes to, or a branch that
no run takes: an argument that nobody passes, an option that no launch line and no configuration switches on, a function
that nothing calls. Nothing is said of a place unless each step from a program to it can be followed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from ..python.arguments import hides_arguments
from ..python.callers import callers_of
from ..python.functions import all_bases, class_of
from ..python.names import FunctionNode, ModuleNames, Scope, definition_of, modules_with, resolve
from ..python.paths import guards
from ..source.documents import FileKind
from ..source.facts import fact
from ..source.project import Project
from .files import is_test
from .imports import importers_of
from .looked_up import is_collected, is_looked_up, is_served
from .outcomes import is_seen_to_come_out
from .switches import is_spelled

MAX_HOPS = 4
"""How many calls up a function is followed."""
ProvedReachTest = Callable[[Project, tuple[ModuleNames, ast.AST]], bool]
"""Whether the tests around a place in its function let it run."""
PACKAGING = ("[project]", "[build-system]", "[tool.poetry]")
"""Sections of ``pyproject.toml`` that make a project one for others to install."""
CALLED_BY_OTHERS = ("forward", "__call__", "__init__", "__getitem__", "__iter__", "__next__", "__enter__", "backward")
"""Methods that are called under another name, or by a library."""
CALLED_BY_TORCH = (
    *("_apply", "_load_from_state_dict", "_save_to_state_dict", "load_state_dict", "state_dict", "get_extra_state"),
    *(
        "set_extra_state",
        "extra_repr",
        "parameters",
        "reset_parameters",
        "train",
        "eval",
        "jvp",
        "setup_context",
        "vmap",
    ),
)
"""Methods that torch calls of classes which stand on its own."""
CALLED_BY_TRANSFORMERS = (
    *("_", "get_", "set_", "prepare_", "resize_", "tie_", "gradient_", "enable_", "disable_", "init_", "can_", "is_"),
    *("generate", "floating_point_ops", "num_parameters", "save_pretrained", "from_pretrained", "invert_", "post_init"),
)
"""How the names of methods begin that transformers calls of models."""

WRAPPING = (
    *("torch.", "functools.", "contextlib.", "contextmanager", "asynccontextmanager", "dataclass", "total_ordering"),
    *("staticmethod", "classmethod", "property", "final"),
)
"""How decorators begin that only change what stands below them."""


def is_reached(project: Project, module: ModuleNames, node: ast.AST, runs: ProvedReachTest | None = None) -> bool:
    """Whether a run of the project comes to ``node``, as far as calls, arguments and options tell.

    ``runs`` asks more of each place on the way than `can_run`.
    """
    return not is_test(module.document.path) and _is_reached(project, module, node, runs or _can_run, ())


def can_run(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether each test around ``node`` in its function can come out so that it runs."""
    return project.memo(_can_run, (module, node))


def _is_reached(
    project: Project, module: ModuleNames, node: ast.AST, runs: ProvedReachTest, way: tuple[ast.AST, ...]
) -> bool:
    if not project.memo(runs, (module, node)):
        return False
    function = module.scope_of(node).function.node
    if not isinstance(function, FunctionNode) or len(way) >= MAX_HOPS or function in way:
        return True
    sites = [site for site in callers_of(project, module, function).sites if not is_test(site.module.document.path)]
    if not sites:
        return project.memo(_is_named, (module, function, runs, len(way)))
    if any(_is_reached(project, site.module, site.call, runs, (*way, function)) for site in sites):
        return True
    if any(_is_reached(project, *use, runs, (*way, function)) for use in _handed(project, module, function)):
        return True
    return project.memo(_is_computed, (module, function, runs, len(way)))


def _handed(project: Project, module: ModuleNames, function: FunctionNode) -> list[tuple[ModuleNames, ast.AST]]:
    """Where a function is handed on as a value, for others to call: ``launch(args, main)``, ``mp.spawn(main)``."""
    uses = _uses(project, module, function.name, function) if module.scopes[function].enclosing_class is None else []
    return [(other, load) for other, load in uses if isinstance(load, ast.Name) and _is_handed_on(other, load)]


def _can_run(project: Project, asked: tuple[ModuleNames, ast.AST]) -> bool:
    module, node = asked
    return not _stands_in(module, node) and all(
        is_seen_to_come_out(project, module, guard.test, guard.holds)
        and (not guard.holds or _is_chosen(project, guard.test))
        for guard in guards(module, node)
    )


def _stands_in(module: ModuleNames, node: ast.AST) -> bool:
    """Whether it only runs where a package is missing: ``except ImportError``."""
    handlers = (item.type for item in module.ancestors(node) if isinstance(item, ast.ExceptHandler) and item.type)
    return any("ImportError" in text or "ModuleNotFound" in text for text in map(ast.unparse, handlers))


def _is_chosen(project: Project, test: ast.expr) -> bool:
    """Whether something but comparisons spells one of the words that ``kind == "word"`` asks for."""
    if isinstance(test, ast.BoolOp):
        parts = [_is_chosen(project, item) for item in test.values]
        return any(parts) if isinstance(test.op, ast.Or) else all(parts)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq | ast.In) or len(test.ops) > 1:
        return True
    right = test.comparators[0]
    items = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
    words = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return len(words) < len(items) or "__main__" in words or any(project.memo(is_spelled, word) for word in words)


def _is_named(project: Project, asked: tuple[ModuleNames, FunctionNode, ProvedReachTest, int]) -> bool:
    """Whether code outside of tests reads the name of a function, or of its class where others call its method.

    What is read only behind switches that are off, or in what no run comes to, is not used. A file that is no program
    is written for others, who may call all of it, unless it is no package and the programs beside it do not use it.
    """
    module, function, runs, hops = asked
    if function.decorator_list and not _only_wraps(function):
        return True
    inner = module.scopes[function].parent
    if inner is not None and isinstance(inner.node, FunctionNode):
        return function.name in module.name_loads
    names, owner = tuple(_names_of(project, module, function)), module.scopes[function].enclosing_class
    uses = [_uses(project, module, name, function) for name in names]
    way = (function,) * (hops + 1)
    if any(_is_reached(project, *use, runs, way) for found in uses for use in found):
        return True
    if not any(uses) and any(project.memo(is_spelled, name) for name in names):
        return True
    if _is_taken_in(project, module, owner, names) or project.memo(_is_computed, asked):
        return True
    return not any(uses) and _is_for_others(project, module, function)


def _uses(
    project: Project, module: ModuleNames, name: str, function: FunctionNode
) -> list[tuple[ModuleNames, ast.AST]]:
    """Where code outside of tests, and of the function itself, reads a name."""
    own, found = set(ast.walk(function)), []
    is_plain = module.scopes[function].enclosing_class is None
    for other in (item for item in modules_with(project, (name,)) if not is_test(item.path)):
        loads: list[ast.AST] = [*other.name_loads.get(name, []), *other.attribute_loads.get(name, [])]
        found += [
            (other, load)
            for load in loads
            if load not in own and not _is_of_torch(other, load)
            if not is_plain or not _is_of_another(project, other, load, function)
        ]
    return found


def _is_of_another(project: Project, module: ModuleNames, load: ast.AST, function: FunctionNode) -> bool:
    """Whether a name is another function's: what the file defines or imports under it, or a call that lacks arguments
    (``model.train()`` of ``def train(model, loader)``)."""
    call = module.parents.get(load)
    if isinstance(load, ast.Name):
        found = definition_of(project, module, load)
        bindings = found[0].defined(found[1]) if found is not None else module.bindings_of(load)
        return any(isinstance(item.node, ast.FunctionDef) for item in bindings) and all(
            item.node is not function for item in bindings
        )
    if not isinstance(call, ast.Call) or call.func is not load or hides_arguments(call):
        return False
    needed = [*function.args.posonlyargs, *function.args.args][: -len(function.args.defaults) or None]
    return len(call.args) + len(call.keywords) < len(needed)


def _is_of_torch(module: ModuleNames, load: ast.AST) -> bool:
    """``torch.autocast``: what it is called says nothing of a function of the project that has the same name."""
    return (module.qualified(load) or "").startswith("torch.")


def _is_taken_in(project: Project, module: ModuleNames, owner: Scope | None, names: Sequence[str]) -> bool:
    """Whether a decorator, or a base, has a class whose name is all that others would need of it."""
    node = owner.node if owner is not None else None
    if owner is None or not isinstance(node, ast.ClassDef) or node.name not in names:
        return False
    return not _only_wraps(node) or is_collected(project, module, owner)


def _is_computed(project: Project, asked: tuple[ModuleNames, FunctionNode, ProvedReachTest, int]) -> bool:
    """Whether code that runs finds a function, or its class, under a name that it computes."""
    module, function, runs, hops = asked
    names, owner = tuple(_names_of(project, module, function)), module.scopes[function].enclosing_class

    def comes(other: ModuleNames, node: ast.AST) -> bool:
        return _is_reached(project, other, node, runs, (function,) * (hops + 1))

    return is_looked_up(project, module, owner, names, comes) or is_served(project, module, owner, function.name, comes)


def _names_of(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[str]:
    """The name under which a function is used: that of its class where a library or an operator calls the method."""
    owner = module.scopes[function].enclosing_class
    by_class = owner is not None and (function.name in CALLED_BY_OTHERS or function.name.startswith("__"))
    if not by_class:
        yield function.name
    name = owner.node.name if owner is not None and isinstance(owner.node, ast.ClassDef) else ""
    loads = module.name_loads.get(name, ()) if name else ()
    if owner is None or not name:
        return
    if by_class or _has_hooks(project, module, owner, function) or any(_is_handed_on(module, load) for load in loads):
        yield name


def _has_hooks(project: Project, module: ModuleNames, owner: Scope, function: FunctionNode) -> bool:
    """Whether a base of a class may call a method by its name: one of a library, or one of torch that knows it."""
    return any(
        class_of(project, holder, base) is None and _may_call(project, holder, base, function.name)
        for holder, base in all_bases(project, module, owner)
    )


def _may_call(project: Project, module: ModuleNames, base: ast.expr, name: str) -> bool:
    named = resolve(project, module, base) or ast.unparse(base)
    if named in ("abc.ABC", "object"):
        return False
    of_model = named.startswith("transformers.") and named.endswith("PreTrainedModel")
    if of_model or named.startswith(("torch.nn.", "torch.autograd.", "torch.utils.data.")):
        return name in CALLED_BY_TORCH or (of_model and name.startswith(CALLED_BY_TRANSFORMERS))
    return True


def _is_handed_on(module: ModuleNames, load: ast.AST) -> bool:
    """Whether a class is an argument of a call: ``fire.Fire(App)`` calls its methods by name."""
    parent = module.parents[load]
    return isinstance(parent, ast.keyword) or (isinstance(parent, ast.Call) and load in parent.args)


def _is_for_others(project: Project, module: ModuleNames, function: FunctionNode) -> bool:
    """Whether others may call what nothing here does: of what is installed, classes and what some file exports."""
    if project.memo(_is_program, module):
        return False
    if is_installed(project, module.path):
        in_class = module.scopes[function].enclosing_class is not None
        return in_class or _is_exported(project, module, function.name)
    return not (has_programs(project) or project.memo(_serves_program, module))


def _is_exported(project: Project, module: ModuleNames, name: str) -> bool:
    """Whether a file outside of tests imports a function by its name, or all that its module has."""
    near = (item for item in modules_with(project, (name,)) if item is not module and not is_test(item.path))
    return any(name == (item.qualified or "").rpartition(".")[2] for other in near for item in other.imports) or any(
        other.star_imports and not is_test(other.path) for other in importers_of(project, module)
    )


@fact
def has_programs(project: Project) -> bool:
    """Whether the project shows how it is run."""
    return any(not is_test(document.path) for document in project.python_documents(("__main__",)))


def is_installed(project: Project, path: str) -> bool:
    """Whether a file lies in what others install; a package that is kept in a folder says nothing of the rest."""
    return path.startswith(project.fact(_package_folders))


def _package_folders(project: Project) -> tuple[str, ...]:
    """The folders, with their slash, that a manifest makes a package."""
    setups = [path for path in project.paths if path.rpartition("/")[2] in ("setup.py", "setup.cfg")]
    listed = project.documents(FileKind.TOML, PACKAGING)
    tables = [item.path for item in listed if any(word in item.text for word in PACKAGING)]
    return tuple(path[: path.rfind("/") + 1] for path in (*setups, *tables))


def _serves_program(project: Project, module: ModuleNames) -> bool:
    """Whether some program imports a file, also through others."""
    found = {module: None}
    for _ in range(MAX_HOPS):
        near = dict.fromkeys(other for item in found for other in importers_of(project, item))
        if any(project.memo(_is_program, item) for item in near):
            return True
        if near.keys() <= found.keys():
            return False
        found |= near
    return False


def _is_program(_project: Project, module: ModuleNames) -> bool:
    """Whether a file runs something by itself: what its program leaves out, nobody else can be counted on to call."""
    trains = any(
        module.scope_of(call).function is module.module_scope for call in module.calls_by_name.get("backward", ())
    )
    return trains or any(
        (isinstance(item, ast.Expr) and isinstance(item.value, ast.Call))
        or (isinstance(item, ast.If) and "__name__" in ast.unparse(item.test))
        for item in module.tree.body
    )


def _only_wraps(node: FunctionNode | ast.ClassDef) -> bool:
    """``@torch.no_grad()``, ``@staticmethod``, ``@dataclass``: decorators that hand what is below to nobody."""
    return all(ast.unparse(item).startswith(WRAPPING) for item in node.decorator_list)
