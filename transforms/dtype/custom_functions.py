"""The project's own ``torch.autograd.Function`` classes: forward, backward, and what decorates them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.purpose.files import is_test
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain, names_of, positional, resolve
from ...codemod.source.facts import fact
from ...codemod.source.project import Project
from .amp_decorators import AmpDecorator, amp_decorator

_BASES = {
    "torch.autograd.Function",
    "torch.autograd.function.Function",
    "torch.autograd.function.InplaceFunction",
    "torch.autograd.function.NestedIOFunction",
}


@dataclass(frozen=True, slots=True, eq=False)
class CustomFunction:
    """A class that defines its own forward and backward pass."""

    module: ModuleNames
    node: ast.ClassDef
    forward: FunctionNode
    backward: FunctionNode
    forward_amp: AmpDecorator | None
    backward_amp: AmpDecorator | None
    separate_context: bool
    """Whether ``setup_context`` fills the context, so that ``forward`` has none (torch 2.0 on)."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def context(self) -> str:
        """The name of the context parameter of ``backward``."""
        return next((item.arg for item in positional(self.backward.args)), "")

    @property
    def forward_context(self) -> str:
        """The name of the context parameter of ``forward``; "" when it has none."""
        return "" if self.separate_context else next((item.arg for item in positional(self.forward.args)), "")

    @property
    def inputs(self) -> list[ast.arg]:
        """The parameters of ``forward`` less the context."""
        names = positional(self.forward.args)
        return names if self.separate_context else names[1:]


@fact
def custom_functions(project: Project) -> tuple[CustomFunction, ...]:
    """Every such class that defines both passes, tests left out."""
    documents = project.python_documents(("autograd",), ("def backward(",), ("def forward(",), ("Function",))
    modules = (names_of(project, document) for document in documents if not is_test(document.path))
    return tuple(found for module in modules for found in _functions_of(project, module))


def _functions_of(project: Project, module: ModuleNames) -> Iterator[CustomFunction]:
    for node in module.scopes:
        if not isinstance(node, ast.ClassDef) or not any(_is_base(project, module, base) for base in node.bases):
            continue
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        forward, backward = methods.get("forward"), methods.get("backward")
        if forward is None or backward is None:
            continue
        yield CustomFunction(
            module,
            node,
            forward,
            backward,
            amp_decorator(project, module, forward),
            amp_decorator(project, module, backward),
            "setup_context" in methods,
        )


def _is_base(project: Project, module: ModuleNames, base: ast.expr) -> bool:
    chain = attribute_chain(base)
    return chain is not None and "Function" in chain[-1] and resolve(project, module, base) in _BASES
