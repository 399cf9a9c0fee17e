"""Which word of a command line is the script: flags before it are the launcher's, flags behind it the script's."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace

from .shell_words import ASSIGNMENT

FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
OVERRIDE = re.compile(r"(?:\+\+?|~)?([A-Za-z_][\w./@:-]*)\+?=")
_LAUNCHER = re.compile(
    r"(?:i?python|pypy)[\d.]*|torchrun|torch_run|accelerate(?:-launch)?|deepspeed|srun|mpirun|mpiexec(?:\.hydra)?|orterun"
    r"|horovodrun|ray|fabric|lightning|colossalai|composer|(?:ba|z|da|k)?sh|sbatch|[qb]sub|uvx?|poetry|pipenv|conda"
    r"|(?:micro)?mamba|pixi|rye|hatch|docker|podman|singularity|apptainer|nohup|time|sudo|env|exec|xvfb-run|timeout"
    r"|(?:io)?nice|numactl|taskset|stdbuf|coverage|kernprof|nsys|ncu|py-spy|scalene|viztracer|eval|ssh|tmux|screen|parallel"
    r"|xargs|command"
)
_MODULES = {
    "torch.distributed.launch": "torchrun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.elastic.multiprocessing": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "accelerate.commands.accelerate_cli": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "lightning.fabric.cli": "fabric",
    "cProfile": "python",
    "coverage": "coverage",
    "debugpy": "python",
    "pdb": "python",
}
_SUBCOMMANDS = frozenset({"launch", "run", "exec", "model", "--", "python", "submit"})
FILE_OF_LAUNCHER = ("--config_file", "--config-file")
"""The options of accelerate's launcher for its answers, whatever their file is called."""
_SETTING_UP = frozenset({"config", "env", "test", "estimate-memory", "merge-weights", "tpu-config", "to-fsdp2"})
"""What accelerate does instead of launching a program."""
_SCRIPT = re.compile(r".*\.(?:py|sh|bash|slurm|sbatch)", re.DOTALL)
_ARGUMENT_LIST = re.compile(
    r"[\"']?\$(?:[@*]|\{?\w*(?:ARG|OPT|FLAG|PARAM|CONFIG_?S\b)\w*|\{\w+\[[@*]\])", re.IGNORECASE
)
_FLAG = re.compile(r"--?[A-Za-z]")
_STARTING = re.compile(r"(?:python|pypy)[\d.]*|torchrun|accelerate|deepspeed")
"""What a function of the shell may be given to run: ``run python train.py``."""
SILENT = re.compile(
    r"echo|printf|test|\[\[?|[ef]?grep|rg|sed|awk|cat|read|getopts?|pip3?|apt(?:-get)?|git|cd|mkdir|rm|cp|mv|ls|ln|curl"
    r"|wget|tar|unzip|for|case|select|function|in|return|exit|trap|set|unset|shift|source|\.|kill|sleep|wait|chmod|chown"
    r"|tee|head|tail|find|sort|uniq|wc|basename|dirname|which|type|alias|fi|done|esac|\}|mapfile|readarray|:|true|false"
)
"""Programs whose flags and words say nothing about a training run."""
_PRINTING = frozenset({"echo", "printf", "which", "type", "alias"})


@dataclass(frozen=True, slots=True)
class WordRoles:
    """Who owns the words of one command line."""

    script: int | None
    """Index of the script's word; None when it is not to be seen."""
    name: str
    """The script, module or program as written."""
    launchers: tuple[tuple[int, str], ...]
    number: int = -1
    """Which of the text's command lines this is; -1: words that belong to none yet."""

    def of(self, index: int) -> tuple[str, str]:
        """(command, owner) for the word at ``index``."""
        if self.script is not None and index > self.script:
            return self.name, "script"
        before = bisect_left(self.launchers, (index, "")) - 1
        return (self.launchers[before][1], "launcher") if before >= 0 else ("", "")


def is_launcher(word: str) -> bool:
    """Whether ``word`` starts a command that runs another program."""
    name = word.replace("\\", "/").rpartition("/")[2]
    return _LAUNCHER.fullmatch(name) is not None


def starts_programs(word: str) -> bool:
    """Whether ``word`` is an interpreter or a launcher of training programs."""
    return _STARTING.fullmatch(_base(word)) is not None


def is_argument_list(raw: str) -> bool:
    """Whether ``raw`` expands to further arguments (``"${ARGS[@]}"``, ``$EXTRA_FLAGS``, ``$@``), not to a value."""
    return _ARGUMENT_LIST.match(raw) is not None


def is_value(raw: str) -> bool:
    """Whether a word can be the value of the flag before it: no flag, no arguments of others, no override."""
    bare = raw.lstrip("\"'")
    if FLAG.match(bare) or is_argument_list(raw):
        return False
    override = OVERRIDE.match(bare)
    return override is None or (bare[0] not in "+~" and "." not in override[1])


def find_roles(words: list[str], *, is_command: bool) -> WordRoles:
    """Find launchers and script among ``words``; ``is_command`` says that the first word is surely a program."""
    if not words:
        return WordRoles(None, "", ())
    first = words[0]
    if ASSIGNMENT.match(first):  # of a variable that holds them before its launcher
        inner = find_roles(words[1:], is_command=is_command)
        script = None if inner.script is None else inner.script + 1
        return replace(inner, script=script, launchers=tuple((at + 1, name) for at, name in inner.launchers))
    if not is_launcher(first) and not first.startswith("$") and not (is_command and _is_function(words)):
        if _SCRIPT.fullmatch(first) or (is_command and not _FLAG.match(first)):
            return WordRoles(0, first, ())
        return WordRoles(None, "", ())
    launchers: list[tuple[int, str]] = [(0, _base(first))] if is_launcher(first) else []
    for index, word in enumerate(words[1:], 1):
        before = words[index - 1]
        if before in {"-m", "--module"} and not word.startswith("-"):
            if word not in _MODULES:
                return WordRoles(index, word, tuple(launchers))
            launchers.append((index, _MODULES[word]))
        elif _SCRIPT.fullmatch(word) and not word.startswith("-") and before not in FILE_OF_LAUNCHER:
            return WordRoles(index, word, tuple(launchers))
        elif is_launcher(word) and not _takes_value(before):
            launchers.append((index, _base(word)))
    if not launchers:
        return WordRoles(None, "", ())
    script = _likely_script(words, launchers[-1][0])
    return WordRoles(script, "" if script is None else words[script], tuple(launchers))


def _is_function(words: list[str]) -> bool:
    """Whether the first word is a function that runs what follows: ``run python train.py``."""
    started = len(words) > 2 and words[0] not in _PRINTING and starts_programs(words[1])
    return started and not _SCRIPT.fullmatch(words[0]) and any(map(_SCRIPT.fullmatch, words[2:]))


def _base(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2]


def _takes_value(word: str) -> bool:
    return bool(_FLAG.match(word)) and "=" not in word


def _likely_script(words: list[str], last_launcher: int) -> int | None:
    """The first word behind the launcher that is neither flag, flag's value, subcommand nor list of arguments."""
    fallback = None
    for index in range(last_launcher + 1, len(words)):
        word = words[index]
        if word.startswith("-") or word in _SUBCOMMANDS or is_argument_list(word) or "=" in word:
            continue
        if not _takes_value(words[index - 1]):
            sets_up = _base(words[last_launcher]) == "accelerate" and word in _SETTING_UP
            return None if sets_up and index == last_launcher + 1 else index
        if fallback is None and word.startswith("$") and " " not in word:
            fallback = index
    return fallback
