"""Whether a module that was made in float32 may have another dtype after all, by what the flow does not follow."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.flow.classes import ProjectClass
from ...codemod.flow.frame import Meeting
from ...codemod.flow.lattice import MadeHow
from ...codemod.python.arguments import receiver_of
from ...codemod.python.callers import callers_of
from ...codemod.python.functions import called_function, lineage
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain, last_name
from ...codemod.python.paths import function_of, position
from ...codemod.source.project import Project
from ...codemod.torch.weight_changes import moves_only, takes_over

CASTING = ("half", "bfloat16", "double", "to", "type", "load_state_dict")
"""Methods of modules with which another dtype may come; with ``assign=True`` that of a state."""


def is_recast_elsewhere(project: Project, meeting: Meeting) -> bool:
    """A helper that is given the module casts it, another method, or what else holds it; or a part of it is cast."""
    made = (meeting.odd.atom.made, meeting.meant.atom.made)
    called = attribute_chain(meeting.node.func) if isinstance(meeting.node, ast.Call) else None
    if MadeHow.MODULE not in made or called is None:
        return False
    owners = [called] if called[:-1] in ([], ["self"]) else [called, called[:-1]]  # ``net.encode(x)``
    return _is_cast_by_itself(project, meeting) or any(
        _is_cast_here(meeting, owner)
        or any(_is_cast_in_helper(project, meeting, call, owner) for call in meeting.module.calls)
        or any(_is_cast_with_holder(meeting, call, owner) for call in meeting.module.calls)
        for owner in owners
    )


def _casts(module: ModuleNames) -> Iterator[tuple[ast.Call, list[str]]]:
    """The calls that may give a module another dtype, each with the names of what they are methods of."""
    for name in CASTING:
        for call in module.calls_by_name.get(name, ()):
            owner = _owner(call)
            is_idle = moves_only(call) if name == "to" else name == CASTING[-1] and not takes_over(call)
            if owner and not is_idle:
                yield call, owner


def _is_cast_here(meeting: Meeting, called: list[str]) -> bool:
    """Whether a part is cast, or what ``self`` holds in another method."""
    module = meeting.module
    function = function_of(module, meeting.node)
    for call, owner in _casts(module):
        is_part = len(owner) > len(called) and owner[: len(called)] == called
        is_held = owner == called and owner[0] == "self" and function_of(module, call) is not function
        if (is_part or is_held) and _is_same(module, called[0], call, meeting.node):
            return True
    return False


def _is_same(module: ModuleNames, name: str, first: ast.AST, second: ast.AST) -> bool:
    """Whether a name is one variable at both places; ``self`` is that of one class."""
    scopes = module.scope_of(first), module.scope_of(second)
    if name == "self":
        return scopes[0].enclosing_class is scopes[1].enclosing_class
    here, there = (next((item.scope for item in scope.lookup(name)), None) for scope in scopes)
    return here is there


def _is_cast_by_itself(project: Project, meeting: Meeting) -> bool:
    """Whether the class of the module casts ``self`` in one of its methods."""
    detail = meeting.applied.detail if meeting.applied is not None else None
    if not isinstance(detail, ProjectClass):
        return False
    return any(
        owner == ["self"] and module.scope_of(call).enclosing_class is scope
        for module, scope in lineage(project, detail.module, detail.scope)
        for call, owner in _casts(module)
    )


def _is_cast_with_holder(meeting: Meeting, call: ast.Call, called: list[str]) -> bool:
    """Whether the module is given to another object, and that is cast: ``Pipeline(vae=vae).to(torch.float16)``."""
    module = meeting.module
    if not _is_given(meeting, call, called):
        return False
    statement = module.statement_of(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    holders = [chain for target in targets if (chain := attribute_chain(target)) is not None]
    return any(owner in holders and _is_same(module, owner[0], cast, call) for cast, owner in _casts(module)) or any(
        isinstance(item, ast.Call)
        and receiver_of(item, *CASTING[:-1]) is not None
        and not (last_name(item.func) == "to" and moves_only(item))
        for item in module.ancestors(call)
    )


def _is_given(meeting: Meeting, call: ast.Call, called: list[str]) -> bool:
    given = [*call.args, *(item.value for item in call.keywords)]
    named = (item for item in given if isinstance(item, ast.Name | ast.Attribute))
    is_given = any(attribute_chain(item) == called for item in named)
    return is_given and _is_same(meeting.module, called[0], call, meeting.node)


def _is_cast_in_helper(project: Project, meeting: Meeting, call: ast.Call, called: list[str]) -> bool:
    """Whether a function of the project is given the module, and casts that parameter."""
    module = meeting.module
    if not _is_given(meeting, call, called):
        return False
    target = called_function(project, module, call)
    names = {name for name, item in target.arguments(call).items() if attribute_chain(item) == called} if target else ()
    return target is not None and any(
        owner[0] in names and function_of(target.module, cast) is target.node for cast, owner in _casts(target.module)
    )


def is_given_in_float32(project: Project, meeting: Meeting, said: ast.Attribute) -> bool:
    """``vae.dtype`` of a parameter, where each caller casts what it passes to float32: ``vae.to(torch.float32)``."""
    function = function_of(meeting.module, said) if said in meeting.module.parents else None
    if not isinstance(function, FunctionNode) or not isinstance(said.value, ast.Name) or said.attr != "dtype":
        return False
    name, callers = said.value.id, callers_of(project, meeting.module, function)
    given = [(site, site.target.arguments(site.call).get(name)) for site in callers.sites]
    return (
        bool(given)
        and callers.complete
        and all(item is not None and _is_wide_before(site.module, site.call, item) for site, item in given)
    )


def _is_wide_before(module: ModuleNames, call: ast.Call, given: ast.expr) -> bool:
    """Whether the last cast of what is passed, above the call, is one to float32."""
    chain, function = attribute_chain(given), function_of(module, call)
    floats = [item for item in module.calls_inside.get((function, "float"), ()) if _owner(item) == chain]
    casts = [item for item, owner in _casts(module) if owner == chain and function_of(module, item) is function]
    above = [item for item in (*casts, *floats) if position(item) < position(call)]
    last = max(above, key=position, default=None)
    words = [*last.args, *(item.value for item in last.keywords)] if last is not None else []
    return last in floats or any(module.qualified(word) in ("torch.float32", "torch.float") for word in words)


def _owner(call: ast.Call) -> list[str] | None:
    return attribute_chain(call.func.value) if isinstance(call.func, ast.Attribute) else None
