"""Options of commands: from the configuration of an analysis, and from groups that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from evenhand.errors import OptionError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from evenhand.core.config import Config

ConfigT = TypeVar("ConfigT", bound="Config")
GIVEN = "evenhand.settings"
"""Where a command finds what was given of its settings, by option."""

SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
SHARED = (
    "target",
    "protected",
    "favourable",
    "schema",
    "ignore",
    "accept_proposals",
    "trust",
    "seed",
    "data_home",
    "json",
    "quiet",
)
"""Options that stand last in the help of a command: those that many have."""


@dataclasses.dataclass(frozen=True)
class ConfigOptions(Generic[ConfigT]):
    """Options for the fields of a configuration, which is imported when a command is run or asked for help.

    Attributes:
        config: package and class, ``evenhand.subgroups:SubgroupConfig``.
        about: what the analysis is about, and hint: what to do about an option that is not, for messages.
        without: fields that have no option.
        renamed: field -> option, where it is called otherwise.
        parsed: option -> what makes the field's value of what is given.
    """

    config: str
    about: str = "people"
    hint: str = "leave it out"
    without: tuple[str, ...] = ()
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parsed: Mapping[str, Callable[[Any], object]] = dataclasses.field(default_factory=dict)

    def load(self) -> type[ConfigT]:
        """Import the class of the configuration."""
        package, _, name = self.config.partition(":")
        found: type[ConfigT] = getattr(importlib.import_module(package), name)
        return found

    def options(self) -> dict[str, str]:
        """Return the name of each option, as in Python, and its field."""
        names = (name for name in self.load().model_fields if name not in self.without)
        return {self.renamed.get(name, name): name for name in names}

    def read(self, context: typer.Context, **others: Any) -> ConfigT:
        """Return the configuration that the options describe.

        Args:
            context: of the command.
            others: settings that come from elsewhere; None where they are not given.

        Raises:
            OptionError: an option is of another analysis, or a value is outside its range.
        """
        own, given = self.options(), context.meta[GIVEN]
        for option in given:
            if option not in own:
                raise OptionError(f"{flag(option)} is not about {self.about}", hint=self.hint)
        settings = {
            own[option]: self.parsed[option](value) if option in self.parsed else value
            for option, value in given.items()
        }
        settings |= {name: value for name, value in others.items() if value is not None}
        try:
            return self.load()(**settings)
        except OptionError as error:
            named = {**own, **{name: name for name in others}}
            option = next((option for option, name in named.items() if name == error.location), None)
            error.location = error.location if option is None else flag(option)
            raise


def flag(option: str) -> str:
    """Return an option as it is typed; one that is a word of Python ends in ``_`` there."""
    return f"--{option.rstrip('_').replace('_', '-')}"


def with_settings(*sources: ConfigOptions[Any]) -> type[TyperCommand]:
    """Return a kind of command that has the options of these configurations, each once, before those it shares."""

    class ConfiguredCommand(TyperCommand):
        added: tuple[str, ...] | None = None

        def get_params(self, ctx: Any) -> Any:
            if self.added is None:
                options = _make_options(sources)
                self.added = tuple(str(option.name) for option in options)
                at = next((i for i, one in enumerate(self.params) if one.name in SHARED), len(self.params))
                self.params[at:at] = options
            return super().get_params(ctx)

        def invoke(self, ctx: Any) -> Any:
            given = {name: ctx.params.pop(name) for name in self.added or ()}
            ctx.meta[GIVEN] = {
                name: value for name, value in given.items() if value is not None and value is not False and value != ()
            }
            return super().invoke(ctx)

    return ConfiguredCommand


def _make_options(sources: tuple[ConfigOptions[Any], ...]) -> list[Any]:
    """Return what Click needs to know about each option of these configurations."""
    parameters: dict[str, inspect.Parameter] = {}
    for source in sources:
        config = source.load()
        for option, name in source.options().items():
            if option not in parameters:
                parameters[option] = inspect.Parameter(
                    option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotate(config, name, option)
                )

    def collect(**given: Any) -> None: ...

    collect.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]  # Typer reads it
    collect.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    app = typer.Typer(add_completion=False)
    app.command(add_help_option=False)(collect)
    return list(typer.main.get_command(app).params)


def _annotate(config: type[Config], name: str, option: str) -> Any:
    """Return the type of an option with its help: text, choices, default and range."""
    from evenhand.core.config import field_limits, field_unit

    field = config.model_fields[name]
    kind, repeated = _option_type(field.annotation)
    text = str(field.description)
    choices = _field_choices(field)
    text = text[0].upper() + text[1:] + (f": {', '.join(choices)}" if choices else "")
    text += "; may be repeated." if repeated else "."
    notes = []
    if field.default not in (None, (), False) and not repeated:
        notes.append(f"default: {field.default}")
    limits = field_limits(field)
    if limits:
        notes.append(_format_range(limits))
    note = f"  [{'; '.join(notes)}]" if notes else ""
    unit = field_unit(field).upper() or None
    return Annotated[
        list[kind] | None if repeated else kind | None,  # type: ignore[valid-type]  # known at run time alone
        typer.Option(flag(option), help=text + note, metavar=unit, show_default=False),
    ]


def _field_choices(field: FieldInfo) -> tuple[str, ...]:
    """Return the values of a field that is a choice."""
    for part in (field.annotation, *get_args(field.annotation)):
        if get_origin(part) is Literal:
            return tuple(map(str, get_args(part)))
    return ()


def _format_range(limits: Mapping[str, float]) -> str:
    """Return a range as Click writes it: ``x>=1``, or ``0<=x<1``."""
    if len(limits) == 1:
        ((sign, limit),) = limits.items()
        return f"x{SIGNS[sign]}{limit:g}"
    (low, least), (high, most) = limits.items()
    return f"{least:g}{SIGNS[low].replace('>', '<')}x{SIGNS[high]}{most:g}"


def _option_type(annotation: Any) -> tuple[Any, bool]:
    """Return what one value of a field is on the command line, and whether the option may be repeated."""
    parts = get_args(annotation) or (annotation,)
    for part in (annotation, *parts):
        if get_origin(part) is tuple or get_origin(part) is Mapping or part is Mapping:
            return str, True
    return next((kind for kind in (bool, int, float, Path) if kind in (annotation, *parts)), str), False


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of each group that it takes, after its own: a group is a data class of options."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: one.annotation for name, one in signature.parameters.items() if dataclasses.is_dataclass(one.annotation)
    }
    own = [one for name, one in signature.parameters.items() if name not in groups]
    flat = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    shared: list[inspect.Parameter] = []
    for group in groups.values():
        hints = get_type_hints(group, include_extras=True)
        shared += [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
            for one in dataclasses.fields(group)
        ]

    flat += sorted(shared, key=lambda one: SHARED.index(one.name) if one.name in SHARED else -1)

    @functools.wraps(command)
    def flattened(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in dataclasses.fields(group)})
        command(**given)

    flattened.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]  # Typer reads it
    flattened.__annotations__ = {one.name: one.annotation for one in flat}
    return flattened
