"""The new spelling of one use: the device becomes an argument, arguments by position get their names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Edit
from .deprecated_uses import OLD_AUTOCAST, Use


class NotExact(Exception):
    """A use has no new spelling that is certainly the same; the message says why."""


def respelled(use: Use, name: str) -> Iterator[Edit]:
    """The edits of one use; ``name`` is what the new API is called there. Raises NotExact."""
    module, call = use.module, use.call
    quote = "'" if module.document.text.count("'") > module.document.text.count('"') else '"'
    device = f"{quote}{use.entry.device}{quote}"
    if use.form == "reference":
        raise NotExact("it is passed on here and called elsewhere")
    if any(isinstance(parent, ast.JoinedStr) for parent in module.ancestors(use.node)):
        raise NotExact("it is inside an f-string")
    if use.form == "decorator":
        if use.entry.kind != "custom":
            raise NotExact("as a bare decorator it works in no release")
        yield module.replace(use.whole, f"{name}(device_type={device})")
        return
    assert call is not None
    yield module.replace(use.node, name)
    if use.form == "partial":
        _check_partial(use, call)
        yield module.insert_argument(call, 1, device)
    elif use.entry.kind == "custom":
        yield module.set_argument(call, "device_type", device)
    else:
        yield module.insert_argument(call, 0, device)
        if use.entry.kind == "autocast":
            yield from _named(use, call)


def _check_partial(use: Use, call: ast.Call) -> None:
    if use.entry.kind not in ("autocast", "GradScaler"):
        raise NotExact("its arguments are passed in two steps")
    if use.entry.kind == "autocast" and len(call.args) > 1:
        raise NotExact("its positional arguments are passed in two steps")


def _named(use: Use, call: ast.Call) -> Iterator[Edit]:
    """The old arguments by keyword: the new interface has them in another order."""
    if any(keyword.arg == "device_type" for keyword in call.keywords):
        raise NotExact("it is passed a device_type, which it does not take")
    for index, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred) or index >= len(OLD_AUTOCAST.names):
            raise NotExact("*args hide which argument is which")
        yield use.module.name_argument(call, index, OLD_AUTOCAST.names[index])
