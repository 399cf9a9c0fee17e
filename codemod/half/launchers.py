"""Whether a launcher may give the weights of a script float32 copies: DeepSpeed, or FSDP as accelerate opens it."""

from __future__ import annotations

from ..python.names import ModuleNames
from ..source.documents import FileKind
from ..source.project import Project

HOLDING = ("deepspeed", "fsdp", "FSDP")
"""Words of launchers' files and of launch lines by which the weights get float32 copies."""
PLAIN = ("--multi_gpu", "--multi-gpu")
"""The flag with which accelerate asks no configuration of the user for DeepSpeed or FSDP."""
LAUNCHES = (FileKind.SHELL, FileKind.NOTEBOOK)
TEXTS = (FileKind.YAML, FileKind.JSON, FileKind.TOML)


def is_held(project: Project, module: ModuleNames, *launchers: str) -> bool:
    """Whether DeepSpeed or FSDP may hold the weights: the script or a text that starts it says so, or names a launcher.

    Of a script that no text names, nobody knows how it is started: then any such
    configuration of the project counts.
    """
    if any(word in module.document.text for word in HOLDING):
        return True
    path = "/".join(module.path.split("/")[-2:])
    spellings = (path, path.removesuffix(".py").replace("/", "."))
    launches = [document for kind in LAUNCHES for document in project.documents(kind, spellings)]
    if launches:
        texts = [item.text for item in launches]
        unknown = any(word in text and not any(item in text for item in PLAIN) for text in texts for word in launchers)
        return unknown or any(word in text for text in texts for word in HOLDING)
    return any(True for kind in TEXTS for _ in project.documents(kind, HOLDING))
