"""The described options and arguments as typer takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Annotated, Any, get_type_hints

import typer

from .options import Argument, FlagOption, ValueOption
from .typed_words import AnyOption, AnyRequest


def taking(kind: type[AnyRequest], run: Callable[[AnyRequest], int]) -> Callable[..., None]:
    """A command for typer whose options are the fields of ``kind``; its help is the docstring of ``run``."""

    def command(**given: Any) -> None:
        raise typer.Exit(run(kind(**given)))

    hints = get_type_hints(kind, include_extras=True)
    made = {each.name: each.default_factory() for each in fields(kind) if each.default_factory is not MISSING}
    known = inspect.signature(kind).parameters
    parameters = [
        known[name].replace(annotation=_described(hints[name]), default=made.get(name, known[name].default))
        for name in kind.taken
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = run.__doc__
    return command


def _described(hint: Any) -> object:
    """A type with one of the descriptions of `options`, with that of typer instead."""
    return Annotated[hint.__origin__, for_typer(hint.__metadata__[0])]


def for_typer(option: AnyOption) -> Any:
    """An option or argument as typer describes it."""
    if isinstance(option, FlagOption):
        names = [f"{option.names[0]}/{option.off}"] if option.off else option.names
        return typer.Option(*names, help=option.help, show_default=not option.off)
    if isinstance(option, Argument):
        return typer.Argument(
            help=option.help,
            show_default=option.has_default,
            metavar=option.metavar,
            parser=_reader(option),
            autocompletion=option.complete,
        )
    return typer.Option(
        *option.names,
        help=option.help,
        metavar=option.metavar,
        parser=_reader(option),
        autocompletion=option.complete,
    )


def _reader(option: Argument | ValueOption) -> Callable[[str], object] | None:
    read = option.read
    if read is None:
        return None

    def reading(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    reading.__name__ = getattr(read, "__name__", "value")
    return reading
