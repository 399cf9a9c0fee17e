"""A dtype is compared with something that it never is.

## What goes wrong

`if model.dtype == "bfloat16":` and `if str(x.dtype) == "float16":` are never true, so the branch for 16 bits (a scaler,
an autocast, a cast) does not run; `!=` is always true. Nothing is raised. With `--dtype` restricted to `float16` and
`bfloat16`, `args.dtype == "bf16"` is never true either, nor is `cfg.precision == "bfloat16"` where each configuration
of the project says `bf16` and no code does; with `--precision` of `type=int`, `args.precision == "16"` is never true,
nor is `== 16` where it is a string. After `if "float16" in name:` the branch for
`"bfloat16" in name` is never reached: bfloat16 is taken for float16. Under Lightning 2 `trainer.precision == 16` is
never true: it is `"16-mixed"`, whatever the Trainer was given. With `device = torch.device("cuda")` an
`autocast("cuda", enabled=device == "cuda")` is never on. After `assert kind in ("native", "apex")` the branch of
`if kind == "amp":` that scales the loss never runs.

## Why

A `torch.dtype` is equal to no string (measured with PyTorch 1.13 to 2.13), and neither is a `torch.device` (2.13); the
string of a dtype is `torch.float16`, with the name of the module. NumPy's dtypes, which do compare with strings, are
called alike. `"float16"` is a part of `"bfloat16"`.

## Fix

`dtype` [unsafe]: the string becomes the dtype (`model.dtype == torch.bfloat16`). `prefix` [unsafe]: `str(x.dtype)` is
compared with `"torch.float16"`. `name` [unsafe]: Lightning's new name. `kind` [unsafe]: a number for an option that is
one, a string for one that is a string. Branches that never ran begin to run. Reported only: other spellings of options,
words in words, and devices.

## Not flagged

Settings (`args.dtype`, `config.dtype`), which are strings; arrays of NumPy and whatever is not certainly torch's:
a dtype that the code names, a parameter or buffer of a module, a tensor made above; options whose declared choices hold
the word, that are stored elsewhere, or are compared with the right word too; settings of which the project's code
names the other spelling anywhere; the precision of a Trainer where the project allows Lightning 1, or compares it with
the new names too; variables that never hold the dtype that is named; tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Finding, Rule
from ....codemod.purpose.checked import checked_code
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import guards
from ....codemod.source.project import Project
from .asserted_words import words_asserted_away
from .choices_of_options import words_not_offered
from .device_with_string import device_with_string
from .kinds_of_options import values_of_another_kind
from .known_dtypes import dtype_with_string
from .spellings_given import spellings_never_given
from .trainer_precision import old_names_of_precision

MAKING_STRINGS = ("lower", "upper", "strip", "replace", "removeprefix", "casefold", "join", "format")
STRING_ANNOTATIONS = ("str", "'str'")
STRING_NAMES = ("_str", "_string", "_name")
"""How parameters are called that certainly hold strings."""

WORDS = ("float16", "bfloat16", "float32", "bf16", "fp16", "fp32", ".precision", "autocast", "GradScaler", ".half(")


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, WORDS):
        for kind in KINDS:
            for draft in kind(project, module):
                yield rule.found(*draft)


def shadowed_words(_project: Project, module: ModuleNames) -> Iterator[Draft]:
    """Every part of a string that is asked for where a part of that part is known not to be in the string."""
    for node in module.of_type(ast.Compare):
        word = _asked(node)
        if word is None or "float16" not in word.lower() or not _is_string(module, node.comparators[0]):
            continue
        text = ast.unparse(node.comparators[0])
        for guard in guards(module, node):
            shorter = _asked(guard.test) if isinstance(guard.test, ast.Compare) and not guard.holds else None
            if shorter and shorter in word and ast.unparse(guard.test.comparators[0]) == text:  # type: ignore[attr-defined]
                message = f"never true: {shorter!r} is a part of {word!r}, and is asked for first"
                yield Draft.at(module, node, message, [module.place(guard.test, f"takes {word} too")])
                break


def _asked(node: ast.Compare) -> str | None:
    """The string that ``"..." in text`` looks for."""
    is_word = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    return str(node.left.value) if is_word and len(node.ops) == 1 and isinstance(node.ops[0], ast.In) else None  # type: ignore[attr-defined]


def _is_string(module: ModuleNames, node: ast.expr) -> bool:
    """Whether an expression is certainly a string, so that ``in`` looks for a part of it."""
    if isinstance(node, ast.Name):
        bindings = module.bindings_of(node)
        declared = bindings[0].node if len(bindings) == 1 else None
        if isinstance(declared, ast.arg):
            annotation = ast.unparse(declared.annotation) if declared.annotation is not None else ""
            return annotation in STRING_ANNOTATIONS or (not annotation and declared.arg.endswith(STRING_NAMES))
        value = only_value(module, node)
        return value is not None and not isinstance(value, ast.Name) and _is_string(module, value)
    if isinstance(node, ast.JoinedStr):
        return True
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "str" and not module.scope_of(node).lookup("str")
    return isinstance(node.func, ast.Attribute) and node.func.attr in MAKING_STRINGS


KINDS = (
    dtype_with_string,
    device_with_string,
    words_not_offered,
    spellings_never_given,
    values_of_another_kind,
    shadowed_words,
    words_asserted_away,
    old_names_of_precision,
)

rule = Rule.of("PF408", check)
