"""Options of a command line that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeGuard

from ....codemod.model import Draft
from ....codemod.purpose.imports import importers_of, reached_from
from ....codemod.python.arguments import receiver_of
from ....codemod.python.bindings import only_value
from ....codemod.python.callers import callers_of
from ....codemod.python.functions import called_function, class_of
from ....codemod.python.names import FunctionNode, ModuleNames, attribute_chain, last_name, string_of
from ....codemod.python.options import SETTINGS, Option, options_in
from ....codemod.source.project import Project
from ....codemod.trainers.reading.shown_lines import shown_values
from .scaler_alone import switched_scaler
from .words import is_asked, is_on_anyway, is_refused, names_precision

MAX_MODULES = 60
"""Modules in which a name is looked for; programs of more are passed over."""
ACTIONS = ("store_true", "store_false", "store", "store_const")
NO_EFFECT = ("deprecated", "unused", "not used", "no effect", "ignored", "compat", "reserved", "not implemented")
"""Words of a help that says so itself."""
PRINTS = ("print", "pprint", "str", "repr", "info", "debug", "warning", "log", "write", "dumps", "dump", "safe_dump")
PARTS_OF_TEXT = (ast.FormattedValue, ast.JoinedStr, ast.keyword, ast.Tuple, ast.BinOp)
RECORDS = ("format", "pformat", "add_text", "add_hparams", "log_hyperparams", "save_hyperparameters", "init_trackers")
LOOKS = ("isinstance", "hasattr", "len", "type", "sorted", "items", "filter")
DISPLAYS = frozenset((*PRINTS, *RECORDS, *LOOKS))
"""Functions that show or save what they are passed."""
TRACKERS = ("wandb", "mlflow", "logging", "logger", "json", "yaml", "pickle", "pprint")
ALMOST, MAX_DIFFERENCE = 0.8, 4
"""How like another name is to be, and in how many letters shorter or longer, to be a slip of it."""
PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args")


def unread_options(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``parser.add_argument("--fp16", ...)`` where no code of the program says ``fp16`` again."""
    if not module.calls_by_name.get("add_argument"):
        return
    declared = options_in(project, module)
    wanted = [option for group in declared.values() for option in group if _is_wanted(option)]
    program = _program_of(project, module) if wanted else ()
    if not program or any(_hands_out(project, other) for other in program):
        return
    functions = [scope for other in program for scope in other.scopes]
    for option in wanted:
        if any(is_on_anyway(project, other, other.tree, option.name) for other in program):
            continue
        is_read = any(_reads(other, option, declared) for other in program) or is_refused(option.name, functions)
        scaler = switched_scaler(project, program, option) if is_read else None
        if (not is_read or scaler is not None) and is_asked_for(project, module, option):
            reach = f"nothing in the program reads {option.name}"
            if scaler is not None:
                reach = "it switches a GradScaler, and all that this scales is computed in float32"
            evidence = [scaler.module.place(scaler.call, "the scaler is made here")] if scaler is not None else []
            yield Draft.at(module, option.node, f"{option.flags[0]} has no effect: {reach}", evidence)


def _is_wanted(option: Option) -> bool:
    if option.kind != "option" or not option.flags or not isinstance(option.node, ast.Call):
        return False
    given = {item.arg: item.value for item in option.node.keywords}
    action = given.get("action")
    text = ast.unparse(given["help"]).lower() if "help" in given else ""
    is_plain = action is None or (isinstance(action, ast.Constant) and action.value in ACTIONS)
    is_silenced = "suppress" in text or any(word in text for word in NO_EFFECT)
    is_spread = None in given or any(isinstance(item, ast.Starred) for item in option.node.args)
    is_named = isinstance(option.node.func, ast.Attribute) and option.node.func.attr == "add_argument"
    return (
        is_named and is_plain and not is_silenced and not is_spread and names_precision(option.name, action is not None)
    )


def is_asked_for(project: Project, module: ModuleNames, option: Option) -> bool:
    """Whether a run that the project gives asks for the precision: by default, or in a launch line."""
    default = option.default.value if isinstance(option.default, ast.Constant) else None
    by_default = isinstance(default, str | int) and is_asked(default)
    if by_default if option.switch is None else option.value_when_absent:
        return True
    return any(is_asked(value or True) for value in shown_values(project, module, option.name))


def _program_of(project: Project, module: ModuleNames) -> Sequence[ModuleNames]:
    """The modules that may read what the parser gives: those that run with it; none where that is not clear."""
    starts = [module]
    for item in starts:  # a parser that one file begins may be finished in another, for programs in a third
        starts += [other for other in importers_of(project, item) if other not in starts and len(starts) < MAX_MODULES]
    found = reached_from(project, starts, MAX_MODULES)
    is_parsed = any(other.calls_by_name.get(name) for other in found for name in PARSING)
    is_known = all(project.python_path(item, module.path) for item in module.star_imports)
    return found if is_parsed and len(found) < MAX_MODULES and is_known else ()


def _reads(module: ModuleNames, option: Option, declared: Collection[str]) -> bool:
    """Whether an attribute of that name is read, or a string of that text asks for it.

    Of whatever object; a part of a library (``torch.cuda.amp``) reads no option, nor does what a class stores itself.
    """
    loads = (
        node
        for node in module.attribute_loads.get(option.name, ())
        if not _is_stored_here(module, node) and not is_only_shown(module, node)
    )
    if any(module.qualified(node) is None for node in loads) or _is_misspelled(module, option, declared):
        return True
    spellings = (option.name, option.name.replace("_", "-"))
    return any(
        isinstance(node.value, str) and node.value.lstrip("-") in spellings and _asks(module, node)
        for node in module.of_type(ast.Constant)
    )


def is_only_shown(module: ModuleNames, node: ast.AST) -> bool:
    """``print("fp16:", args.fp16)``, ``log.info(f"{args.fp16}")``: a statement that does nothing else with it."""
    above = module.parents.get(node)
    while isinstance(above, PARTS_OF_TEXT) or _formats(above):
        node, above = above, module.parents.get(above)
    shows = isinstance(above, ast.Call) and above.func is not node and last_name(above.func) in PRINTS
    return shows and above is not None and isinstance(module.parents.get(above), ast.Expr)


def _formats(node: ast.AST | None) -> TypeGuard[ast.Call]:
    """``"fp16: {}".format(args.fp16)``."""
    return string_of(receiver_of(node, "format")) is not None


def _is_stored_here(module: ModuleNames, node: ast.Attribute) -> bool:
    """``self.fp16`` of a class that stores one."""
    owner = module.scope_of(node).enclosing_class
    is_own = isinstance(node.value, ast.Name) and node.value.id == "self" and owner is not None
    return is_own and owner is not None and bool(module.stores_by_class.get((owner, node.attr)))


def _is_misspelled(module: ModuleNames, option: Option, declared: Collection[str]) -> bool:
    """Whether a namespace is read under a name so close that the option was intended, which is another mistake.

    The name of another option is no slip: ``args.use_fp16`` beside ``--use_bf16``.
    """
    return any(
        SequenceMatcher(None, name, option.name).ratio() > ALMOST and any(is_namespace(node.value) for node in nodes)
        for name, nodes in module.attribute_loads.items()
        if abs(len(name) - len(option.name)) < MAX_DIFFERENCE and name not in declared
    )


def _asks(module: ModuleNames, node: ast.Constant) -> bool:
    """``args["fp16"]``, ``getattr(args, "fp16")``, ``"--fp16" in sys.argv``; not what is compared or chosen."""
    above = module.parents.get(node)
    if isinstance(above, ast.Compare):
        return str(node.value).startswith("--")
    if isinstance(above, ast.Call):
        name = (attribute_chain(above.func) or [""])[-1]
        return name != "add_argument"
    return isinstance(above, ast.Subscript | ast.Tuple | ast.List | ast.Set | ast.Dict) and not _is_choice(
        module, above
    )


def _is_choice(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a list stands in a declaration, or something is looked for in it."""
    above = module.parents.get(node)
    if isinstance(above, ast.keyword):
        above = module.parents.get(above)
        name = attribute_chain(above.func) if isinstance(above, ast.Call) else None
        return name is not None and name[-1] == "add_argument"
    return isinstance(above, ast.Compare)


# --- namespaces that leave the program --------------------------------------------------------------------------------


def _hands_out(project: Project, module: ModuleNames) -> bool:
    """Whether a whole namespace goes where it cannot be seen what is read of it."""
    if any(_names_class(item) for item in module.of_type(ast.ClassDef)):
        return True
    for call in module.calls:
        passed = [*call.args, *(item.value for item in call.keywords)]
        whole = [item for item in passed if is_namespace(item) and not _is_other(project, module, item)]
        if whole and not _is_seen(project, module, call):
            return True
        if _reads_by_name(call):
            return True
    return any(_spreads(module, node) for node in module.of_type(ast.Attribute))


def _reads_by_name(call: ast.Call) -> bool:
    """``getattr(args, name)`` with a name that is not written there."""
    is_access = isinstance(call.func, ast.Name) and call.func.id in ("getattr", "setattr") and len(call.args) > 1
    return is_access and is_namespace(call.args[0]) and not isinstance(call.args[1], ast.Constant)


def _names_class(node: ast.ClassDef) -> bool:
    """Whether a parser of the project is a class of its own."""
    return any("ArgumentParser" in ast.unparse(base) or "Action" in ast.unparse(base) for base in node.bases)


def is_namespace(node: ast.expr) -> bool:
    if isinstance(node, ast.Starred):
        node = node.value
    if isinstance(node, ast.Call):
        name = (attribute_chain(node.func) or [""])[-1]
        if name in PARSING:
            return True
        return name in ("vars", "dict", "deepcopy", "copy", "asdict", "items") and any(map(is_namespace, node.args))
    chain = attribute_chain(node)
    if chain is None:
        return False
    return chain[-1] == "__dict__" or not SETTINGS.isdisjoint(chain[-1].lower().split("_"))


def _is_other(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether something that has such a name is certainly no namespace: ``training_args = TrainingArguments(...)``."""
    bindings = module.bindings_of(node)
    if len(bindings) == 1 and bindings[0].kind == "parameter" and isinstance(bindings[0].scope.node, FunctionNode):
        sites = callers_of(project, module, bindings[0].scope.node).sites
        passed = [site.target.arguments(site.call).get(bindings[0].name) for site in sites]
        return bool(passed) and not any(item is None or is_namespace(item) for item in passed)
    made = only_value(module, node)
    if not isinstance(made, ast.Call) or not (module.qualified(made.func) or "").rpartition(".")[2][:1].isupper():
        return False
    given = [*made.args, *(item.value for item in made.keywords)]
    return not any(map(is_namespace, given)) and class_of(project, module, made.func) is None


def _is_seen(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether what a call does with a namespace is known: the project's own code, or only shown and saved."""
    chain = attribute_chain(call.func) or [""]
    if any(item.arg is None and is_namespace(item.value) for item in call.keywords):
        return False
    if last_name(call.func) in DISPLAYS or chain[0] in TRACKERS:
        return True
    if (module.qualified(call.func) or "").startswith("torch."):
        return True  # ``SGD(params)``: torch reads no options of programs
    if chain[-1] in ("vars", "dict", "deepcopy", "copy", "asdict", "getattr", *PARSING):
        return True  # what getattr asks for has been looked at
    return called_function(project, module, call) is not None or class_of(project, module, call.func) is not None


def _spreads(module: ModuleNames, node: ast.Attribute) -> bool:
    """``self.__dict__.update(...)`` of a namespace."""
    return node.attr == "__dict__" and isinstance(module.parents.get(node), ast.Attribute | ast.keyword)
