"""A keyword for the precision that the called library does not have, and ignores.

## What goes wrong

`BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_type=torch.bfloat16)` raises nothing: the compute dtype stays
float32, and QLoRA trains several times slower than it should (`Input type into Linear4bit is torch.bfloat16, but
bnb_4bit_compute_dtype=torch.float32 (default)`). `from_pretrained(..., torch_type=torch.float16)` loads a diffusers
pipeline in float32; a model of transformers raises `TypeError: unexpected keyword argument 'torch_type'`.
`AutoTokenizer.from_pretrained(..., dtype=torch.bfloat16)` changes nothing, and `save_pretrained` of that tokenizer,
which trainers call for each checkpoint, stops with `TypeError: Object of type dtype is not JSON serializable`.

## Why

`BitsAndBytesConfig.__init__` (transformers, diffusers) takes `**kwargs` and only logs, at level info, that they are not
used. A pipeline of diffusers says that unknown keywords `are not expected and will be ignored`. A tokenizer keeps what
it does not know in `init_kwargs`, and writes that to `tokenizer_config.json` (tried with transformers 4.57.1 and
5.24.0).

## Fix

`keyword` [unsafe]: the keyword that the library has. The run changes its precision, which is what was asked for.

`drop` [unsafe]: the dtype of a tokenizer goes; a tokenizer that comes with its checkpoint might read it.

## Not flagged

Keywords that the library has; other unknown keywords, also beside `bnb_4bit_compute_dtype` and for 8-bit weights, which
compute in the dtype of their input; `**options`; classes of the project; words for a dtype that a tokenizer is passed
(`dtype="auto"`), which it can save; tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Fix, Rule
from ...codemod.purpose.checked import checked_code
from ...codemod.python.arguments import receiver_of
from ...codemod.python.names import ModuleNames, last_name, resolve
from ...codemod.source.project import Project
from ...codemod.torch.api import COMPUTE_KEY, LOAD_KEYS, LOADERS, QUANTIZING
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import UNKNOWN, Constant, Dtype

WORDS = ("BitsAndBytesConfig", "torch_type", "torchdtype", "torch_dype", "torch_dtpe", "torch_dtyp", "troch_dtype")
QUANTIZATION = "BitsAndBytesConfig"
LIBRARIES = frozenset({"transformers", "diffusers"})
ACCEPTED = frozenset(
    {
        *QUANTIZING,
        "llm_int8_threshold",
        "llm_int8_skip_modules",
        "llm_int8_enable_fp32_cpu_offload",
        "llm_int8_has_fp16_weight",
        COMPUTE_KEY,
        "bnb_4bit_quant_type",
        "bnb_4bit_use_double_quant",
        "bnb_4bit_quant_storage",
    }
)
"""The keywords of ``BitsAndBytesConfig`` (transformers 4.30 to 5.23, diffusers 0.32 to 0.42)."""
ABOUT_COMPUTING = frozenset({"compute", "dtype", "datatype", "bf16", "fp16", "bfloat16", "float16", "precision"})
"""Words of keywords that say in which precision to compute."""
MISSPELLED_LOAD_KEYS = frozenset(WORDS[1:])
TOKENIZERS = ("Tokenizer", "TokenizerFast")
"""How the names of tokenizers end."""


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, WORDS):
        for call in module.calls:
            yield from _quantization(project, module, call)
            yield from _loaded(project, module, call)
    for module in checked_code(project, TOKENIZERS[:1], LOAD_KEYS):
        for call in module.calls_by_name.get("from_pretrained", ()):
            yield from _tokenizer(project, module, call)


def _quantization(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Finding]:
    last = last_name(call.func)
    if last != QUANTIZATION or not _is_of_libraries(project, module, call.func):
        return
    given = {item.arg for item in call.keywords}
    if COMPUTE_KEY in given or None in given or ("load_in_8bit" in given and "load_in_4bit" not in given):
        return
    for item in call.keywords:
        name = item.arg or ""
        if not name or name in ACCEPTED or ABOUT_COMPUTING.isdisjoint(name.lower().split("_")):
            continue
        fixes = [_renamed(module, call, item, COMPUTE_KEY)] if "compute" in name else []
        message = f"{QUANTIZATION} ignores the unknown keyword {name}; {COMPUTE_KEY} stays float32"
        yield rule.at(module, item, message, fixes=fixes)


def _loaded(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Finding]:
    """``StableDiffusionPipeline.from_pretrained(..., torch_type=torch.float16)``."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LOADERS:
        return
    for item in call.keywords:
        if item.arg in MISSPELLED_LOAD_KEYS and _is_of_libraries(project, module, call.func):
            root = (resolve(project, module, call.func) or "").partition(".")[0]
            effect = "is ignored" if root == "diffusers" else "is unknown (TypeError)"
            fixes = [_renamed(module, call, item, "torch_dtype")]
            yield rule.at(module, item, f"{item.arg} {effect}; did you mean torch_dtype?", fixes=fixes)


def _tokenizer(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Finding]:
    """``AutoTokenizer.from_pretrained(..., dtype=torch.bfloat16)``."""
    owner = receiver_of(call)
    if owner is None or not last_name(owner).endswith(TOKENIZERS) or not _is_of_libraries(project, module, call.func):
        return
    for item in call.keywords:
        if item.arg in LOAD_KEYS and all(isinstance(each, Dtype) for each in _values(project, module, item)):
            edit = module.remove_argument(call, item.arg)
            fixes = [Fix.unsafe("drop", "leave it out: the tokenizer can be saved again", edit)]
            message = (
                f"a tokenizer has no dtype: {item.arg} changes nothing, and save_pretrained raises TypeError"
                " (Object of type dtype is not JSON serializable)"
            )
            yield rule.at(module, item, message, fixes=fixes)


def _values(project: Project, module: ModuleNames, item: ast.keyword) -> set[Constant]:
    return constants_of(project, module, item.value) or {UNKNOWN}


def _is_of_libraries(project: Project, module: ModuleNames, function: ast.expr) -> bool:
    qualified = resolve(project, module, function) or ""
    return qualified.partition(".")[0] in LIBRARIES and not module.is_ambiguous(function)


def _renamed(module: ModuleNames, call: ast.Call, item: ast.keyword, name: str) -> Fix | None:
    if any(other.arg in (name, None) for other in call.keywords):
        return None
    edit = module.name_argument(call, item.arg or "", name)
    return Fix.unsafe("keyword", f"pass {name}=; the run changes its precision", edit)


rule = Rule.of("PF410", check)
