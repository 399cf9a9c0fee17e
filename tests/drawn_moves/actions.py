"""Where a precision acts: regions, scalers, casts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .making import Draw
    from .sources import Source

WRAPPER = """
class Scaler:
    def __init__(self, enabled):
        self.inner = torch.amp.GradScaler("cuda", enabled=enabled)

    def __call__(self, loss, optimizer, parameters=None, clip=None):
        self.inner.scale(loss).backward()
        if clip is not None:
            self.inner.unscale_(optimizer)
            nn.utils.clip_grad_norm_(parameters, clip)
        self.inner.step(optimizer)
        self.inner.update()
"""
CHOOSING = """

@contextlib.contextmanager
def precision(on, dtype):
    if on:
        with APIdtype=dtype):
            yield
    else:
        yield
"""


@dataclass
class Action:
    top: str = ""
    names: list[str] = field(default_factory=list)
    cast: str = ""
    scaler: str = ""
    """What stands before the loop; ``made`` are its variables."""
    made: list[str] = field(default_factory=list)
    input: str = ""
    region: str = "@PLAIN"
    decorator: str = ""
    scaling: str = "none"
    scaled: str = "False"
    wants_cast: bool = False
    backward: str = "loss.backward()"

    def step(self, clip: bool, optimizer: str, model: str) -> str:
        norm = f"nn.utils.clip_grad_norm_({model}.parameters(), 1.0)\n" if clip else ""
        plain = f"loss.backward()\n{norm}{optimizer}.step()"
        unscale = f"scaler.unscale_({optimizer})\n{norm}" if clip else ""
        scaled = f"scaler.scale(loss).backward()\n{unscale}scaler.step({optimizer})\nscaler.update()"
        if self.scaling == "none":
            return plain
        if self.scaling == "wrapper":
            more = f", {model}.parameters(), 1.0" if clip else ""
            return f"scaler(loss, {optimizer}{more})"
        if self.scaling == "plain":
            return scaled
        test = self.scaled if self.scaling == "branch" else "scaler is not None"
        inner = "".join(f"    {line}\n" for line in scaled.split("\n"))
        other = "".join(f"    {line}\n" for line in plain.split("\n"))
        return f"if {test}:\n{inner}else:\n{other}".rstrip("\n")

    def once(self, step: str) -> str:
        """A step of two optimizers updates the scaler once."""
        lines = step.split("\n")
        if self.scaling == "plain":
            lines = [line for line in lines if line != "scaler.update()"] + ["scaler.update()"]
        return "\n".join(lines)


def action_of(draw: Draw, source: Source) -> Action:
    action = Action()
    enabled, dtype, scaled = source.enabled, source.dtype, source.scaled
    local = draw.one("read", "direct", "direct", "variables")
    prelude = ""
    if local == "variables":
        prelude = f"use_amp = {enabled}\ntrain_dtype = {dtype}\n"
        action.made += ["use_amp", "train_dtype"]
        enabled, dtype = "use_amp", "train_dtype"
    is_true = draw.maybe("weights", 0.2)
    if is_true:
        return _weights(draw, source, action, prelude, enabled, dtype)
    api = draw.one(
        "api",
        'torch.autocast("cuda", ',
        'torch.autocast(device_type="cuda", ',
        'torch.amp.autocast("cuda", ',
        "torch.cuda.amp.autocast(",
    )
    form = draw.one(
        "region",
        "with",
        "with",
        "with",
        "helper",
        "stored",
        "branches",
        "nullcontext",
        "function",
        "decorator",
        "stack",
    )
    names_dtype = not (source.dtype == "torch.float16" and draw.maybe("default dtype", 0.4))
    said = f"dtype={dtype}, " if names_dtype else ""
    if form == "decorator" and source.is_static:
        static = f"dtype={source.dtype}, " if names_dtype else ""
        action.decorator = f"@{api}{static}enabled={source.enabled})"
    elif form in ("with", "decorator"):
        action.region = f"with {api}{said}enabled={enabled}):\n@INSIDE"
    elif form == "helper":
        names = ", ".join(action.made) if local == "variables" else source.holder
        action.top += f"\n\ndef region({names}):\n    return {api}{said}enabled={enabled})\n"
        action.names.append("region")
        action.region = f"with region({names}):\n@INSIDE"
    elif form == "function":
        action.top += CHOOSING.replace("API", api)
        action.names.append("precision")
        action.region = f"with precision({enabled}, {dtype}):\n@INSIDE"
    elif form == "stored":
        prelude += f"context = {api}{said}enabled={enabled})\n"
        action.made.append("context")
        action.region = "with context:\n@INSIDE"
    elif form == "nullcontext":
        prelude += f"context = {api}{said.rstrip(', ')}) if {enabled} else contextlib.nullcontext()\n"
        action.made.append("context")
        action.region = "with context:\n@INSIDE"
    elif form == "stack":
        entered = f"stack.enter_context({api}{said.rstrip(', ')}))"
        action.region = f"with contextlib.ExitStack() as stack:\n    if {enabled}:\n        {entered}\n@INSIDE"
    else:
        action.region = f"if {enabled}:\n    with {api}{said.rstrip(', ')}):\n@INSIDE4else:\n@INSIDE"
    if source.scaled != "False":
        action.scaling = draw.one("scaler", "plain", "plain", "plain", "none or", "branch", "wrapper", "none")
        action.scaled = scaled
    made = draw.one("scaler api", 'torch.amp.GradScaler("cuda", enabled={})', "torch.cuda.amp.GradScaler(enabled={})")
    if action.scaling == "plain":
        prelude += f"scaler = {made.format(scaled)}\n"
    elif action.scaling == "none or":
        prelude += f"scaler = {made.format('True')} if {scaled} else None\n".replace("enabled=True", "")
    elif action.scaling == "branch":
        prelude += f"scaler = {made.format(scaled)}\n"
    elif action.scaling == "wrapper":
        action.top += WRAPPER
        action.names.append("Scaler")
        prelude += f"scaler = Scaler({scaled})\n"
    if action.scaling != "none":
        action.made.append("scaler")
    action.scaler = prelude
    action.backward = {"plain": "scaler.scale(loss).backward()"}.get(action.scaling, "loss.backward()")
    return action


def _weights(draw: Draw, source: Source, action: Action, prelude: str, enabled: str, dtype: str) -> Action:
    """Weights in 16 bits: the model is cast, and so are its inputs."""
    action.wants_cast = True
    action.scaler = prelude
    full = (
        source.dtype.endswith("else torch.float32")
        or "DTYPES" in source.dtype
        or "dtype_of" in source.dtype
        or "{" in source.dtype
        or "getattr" in source.dtype
    )
    how = draw.one("cast", "to", "keyword", "half", "if")
    inputs = draw.one("inputs", "dtype", "weights")
    if how == "half" and source.dtype == "torch.float16":
        action.cast = f"if {source.enabled}:\n    model.half()"
    elif not full or how == "if":
        action.cast = f"if {source.enabled}:\n    model = model.to({source.dtype})"
    else:
        action.cast = f"model.to({'dtype=' if how == 'keyword' else ''}{source.dtype})"
    asked = f"{dtype} if {enabled} else torch.float32"
    action.input = ".to(next(model.parameters()).dtype)" if inputs == "weights" else f".to({dtype if full else asked})"
    return action
