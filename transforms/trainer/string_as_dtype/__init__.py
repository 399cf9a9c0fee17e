"""A string stands where a library takes a `torch.dtype`, or names a dtype that it does not know.

## What goes wrong

`torch.zeros(2, dtype="float16")` raises `TypeError: zeros(): argument 'dtype' must be torch.dtype, not str`,
`model.to("float16")` raises `RuntimeError: Invalid device string: 'float16'`, `torch.dtype("float16")` raises
`TypeError: cannot create 'torch.dtype' instances`, `autocast(dtype="bfloat16")` raises when it is entered.
`getattr(torch, args.dtype)` raises `AttributeError` for `--dtype bf16`, and so does
`BitsAndBytesConfig(bnb_4bit_compute_dtype="bf16")`. A pipeline or model of diffusers that is loaded with
`torch_dtype="float16"` only warns, and is loaded in float32. `{"fp16": torch.float16}.get(args.dtype)` is None for
`--dtype bf16`, and `.to(None)` casts nothing; a function that ends behind `if name == "fp16": return torch.float16`
gives the same.

## Why

torch has no strings for dtypes (measured with PyTorch 2.13), and knows them as `bfloat16` and `float16` only.
transformers reads a string as the name of an attribute of torch. diffusers: `` Passed `torch_dtype` float16 is not a
`torch.dtype`. Defaulting to `torch.float32`. ``

## Fix

`dtype` [safe] for functions of torch that certainly raise; `dtype` [unsafe] for casts, regions and loaders: the dtype
for the string. `name` [safe] for `BitsAndBytesConfig`, `name` [unsafe] for loaders: the name that torch has,
`"bfloat16"`.
Choices and defaults of options are reported only.

## Not flagged

Strings that are passed on through parameters or settings; `torch_dtype="auto"` and `"float16"` for transformers, which
reads them; `.to("cuda")`; objects of other libraries that have dtypes of strings; options with a `type` that converts
them, names that a test, an exception or an alternative (`or torch.float16`) looks after; tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.model import Draft, Edit, Finding, Fix, Rule
from ....codemod.proof.needs import RAISES, Known
from ....codemod.proof.proving import proved
from ....codemod.purpose.checked import checked_code
from ....codemod.python.bindings import only_value
from ....codemod.python.caught import is_caught
from ....codemod.python.functions import FunctionTarget, called_function
from ....codemod.python.names import ModuleNames, last_name, parameters_of, resolve, string_of
from ....codemod.python.options import Option, options_read
from ....codemod.python.paths import guards
from ....codemod.source.project import Project
from ....codemod.torch.api import COMPUTE_KEY, LOAD_KEYS, LOADERS
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import HALVES, TORCH_DTYPES, Dtype, as_dtype

WORDS = ("bf16", "bfloat16", "fp16", "float16", "fp32", "float32")
AUTOCASTS = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast")
CALLED, KEYS = frozenset(("dtype", "to", "getattr", "get")), frozenset((*LOAD_KEYS, COMPUTE_KEY))
OTHERS = frozenset(("jax", "tensorflow", "paddle", "jittor", "tinygrad", "mxnet", "mindspore", "onnx"))
"""Libraries of which an object may have a method ``to`` that takes strings."""
KNOWN = frozenset(name.removeprefix("torch.") for name in TORCH_DTYPES)
"""Names that torch has for floating-point types."""
TESTS = (ast.BoolOp, ast.Compare, ast.If, ast.IfExp, ast.UnaryOp)
"""What looks at a value that may be None."""
SPELLINGS = KNOWN | {"fp16", "bf16", "fp32", "fp64"}


def _waits_for_string(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether it only runs for a string, ``if isinstance(dtype, str)``, and none is seen to be passed."""
    tests = (guard.test for guard in guards(module, call) if isinstance(guard.test, ast.Call) and guard.holds)
    asked = (test.args[0] for test in tests if ast.unparse(test.func) == "isinstance" and test.args)
    return any(not any(isinstance(item, str) for item in constants_of(project, module, node)) for node in asked)


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, WORDS, ("torch", "transformers", "diffusers")):
        for call in module.calls:
            if _is_asked_by_option(call):
                yield from (rule.found(*draft) for draft in names_function_lacks(project, module, call))
            if not _may_take_dtype(call):
                continue
            qualified = resolve(project, module, call.func) or ""
            if qualified == "torch.dtype" and call.args:
                if _waits_for_string(project, module, call):
                    continue
                fix = _created(project, module, call)
                yield rule.at(module, call, "torch.dtype cannot be called (TypeError)", fixes=[fix])
            elif _takes_dtype(qualified):
                yield from _of_torch(project, module, call)
            elif qualified.rpartition(".")[2] == "BitsAndBytesConfig":
                yield from _named(project, module, call, (COMPUTE_KEY,))
            elif isinstance(call.func, ast.Attribute) and call.func.attr in LOADERS:
                yield from _loaded(project, module, call, qualified)
            elif isinstance(call.func, ast.Attribute) and call.func.attr == "to":
                yield from _cast(module, call)
            elif isinstance(call.func, ast.Name) and call.func.id == "getattr":
                yield from (rule.found(*draft) for draft in names_torch_lacks(project, module, call))
            elif isinstance(call.func, ast.Attribute) and call.func.attr == "get":
                yield from (rule.found(*draft) for draft in names_table_lacks(project, module, call))


def _may_take_dtype(call: ast.Call) -> bool:
    """Whether the name of what is called, or of a keyword, is one of those that are looked at: most calls are not."""
    last = last_name(call.func)
    return last in CALLED or any(item.arg in KEYS for item in call.keywords)


def _takes_dtype(qualified: str) -> bool:
    """Whether a name is that of a function or class of torch whose ``dtype`` goes to torch as it is."""
    is_own = qualified.startswith("torch.") and qualified.count(".") == 1
    return is_own or qualified.startswith(("torch.nn.", *AUTOCASTS))


def _text(module: ModuleNames, node: ast.expr) -> str:
    """The name of a floating-point type that an expression is, as a string; empty for anything else."""
    value = only_value(module, node) if isinstance(node, ast.Name) else node
    text = value.value if isinstance(value, ast.Constant) else None
    return text if isinstance(text, str) and text.removeprefix("torch.") in SPELLINGS else ""


def _of_torch(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Finding]:
    for item in call.keywords:
        text = _text(module, item.value) if item.arg == "dtype" else ""
        if text and not module.is_ambiguous(call.func):
            message = f"{ast.unparse(call.func)} takes a torch.dtype, not {text!r} (TypeError)"
            edits = _replaced(module, item.value, text)
            enters_later = ast.unparse(call.func).endswith("autocast")
            fix = None
            if edits and (enters_later or is_caught(module, call, "Error")):
                fix = Fix.unsafe("dtype", "pass the dtype", *edits)
            elif edits:
                fix = proved(project, "dtype", "pass the dtype", edits, RAISES)
            yield rule.at(module, item.value, message, fixes=[fix])


def _cast(module: ModuleNames, call: ast.Call) -> Iterator[Finding]:
    """``model.to("float16")``, ``x.to(dtype="bf16")``."""
    packages = module.imported_packages
    if "torch" not in packages or not packages.isdisjoint(OTHERS):
        return
    given = [*call.args[:1], *(item.value for item in call.keywords if item.arg == "dtype")]
    for node in given:
        text = _text(module, node)
        if text:
            edits = _replaced(module, node, text)
            fixes = [Fix.unsafe("dtype", "pass the dtype", *edits)] if edits else []
            raises = "RuntimeError: Invalid device string" if node in call.args else "TypeError"
            yield rule.at(module, node, f".to() takes a torch.dtype, not {text!r} ({raises})", fixes=fixes)


def _loaded(project: Project, module: ModuleNames, call: ast.Call, qualified: str) -> Iterator[Finding]:
    root = qualified.partition(".")[0]
    owner = qualified.split(".")[-2] if "." in qualified else ""
    if root == "transformers" and ("Model" in owner or "For" in owner) and "Flax" not in owner:
        yield from _named(project, module, call, LOAD_KEYS)
    for item in call.keywords if root == "diffusers" and "Flax" not in qualified else ():
        text = _text(module, item.value) if item.arg in LOAD_KEYS else ""
        if text:
            edits = _replaced(module, item.value, text)
            fixes = [Fix.unsafe("dtype", "pass the dtype; the weights are loaded in it", *edits)] if edits else []
            message = f"diffusers takes a torch.dtype, not {text!r}: it loads the weights in float32, or raises"
            yield rule.at(module, item.value, message, fixes=fixes)


def _named(project: Project, module: ModuleNames, call: ast.Call, keys: Sequence[str]) -> Iterator[Finding]:
    """Keywords whose string is read as the name of an attribute of torch."""
    for item in call.keywords:
        text = _text(module, item.value) if item.arg in keys else ""
        right = as_dtype(text)
        if not text or text in KNOWN or not isinstance(right, Dtype):
            continue
        fixes: list[Fix] = []
        if isinstance(item.value, ast.Constant):
            edit = module.replace(item.value, f'"{right.name}"')
            is_certain = Known(item.arg == COMPUTE_KEY and not is_caught(module, call, "Error"), "it may not be read")
            fixes = [proved(project, "name", f'write "{right.name}"', [edit], RAISES, is_certain)]
        yield rule.at(module, item.value, f"torch has no {text}: {item.arg} must be {right.name!r}", fixes=fixes)


def _created(project: Project, module: ModuleNames, call: ast.Call) -> Fix | None:
    text = _text(module, call.args[0])
    edits = _replaced(module, call.args[0], text, call) if text and len(call.args) == 1 and not call.keywords else []
    certain = Known(not is_caught(module, call, "Error"), "the exception may be expected")
    return proved(project, "dtype", "name the dtype", edits, RAISES, certain) if edits else None


def _replaced(module: ModuleNames, node: ast.expr, text: str, whole: ast.expr | None = None) -> list[Edit]:
    dtype = as_dtype(text)
    is_imported = [item.qualified for item in module.module_scope.lookup("torch")] == ["torch"]
    if not isinstance(node, ast.Constant) or not isinstance(dtype, Dtype) or not is_imported:
        return []
    return [module.replace(whole if whole is not None else node, f"torch.{dtype.name}")]


def names_torch_lacks(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    """``getattr(torch, args.dtype)`` where ``--dtype`` accepts, or defaults to, what torch does not have."""
    if len(call.args) != 2 or call.keywords or module.qualified(call.args[0]) != "torch":
        return
    key = call.args[1]
    if not isinstance(key, ast.Attribute) or _is_looked_after(module, call, key):
        return
    for option in options_read(project, module, key):
        wrong = [item for item in _stated(option) if string_of(item) not in KNOWN and string_of(item) in SPELLINGS]
        if wrong:
            message = f"torch has no {ast.unparse(wrong[0])}, which {ast.unparse(key)} can be (AttributeError)"
            yield Draft.at(module, call, message, [option.module.place(wrong[0], "stated here")])
            return


def names_table_lacks(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    """``{"fp16": torch.float16}.get(args.dtype)`` where ``--dtype`` accepts another 16-bit type."""
    if _is_asked_by_option(call):
        yield from _none_of(project, module, call, _table(project, module, call), "the table does not have it")


def names_function_lacks(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    """The same of ``if name == "fp16": return torch.float16``, behind which a function ends without another answer."""
    target = called_function(project, module, call) if isinstance(call.func, ast.Name) else None
    names = _answered(project, target) if target is not None else frozenset()
    yield from _none_of(project, module, call, names, f"{ast.unparse(call.func)} returns nothing for it")


def _is_asked_by_option(call: ast.Call) -> bool:
    return len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Attribute)


def _none_of(project: Project, module: ModuleNames, call: ast.Call, names: frozenset[str], why: str) -> Iterator[Draft]:
    key = call.args[0]
    if not names or not isinstance(key, ast.Attribute) or _is_looked_after(module, call, key):
        return
    if isinstance(module.parents.get(call), TESTS) or _is_tested(module, call):
        return
    for option in options_read(project, module, key):
        stated = _stated(option)
        wrong = [item for item in stated if string_of(item) not in names and as_dtype(string_of(item)) in HALVES]
        if wrong:
            message = f"None for {ast.unparse(wrong[0])}, which {ast.unparse(key)} can be: {why}"
            yield Draft.at(module, call, message, [option.module.place(wrong[0], "stated here")])
            return


def _table(project: Project, module: ModuleNames, call: ast.Call) -> frozenset[str]:
    """The names in a table of dtypes; none where it is not written down, or holds anything else."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    table = only_value(module, owner) if isinstance(owner, ast.Name) else owner
    if not isinstance(table, ast.Dict) or None in table.keys:
        return frozenset()
    values = [resolve(project, module, value) in TORCH_DTYPES for value in table.values]
    names = [string_of(item) or "" for item in table.keys]
    return frozenset(names) if all(values) and all(names) else frozenset()


def _is_tested(module: ModuleNames, call: ast.Call) -> bool:
    """``dtype = pick(args.precision)``, then ``if dtype is None:``."""
    targets = getattr(module.statement_of(call), "targets", ())
    loads = (load for item in targets if isinstance(item, ast.Name) for load in module.name_loads.get(item.id, ()))
    return any(isinstance(module.parents.get(load), TESTS) for load in loads)


def _answered(project: Project, target: FunctionTarget) -> frozenset[str]:
    """The words for which a function of one parameter returns dtypes; none where it may do anything else."""
    module, names = target.module, [parameter.arg for parameter in parameters_of(target.node)]
    waiting, found = list(target.node.body[ast.get_docstring(target.node) is not None :]), list[str]()
    for item in waiting:
        test, answer = (item.test, item.body[0]) if isinstance(item, ast.If) else (None, None)
        if not isinstance(test, ast.Compare) or not isinstance(answer, ast.Return) or answer.value is None:
            return frozenset()
        words, is_it = test.comparators[0], len(names) == 1 and ast.unparse(test.left) == names[0]
        several = words.elts if isinstance(words, ast.Tuple | ast.List | ast.Set) else None
        is_asked = is_it and isinstance(test.ops[0], ast.Eq if several is None else ast.In)
        if not is_asked or resolve(project, module, answer.value) not in TORCH_DTYPES:
            return frozenset()
        found += [string_of(each) or "" for each in several or [words]]
        waiting += item.orelse if isinstance(item, ast.If) else []
    return frozenset(found) if all(found) else frozenset()


def _stated(option: Option) -> list[ast.expr]:
    """The choices and the default of an option whose text arrives as it is written."""
    if option.kind != "option" or not isinstance(option.node, ast.Call):
        return []
    kinds = [item.value for item in option.node.keywords if item.arg in ("type", "action", "callback", None)]
    is_text = all(isinstance(kind, ast.Name) and kind.id == "str" for kind in kinds)
    return [item for item in (*option.choices, option.default) if item is not None] if is_text else []


def _is_looked_after(module: ModuleNames, call: ast.Call, key: ast.Attribute) -> bool:
    """Whether a test, an exception or an assignment deals with names that are not there."""
    if is_caught(module, call, "Error"):
        return True
    text = ast.unparse(key)
    if any(text in ast.unparse(guard.test) for guard in guards(module, call)):
        return True
    asked = (other.args[0] for other in module.calls_by_name.get("hasattr", []) if other.args)
    return bool(module.attribute_stores.get(key.attr)) or any(ast.unparse(item) == "torch" for item in asked)


rule = Rule.of("PF409", check)
