"""An autograd Function does not carry autocast from its forward to its backward pass.

## What goes wrong

Training stops in `loss.backward()`: `expected m1 and m2 to have the same dtype, but got: c10::BFloat16 != float`, or on
a GPU `expected mat1 and mat2 to have the same dtype`. With only half of the pair of decorators:
`AttributeError: 'MyFunctionBackward' object has no attribute '_fwd_used_autocast'`.

## Why

Inside an autocast region the products of `forward` are 16-bit while what it saves keeps its own dtype: float32 weights.
`loss.backward()` stands outside of the region, so nothing casts in `backward`, and a 16-bit gradient meets a float32
weight. `torch.amp.custom_fwd` notes whether autocast was on, `torch.amp.custom_bwd` switches it back on (PyTorch's AMP
examples, "Autocast and Custom Autograd Functions"). `custom_bwd` reads what `custom_fwd` has noted and cannot do
without it.

## Fix

`decorate` [safe]: the missing decorators are added, in the spelling of the one that is there; a wrong one is replaced.
Runs without autocast stay as they are. `torch.amp.custom_fwd` needs torch 2.4: where the project's pins allow older
releases, `torch.cuda.amp.custom_fwd` is written.

`decorate` [unsafe]: the same where neither pass is decorated and the manifests allow releases of torch on both sides of
2.4, from which on the old names warn, or name none.

`float32` [unsafe]: a Function whose compiled kernel receives both 16-bit and float32 tensors is decorated with
`custom_fwd(cast_inputs=torch.float32)`: autocast does not reach into compiled code.

`bfloat16` [unsafe]: `cast_inputs=torch.float16` becomes `torch.bfloat16` in a project whose every run is bfloat16. A
Function that calls a compiled kernel is reported only: the kernel may exist for float16 alone.

## Not flagged

Functions whose backward multiplies nothing, or only tensors of one dtype: straight-through estimators, gradient
reversal, all-reduce, checkpointing, attention that writes into a tensor like its input. Functions that are never
applied, that ask for autocast themselves, or that are only applied where autocast is off, where nothing keeps
gradients (evaluation), in runs of DeepSpeed (whose engine casts the weights and opens no region), or behind a switch
that is a constant False. A file that nothing in a project with programs imports or names. `cast_inputs=torch.float32`
(also without `custom_bwd`: all is float32 then). Decorators that have only an old spelling (see deprecated-cuda-amp).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.flow.autograd import differ
from ....codemod.flow.frame import MixedProduct
from ....codemod.flow.lattice import Role, Value
from ....codemod.half.enclosed import can_be_inside
from ....codemod.model import Edit, Finding, Fix, Rule, Span
from ....codemod.proof.needs import Known
from ....codemod.proof.proving import proved
from ....codemod.purpose.entered import regions_around
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.runs import HalfProgram, is_switched_on, runs_around, uses
from ....codemod.purpose.steps import carries_nothing_back
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import BF16, FP16
from ..amp_decorators import BACKWARD, FORWARD, AmpDecorator
from ..custom_functions import (
    CustomFunction,
    applications,
    calls_compiled_code,
    checked_functions,
    compares_dtypes,
    is_applied_under_autocast,
    looks_after_itself,
    passes_of,
)
from .kernel_operands import mixed_kernel
from .sibling_decorators import SINCE, new_pair, sibling

_ATTRIBUTE = "_fwd_used_autocast"
OF_A_PAIR = ("fp16", "half", "float16")
"""``..._fp16`` stands beside a variant for other dtypes, and its callers choose."""


def check(project: Project) -> Iterator[Finding]:
    for function in checked_functions(project):
        forward, backward = function.forward_amp, function.backward_amp
        if forward is None and backward is not None and backward.kind == BACKWARD:
            yield from _only_backward(project, function, backward)
        elif forward is not None and forward.cast_inputs is not None:
            yield from _cast_to_half(project, function, forward)
        elif forward is None or forward.keeps_autocast:
            yield from _not_carried(project, function)
            yield from _mixed_operands(project, function)


def _only_backward(project: Project, function: CustomFunction, decorator: AmpDecorator) -> Iterator[Finding]:
    if not decorator.understood or function.separate_context or _sets_what_it_reads(function):
        return
    found = sibling(project, function.module, decorator, FORWARD)
    edits = [] if found is None else [function.module.decorate(function.forward, found[0]), *found[1]]
    yield rule.at(
        function.module,
        _header(function.module, function.forward),
        f"custom_bwd without custom_fwd: the first backward pass raises AttributeError: '{function.name}Backward' "
        f"object has no attribute '{_ATTRIBUTE}'",
        [function.module.place(decorator.node, "reads what custom_fwd recorded")],
        _fixes(project, edits, f"decorate forward with {found[0]}" if found else ""),
    )


def _sets_what_it_reads(function: CustomFunction) -> bool:
    """Whether the class notes it itself, or hands its context to another Function's forward."""
    context = function.forward_context
    for node in ast.walk(function.node):
        if isinstance(node, ast.Attribute) and node.attr == _ATTRIBUTE:
            return True
    for node in ast.walk(function.forward):
        if isinstance(node, ast.Call) and any(isinstance(item, ast.Name) and item.id == context for item in node.args):
            return True
    return False


# --- autocast is lost on the way --------------------------------------------------------------------------------------


def _not_carried(project: Project, function: CustomFunction) -> Iterator[Finding]:
    backward = function.backward_amp
    wrong = backward is not None and backward.kind == FORWARD and backward.cast_inputs is None and backward.understood
    if (backward is not None and not wrong) or compares_dtypes(function.node):
        return
    if _clash(project, function, only_bf16=True) is None:
        return  # to find what runs it costs more
    runs = _runs_inside(project, function)
    if function.forward_amp is None and (wrong or not runs):
        return
    clash = _clash(project, function, bool(runs) and all(run.dtypes == {BF16} for run in runs))
    if clash is None or not is_applied_under_autocast(project, function):
        return
    yield _lost(project, function, clash, runs)


def _runs_inside(project: Project, function: CustomFunction) -> tuple[HalfProgram, ...]:
    """The runs in whose region the Function can be applied: a program may apply it beside the region."""
    module, node = function.module, function.node
    places = applications(project, function)
    return tuple(
        run
        for run in runs_around(project, module, node)
        if is_switched_on(project, run) and not run.by_engine
        if run.region is None or not carries_nothing_back(run.region)
        if not uses(project, run, module, node) or any(_is_inside(project, run, *place) for place in places)
    )


def _is_inside(project: Project, run: HalfProgram, module: ModuleNames, node: ast.AST) -> bool:
    if not is_reached(project, module, node):
        return False
    direct = any(region is run.region for region in regions_around(project, module, node))
    return direct or can_be_inside(project, run, module, node)


def _clash(project: Project, function: CustomFunction, only_bf16: bool) -> MixedProduct | None:
    """The first product of backward whose operands have two dtypes after a forward pass under autocast."""
    passes = passes_of(project, function)
    for product in passes.backward.record.products.values() if passes is not None else ():
        tensors = [*product.operands, *([product.target] if product.target is not None else [])]
        pairs = [(mine, theirs) for index, (_, mine) in enumerate(tensors) for _, theirs in tensors[index + 1 :]]
        if not product.autocast and any(differ(*pair) or (only_bf16 and _is_halved(*pair)) for pair in pairs):
            return product
    return None


def _is_halved(one: Value, other: Value) -> bool:
    """Whether autocast computed one tensor, and the other one is cast to float16."""
    pair = [atom for atom in (one.only, other.only) if atom is not None]
    return {atom.role for atom in pair} == {Role.AUTOCAST, None} and any(atom.dtype == FP16 for atom in pair)


def _lost(project: Project, function: CustomFunction, clash: MixedProduct, runs: tuple[HalfProgram, ...]) -> Finding:
    module, document = function.module, function.module.document
    forward, backward = function.forward_amp, function.backward_amp
    evidence = [function.module.place(clash.node, _sentence(clash))]
    if forward is not None:
        evidence.append(function.module.place(forward.node, "forward runs under autocast as it was"))
    evidence += [run.place for run in runs[:1]]
    if forward is None:
        text = f"{function.name} multiplies under autocast, but its backward pass runs without it"
        where = _header(module, function.node)
    elif backward is None:
        text = f"the backward pass of {function.name} has no custom_bwd and runs without autocast"
        where = _header(module, function.backward)
    else:
        text = f"the backward pass of {function.name} is decorated with custom_fwd: autocast is not restored"
        where = document.span(backward.node)
    return rule.at(
        function.module,
        where,
        f"{text}: a 16-bit gradient meets what forward saved in float32, 'expected m1 and m2 to have the same dtype'",
        evidence,
        _carry(project, function),
    )


def _sentence(clash: MixedProduct) -> str:
    known = [(atom, ast.unparse(node)) for node, value in clash.operands if (atom := value.only) is not None]
    low = next((text for atom, text in known if atom.role is Role.AUTOCAST), "")
    other = next((text for atom, text in known if atom.role is Role.PARAMETER or atom.is_float32), "")
    if not low or not other or len(low) + len(other) > 80:
        return "tensors of two dtypes are multiplied here"
    return f"{low} has autocast's dtype here, {other} that of what was saved"


def _carry(project: Project, function: CustomFunction) -> list[Fix]:
    module, document = function.module, function.module.document
    forward, backward = function.forward_amp, function.backward_amp
    operations: list[Edit] = []
    known = True
    if forward is None:
        pair = new_pair(project, document.path)
        if pair is not None:
            methods = zip((function.forward, function.backward), pair, strict=True)
            operations = [function.module.decorate(method, text) for method, text in methods]
            operations.append(function.module.add_import("import torch"))
            versions = allowed(project, "torch", near=document.path)
            known = versions is not None and not (versions.may_be_below(SINCE) and versions.may_reach(SINCE))
    else:
        found = sibling(project, module, forward, BACKWARD)
        if found is not None and backward is None:
            operations = [function.module.decorate(function.backward, found[0]), *found[1]]
        elif found is not None and backward is not None:
            operations = [function.module.replace(backward.node, found[0]), *found[1]]
    return _fixes(project, operations, "let custom_fwd record the autocast state and custom_bwd restore it", known)


def _fixes(project: Project, operations: list[Edit], message: str, known: bool = True) -> list[Fix]:
    message = f"{message}; runs without autocast stay as they are"
    pair = Known(known, f"which spelling warns hangs on torch {SINCE}, and the manifests here leave that open")
    return [proved(project, "decorate", message, operations, pair)] if operations else []


def _header(module: ModuleNames, node: ast.ClassDef | FunctionNode) -> Span:
    """``class Name`` or ``def name``, without what follows."""
    span = module.document.span(node)
    line = module.document.line(span.row)
    end = line.find(node.name, span.column - 1) + len(node.name) + 1
    return Span(span.row, span.column, span.row, end)


def _mixed_operands(project: Project, function: CustomFunction) -> Iterator[Finding]:
    """A kernel that autocast knows nothing of is given what a layer computed in 16 bits, and float32 tensors."""
    if function.forward_amp or function.backward_amp or looks_after_itself(function) or compares_dtypes(function.node):
        return
    found = mixed_kernel(project, function)
    if found is None:
        return
    module = function.module
    evidence = [
        *found.inside.places,
        found.module.place(found.low, "16-bit: a layer computed it under autocast"),
        found.module.place(found.full, "float32: autocast computes it in float32, or it is a parameter"),
        module.place(found.kernel, "compiled code: autocast does not cast for it"),
    ]
    pair = new_pair(project, module.path, "torch.float32")
    methods = zip((function.forward, function.backward), pair or (), strict=False)
    edits = [*(module.decorate(method, text) for method, text in methods), module.add_import("import torch")]
    text = "run the kernel in float32: more memory, and slower where the kernel exists for 16 bits"
    yield rule.at(
        module,
        _header(module, function.node),
        f"{function.name} hands a compiled kernel tensors of two dtypes under autocast: the kernel reads all of them "
        "as one type, or stops with 'expected scalar type Half but found Float'",
        evidence,
        [Fix.unsafe("float32", text, *edits)] if pair is not None else [],
    )


# --- cast_inputs=torch.float16 ----------------------------------------------------------------------------------------


def _cast_to_half(project: Project, function: CustomFunction, decorator: AmpDecorator) -> Iterator[Finding]:
    node = decorator.cast_inputs
    runs = runs_around(project, function.module, function.node)
    if node is None or not runs or any(run.dtypes != {BF16} for run in runs):
        return
    own = any(node is item for decorator in function.forward.decorator_list for item in ast.walk(decorator))
    if not own or any(word in function.name.lower() for word in OF_A_PAIR):
        return
    if constants_of(project, function.module, node) != {FP16}:
        return
    if not is_applied_under_autocast(project, function):
        return
    fixes = []
    if not calls_compiled_code(project, function):
        edit = function.module.replace(node, "torch.bfloat16")
        message = "cast the inputs to bfloat16: the range of float32, with fewer digits"
        fixes = [Fix.unsafe("bfloat16", message, edit)]
    yield rule.at(
        function.module,
        node,
        f"{function.name} casts its inputs to float16 whatever autocast computes in, and this project runs in "
        "bfloat16: values above 65504 become inf",
        [run.place for run in runs[:2]],
        fixes,
    )


rule = Rule.of("PF207", check)
