"""A dtype is compared with something that it never is.

## What goes wrong

`if model.dtype == "bfloat16":` and `if str(x.dtype) == "float16":` are never true, so the branch for 16 bits (a scaler,
an autocast, a cast) does not run; `!=` is always true. Nothing is raised. With `--dtype` restricted to `float16` and
`bfloat16`, `args.dtype == "bf16"` is never true either; with `--precision` of `type=int`, `args.precision == "16"` is
never true, nor is `== 16` where it is a string. After `if "float16" in name:` the branch for
`"bfloat16" in name` is never reached: bfloat16 is taken for float16. Under Lightning 2 `trainer.precision == 16` is
never true: it is `"16-mixed"`, whatever the Trainer was given.

## Why

A `torch.dtype` is equal to no string (measured with PyTorch 1.13 to 2.13); its string is `torch.float16`, with the name
of the module. NumPy's dtypes, which do compare with strings, are called alike. `"float16"` is a part of `"bfloat16"`.

## Fix

`dtype` [unsafe]: the string becomes the dtype (`model.dtype == torch.bfloat16`). `prefix` [unsafe]: `str(x.dtype)` is
compared with `"torch.float16"`. `name` [unsafe]: Lightning's new name. `kind` [unsafe]: a number for an option that is
one, a string for one that is a string. Branches that never ran begin to run. Reported only: other spellings of options,
and words in words.

## Not flagged

Settings (`args.dtype`, `config.dtype`), which are strings; arrays of NumPy and whatever is not certainly torch's:
a dtype that the code names, a parameter or buffer of a module, a tensor made above; options whose declared choices hold
the word, that are stored elsewhere, or are compared with the right word too; the precision of a Trainer where the
project allows Lightning 1, or compares it with the new names too; tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.purpose.files import is_test
from ....codemod.python.names import names_of
from ....codemod.source.project import Project
from .choices_of_options import words_not_offered
from .kinds_of_options import values_of_another_kind
from .known_dtypes import dtype_with_string
from .trainer_precision import old_names_of_precision
from .words_in_words import shadowed_words

WORDS = ("float16", "bfloat16", "float32", "bf16", "fp16", "fp32", ".precision")
KINDS = (dtype_with_string, words_not_offered, values_of_another_kind, shadowed_words, old_names_of_precision)


def check(project: Project) -> Iterator[Finding]:
    for document in project.checked_documents(WORDS):
        if not is_test(document.path):
            module = names_of(project, document)
            for kind in KINDS:
                for draft in kind(project, module):
                    yield rule.found(*draft)


rule = Rule.of("PF408", check)
