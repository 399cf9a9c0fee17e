"""Query, key, value or an RNN's state have different dtypes.

## What goes wrong

`scaled_dot_product_attention` stops with `RuntimeError: Expected query, key, and value to have the same dtype, but got
query.dtype: c10::BFloat16 key.dtype: float and value.dtype: float instead.`; `nn.LSTM` and `nn.GRU` with `ValueError:
RNN input dtype (torch.float32) does not match weight dtype (torch.bfloat16)` or with a complaint about `hidden[0]`.

## Why

Attention and recurrent cells never promote their operands (PyTorch 2.13). A rotary embedding or a norm computed in
float32 widens query and key but not value; a cache keeps the dtype it was made in. Autocast casts all three, where it
is open. A float mask may be float32 beside 16-bit queries.

## Fix

`cast` [safe]: the operand that is too wide is cast to the dtype of the other. Nothing changes where they agree.

## Not flagged

Operands of one dtype, float32 masks, bool masks, operands that the same branch cast together, open autocast regions,
places that no run comes to.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.source.project import Project
from .casts import operand_fix
from .clashes import ClashFamily, clashes, name_of, told
from .seen_clashes import seen_message


def check(project: Project) -> Iterator[Finding]:
    for meeting in clashes(project, ClashFamily.ATTENTION):
        odd, meant = name_of(meeting.odd.node), name_of(meeting.meant.node)
        message = seen_message(meeting) or f"{odd} is float32 and meets {meant}: attention never promotes"
        yield told(rule, project, meeting, message, [operand_fix(project, meeting)])


rule = Rule.of("PF213", check)
