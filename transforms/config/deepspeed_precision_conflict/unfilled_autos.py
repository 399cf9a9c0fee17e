"""``"auto"`` in a configuration that ``deepspeed.initialize`` reads by itself.

The trainers of Hugging Face put the value of their own arguments in its place (``HfTrainerDeepSpeedConfig``);
DeepSpeed does not know the word (``deepspeed/runtime/precision_config.py``, 0.19.6).
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Draft, Place
from ....codemod.purpose.given import is_run
from ....codemod.python.names import checked_modules
from ....codemod.source.project import Project
from ....codemod.trainers.reading.engine_configs import configs_read_by

SWITCHES = ("fp16.enabled", "bf16.enabled")
AUTO = "auto"
MESSAGE = (
    '"auto" is filled in by the trainers of Hugging Face alone, and deepspeed.initialize reads this by itself: '
    "DeepSpeed 0.17.1 and later raises ValidationError, before it counts as true [ds-auto-unfilled]"
)


def unfilled_autos(project: Project) -> Iterator[Draft]:
    told: set[Place] = set()
    for module in checked_modules(project, ("deepspeed",), ("initialize",)):
        for made in module.calls_by_name.get("initialize", ()):
            for scope in configs_read_by(project, module, made) if is_run(project, module, made) else ():
                words = [setting for name in SWITCHES for setting in scope.of(name) if setting.value == AUTO]
                if words and words[0].place not in told:
                    told.add(words[0].place)
                    others = [setting.place.saying("and here") for setting in words[1:]]
                    reads = module.place(made, "DeepSpeed reads the configuration here")
                    yield Draft(words[0].place.saying(MESSAGE), (reads, *others))
