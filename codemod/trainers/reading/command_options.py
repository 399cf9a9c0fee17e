"""Where the option that code reads is declared, and what command lines give it.

Looked for by name in the module that reads the option, then in the modules it has to do with; the first of these
places that declares it counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...purpose.files import purpose_of
from ...purpose.imports import connected_modules
from ...python.names import FunctionNode, ModuleNames
from ...python.options import Option, options_in
from ...source.project import Project
from .launch_flags import flags_given
from .source import Source


def declared_options(
    project: Project, module: ModuleNames, name: str, function: FunctionNode | None = None
) -> Sequence[Option]:
    """The declarations of ``name``, seen from ``module``; with ``function`` only click options of that command."""
    if function is not None:
        listed = options_in(project, module).get(name, ())
        return [item for item in listed if item.node in function.decorator_list or item.function is function]
    for other in connected_modules(project, module):
        if other is module or not purpose_of(other.document.path).is_left_alone:
            found = options_in(project, other).get(name)
            if found:
                return found
    return ()


def values_given(project: Project, option: Option) -> Iterator[Source]:
    """The value of an absent switch, and every use of the option's flags in launch scripts; not the written default."""
    if option.switch is not None:
        absent = option.default.value if isinstance(option.default, ast.Constant) else option.switch
        value = absent if isinstance(absent, bool) else option.switch
        module = option.module
        yield Source("option", module.path, module.span(option.node), option.name, value, "", is_switch=True)
    if option.flags:
        yield from flags_given(project, option.module, option.flags)
