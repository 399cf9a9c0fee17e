"""How a program comes by its precision: where the value stands, what it is, and how code asks it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .making import Draw

WORDS = {
    "names": ("fp32", "fp16", "bf16"),
    "no": ("no", "fp16", "bf16"),
    "torch": ("float32", "float16", "bfloat16"),
    "numbers": ("32", "16", "bf16"),
}
DTYPES = ("torch.float32", "torch.float16", "torch.bfloat16")
BOOLS = ("amp", "use_amp", "fp16", "mixed_precision", "half", "use_half")
NAMES = ("precision", "dtype", "mixed_precision", "train_dtype", "amp_dtype")


@dataclass
class Source:
    """Code and files that give the value, and expressions that ask it."""

    holder: str = "args"
    """The variable that code asks."""
    imports: str = ""
    top: str = ""
    names: list[str] = field(default_factory=list)
    """What ``top`` defines."""
    parse: str = ""
    decorators: str = ""
    parameters: str = ""
    call: str = ""
    files: dict[str, str] = field(default_factory=dict)
    given: list[str] = field(default_factory=lambda: [""])
    typed: dict[str, str] = field(default_factory=dict)
    before: str = ""
    """What stands before ``python`` on a launch line."""
    enabled: str = ""
    dtype: str = ""
    scaled: str = ""
    test: str = ""
    shown: str = ""
    is_static: bool = False
    """Whether the expressions can stand in a decorator."""

    def __post_init__(self) -> None:
        self.parameters = self.parameters or self.holder
        self.call = self.call or f"main({self.holder})"


def source_of(draw: Draw) -> Source:
    kind = draw.one("value", "bool", "bool", "word", "word", "word")
    start = draw.one("start", "fp16", "fp16", "bf16", "bf16", "fp32")
    holder = draw.one(
        "holder", "argparse", "argparse", "argparse", "constant", "class", "env", "yaml", "json", "toml",
        "dataclass", "click", "typer", "omegaconf", "parameter", "fallback",
    )  # fmt: skip
    if kind == "bool":
        name = (
            draw.one("name", *BOOLS)
            if start != "bf16"
            else draw.one("name", "amp", "use_amp", "bf16", "mixed_precision")
        )
        source = _held(draw, holder, name, start != "fp32", [True, False])
        asked = source.test
        half = "torch.bfloat16" if start == "bf16" else "torch.float16"
        source.enabled, source.dtype = asked, half
        source.scaled = asked if half == "torch.float16" else "False"
        if draw.maybe("ternary", 0.2):
            source.dtype = f"{half} if {asked} else torch.float32"
        source.shown = asked
        return source
    style = draw.one("words", *WORDS)
    full, fp16, bf16 = words = WORDS[style]
    word = {"fp32": full, "fp16": fp16, "bf16": bf16}[start]
    source = _held(draw, holder, draw.one("name", *NAMES), word, list(words))
    asked = source.test
    source.shown = asked
    source.enabled = draw.one(
        "enabled", f"{asked} != {full!r}", f"{asked} in ({fp16!r}, {bf16!r})", f"not {asked} == {full!r}"
    )
    source.scaled = f"{asked} == {fp16!r}"
    source.test = draw.one("test", source.enabled, source.scaled)
    table = "{" + ", ".join(f"{a!r}: {b}" for a, b in zip(words, DTYPES, strict=True)) + "}"
    how = draw.one("resolved", "table", "inline", "function", "ternary", "getattr", "get", "ternaries")
    if how == "getattr" and style == "torch":
        source.dtype = f"getattr(torch, {asked})"
    elif how == "inline":
        source.dtype = f"{table}[{asked}]"
    elif how == "ternary":
        source.dtype = f"torch.float16 if {asked} == {fp16!r} else torch.bfloat16"
    elif how == "ternaries":
        source.dtype = (
            f"torch.float16 if {asked} == {fp16!r} else torch.bfloat16 if {asked} == {bf16!r} else torch.float32"
        )
    elif how == "function":
        source.top += (
            f"\n\ndef dtype_of(name):\n    if name == {fp16!r}:\n        return torch.float16\n"
            f"    if name == {bf16!r}:\n        return torch.bfloat16\n    return torch.float32\n"
        )
        source.names.append("dtype_of")
        source.dtype = f"dtype_of({asked})"
    else:
        source.top += f"\nDTYPES = {table}\n"
        source.names.append("DTYPES")
        source.dtype = f"DTYPES.get({asked}, torch.float32)" if how == "get" else f"DTYPES[{asked}]"
    return source


def _meaning(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return {"32": "fp32", "16": "fp16", "no": "fp32"}.get(
        str(value), str(value).replace("bfloat", "bf").replace("float", "fp")
    )


def _held(draw: Draw, holder: str, name: str, value: object, others: list[object]) -> Source:
    """A source whose ``test`` is the expression of the value."""
    kept = draw.one("default", "same", "same", "other")
    default = value if kept == "same" else next(each for each in others if each != value)
    is_bool, upper = isinstance(value, bool), name.upper()
    if holder == "argparse":
        return _argparse(draw, name, value, default, others)
    if holder in ("click", "typer"):
        return _commands(holder, name, value, others)
    if holder in ("constant", "env"):
        asked = f'os.environ.get("{upper}", "0") == "1"' if is_bool else f'os.environ.get("{upper}", {others[0]!r})'
        made = repr(value) if holder == "constant" else asked
        told = int(value is True) if is_bool else value
        before = f"{upper}={told} " if holder == "env" else ""
        plain = Source("seed", top=f"{upper} = {made}\n", names=[upper], parse="seed = 0", before=before, test=upper)
        plain.is_static = True
        return plain
    if holder == "class":
        top = f"class Config:\n    lr = 1e-3\n    {name} = {value!r}\n"
        return Source("cfg", top=top, names=["Config"], parse="cfg = Config()", test=f"cfg.{name}")
    if holder == "dataclass":
        made = "Config()" if kept == "same" else f"Config({name}={value!r})"
        top = f"@dataclass\nclass Config:\n    seed: int = 0\n    {name}: {type(value).__name__} = {default!r}\n"
        imports = "from dataclasses import dataclass\n"
        return Source("cfg", imports, top, names=["Config"], parse=f"cfg = {made}", test=f"cfg.{name}")
    if holder == "parameter":
        passed = "main()" if kept == "same" else f"main({name}={value!r})"
        call = passed if draw.maybe("passes", 0.5) else ""
        return Source(name, parse=f"{name} = {value!r}", parameters=f"{name}={default!r}", call=call, test=name)
    if holder == "fallback":
        files = {"config.json": json.dumps({"seed": 0} if kept == "same" else {"seed": 0, name: value})}
        parse = 'cfg = json.load(open("config.json"))'
        return Source("cfg", parse=parse, files=files, test=f"cfg.get({name!r}, {default!r})")
    return _file(draw, holder, name, value, others)


def _argparse(draw: Draw, name: str, value: object, default: object, others: list[object]) -> Source:
    source = Source(test=f"args.{name}")
    flag = f"--{name}" if draw.maybe("underscores", 0.7) else f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        how = draw.one("flag", "store_true", "store_true", "store_true", "store_false", "optional", "int")
        if how == "store_true":
            option, given, typed = (
                f'"{flag}", action="store_true"',
                [f" {flag}" if value else ""],
                {"": "off", f" {flag}": "on"},
            )
        elif how == "store_false":
            option = f'"--no-{name}", dest="{name}", action="store_false"'
            given, typed = ["" if value else f" --no-{name}"], {"": "on", f" --no-{name}": "off"}
        elif how == "optional":
            option = f'"{flag}", action=argparse.BooleanOptionalAction, default={default!r}'
            no = flag.replace("--", "--no-")
            given = ["" if value == default else f" {flag}" if value else f" {no}"]
            typed = {f" {flag}": "on", f" {no}": "off"}
        else:
            option = f'"{flag}", type=int, default={int(bool(default))}'
            given = ["" if value == default else f" {flag} {int(value)}"]
            typed = {f" {flag} 1": "on", f" {flag} 0": "off"}
    else:
        choices = f", choices={others!r}" if draw.maybe("choices", 0.5) else ""
        option = f'"{flag}", type=str, default={default!r}{choices}'
        given = ["" if value == default else f" {flag}={value}" if draw.maybe("equals", 0.3) else f" {flag} {value}"]
        typed = {f" {flag} {each}": _meaning(each) for each in others}
    if draw.maybe("both", 0.2):
        given += [each for each in typed if each not in given][:1]
    source.given, source.typed = given, typed
    help_ = ', help="precision of the training"' if draw.maybe("help", 0.4) else ""
    parse = f"parser = argparse.ArgumentParser()\nparser.add_argument({option}{help_})\n"
    if draw.maybe("parser function", 0.3):
        inner = parse.replace("\n", "\n    ")
        source.top = f"def get_args():\n    {inner}return parser.parse_args()\n"
        source.names = ["get_args"]
        source.parse = "args = get_args()"
    else:
        source.parse = parse + "args = parser.parse_args()"
    return source


def _commands(holder: str, name: str, value: object, others: list[object]) -> Source:
    flag, dash = f"--{name.replace('_', '-')}", name.replace("_", "-")
    is_bool = isinstance(value, bool)
    given = [(f" {flag}" if value else "") if is_bool else f" {flag} {value}"]
    typed = {f" {flag} {each}": _meaning(each) for each in others}
    typed = {f" {flag}": "on", f" --no-{dash}": "off"} if is_bool else typed
    option = f'"{flag}/--no-{dash}", "{name}", default=False'
    option = option if is_bool else f'"{flag}", "{name}", default={others[0]!r}'
    click = holder == "click"
    return Source(
        name,
        imports=f"import {holder}\n",
        decorators=f"@click.command()\n@click.option({option})\n" if click else "",
        parameters=name if click else f"{name}: {type(value).__name__} = {False if is_bool else others[0]!r}",
        call="main()" if click else "typer.run(main)",
        given=given,
        typed=typed,
        test=name,
    )


FILES = {
    "yaml": ("import yaml\n", "with open({}) as stream:\n    cfg = yaml.safe_load(stream)"),
    "json": ("", "with open({}) as stream:\n    cfg = json.load(stream)"),
    "toml": ("import tomllib\n", 'with open({}, "rb") as stream:\n    cfg = tomllib.load(stream)'),
    "omegaconf": (
        "from omegaconf import OmegaConf\n",
        "cfg = OmegaConf.merge(OmegaConf.load({}), OmegaConf.from_cli())",
    ),
}


def _file(draw: Draw, holder: str, name: str, value: object, others: list[object]) -> Source:
    nested = draw.maybe("nested", 0.5)
    scalar = json.dumps(value)
    kind = {"omegaconf": "yaml"}.get(holder, holder)
    tree = {"seed": 0, "train": {"lr": 0.001, name: value}} if nested else {"seed": 0, name: value}
    text = {
        "yaml": f"seed: 0\ntrain:\n  lr: 0.001\n  {name}: {scalar}\n" if nested else f"seed: 0\n{name}: {scalar}\n",
        "json": json.dumps(tree, indent=2) + "\n",
        "toml": "seed = 0\n" + ("[train]\nlr = 0.001\n" if nested else "") + f"{name} = {scalar}\n",
    }[kind]
    path, dotted = f"configs/base.{kind}", holder == "omegaconf"
    by_option = draw.maybe("config option", 0.4) and not dotted
    imports, load = FILES[holder]
    parse = load.format("config" if by_option else repr(path))
    if by_option:
        option = f'"--config", default="{path}"'
        made = f"parser = argparse.ArgumentParser()\nparser.add_argument({option})\n"
        parse = f"{made}config = parser.parse_args().config\n{parse}"
    keys = ["train", name] if nested else [name]
    asked = "".join(f".{key}" if dotted else f'["{key}"]' for key in keys)
    typed = {f" {'.'.join(keys)}={each}".replace("=True", "=true"): _meaning(each) for each in others} if dotted else {}
    files = {path: text}
    if by_option and draw.maybe("second config", 0.6):
        other = next(each for each in reversed(others) if each != value)
        files[f"configs/other.{kind}"] = text.replace(scalar, json.dumps(other))
        typed[f" --config configs/other.{kind}"] = _meaning(other)
    given = [f" --config {path}" if by_option and draw.maybe("config given", 0.5) else ""]
    return Source("cfg", imports, parse=parse, files=files, given=given, typed=typed, test=f"cfg{asked}")
