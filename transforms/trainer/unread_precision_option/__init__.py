"""A precision can be chosen, and nothing reads the choice.

## What goes wrong

`python train.py --fp16` trains in float32 as before: the option is declared and `args.fp16` is read nowhere.
`train(..., use_amp=True)` does the same where `train` never looks at `use_amp`. Nothing is raised; the run needs the
memory and the time of float32, and comparisons of precisions compare a run with itself.

## Why

The option came with copied code, or what read it was removed. `use_amp = args.use_amp` followed by `use_amp = False` on
the next line is usually left over from a search for an error.

## Fix

Reported only: whether the option should have an effect or go away is for the author to say.

## Not flagged

Options of which an attribute is read anywhere in the program, or that a string asks for; namespaces that are passed
to other libraries, or turned into a dictionary that goes there (what is printed, logged or saved still reads nothing);
options that are off by default and that no launch line or read-me shows; TF32, which only makes a run faster;
options whose help says that they have no effect; parsers of the project's own classes; what asks for mixed precision
where an autocast without a switch gives it anyway. Parameters of functions that
only raise or do nothing, that override or implement something, that have namesakes with the same parameter, that are
passed on as values, or that nobody in the project passes a precision for (what options are when nothing sets them
counts); functions that delete the parameter, or read
`locals()`; tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.purpose.files import is_test
from ....codemod.python.names import names_of
from ....codemod.source.project import Project
from .options import unread_options
from .overwritten import overwritten_settings
from .parameters import unread_parameters
from .words import WORDS

KINDS = (unread_options, unread_parameters, overwritten_settings)


def check(project: Project) -> Iterator[Finding]:
    for document in project.checked_documents(WORDS):
        if not is_test(document.path):
            module = names_of(project, document)
            for kind in KINDS:
                for draft in kind(project, module):
                    yield rule.found(*draft)


rule = Rule.of("PF407", check)
