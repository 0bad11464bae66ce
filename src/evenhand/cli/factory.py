"""Commands made from functions: options of data classes and of configurations, in titled groups."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from typer.core import TyperCommand, TyperGroup

from evenhand.errors import OptionError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from evenhand.core.config import Config

ConfigT = TypeVar("ConfigT", bound="Config")
Settings: TypeAlias = Mapping[str, Any]
"""Options that the user typed and that set fields of configurations."""

SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}

TITLES = {
    "Data": "target favourable_target protected favourable kind ignore accept_proposals schema "
    "data from_ features model population query relevance text_column terms weight membership test sheet",
    "Decision": "example decision score rank rank_by threshold low_is_good output trust",
    "Analysis": "",
    "Limits": "time_limit budget money max_boxes target_undecided at_once in_flight workers yes seed",
    "Output": "out save table html markdown certificate save_tests dossier resume fail_on allow_unassessable "
    "gate_report show_people verbose json quiet help",
}
"""Titles of the groups of options in the help of a command, with the options in their order.

Options that are not listed are part of the analysis.
"""

HEADINGS = ("Arguments", "Options", *TITLES)
"""Titles in the order of the help. A command with few options has one group of options."""

PLACES = {
    name: (HEADINGS.index(title), place) for title, names in TITLES.items() for place, name in enumerate(names.split())
}
"""Number of the title of each listed option, and its position below the title."""

OPTION_NAMES, SETTINGS = "evenhand.options", "evenhand.settings"
"""Keys of the options of the running command, and of its settings, in the metadata of its context."""

FEW_OPTIONS = 8
"""Number of options up to which a command lists them without titles."""


@dataclasses.dataclass(frozen=True)
class ConfigOptions(Generic[ConfigT]):
    """Options for the fields of a configuration, which is imported when a command is run or shows its help.

    Attributes:
        config: Package and class, such as ``evenhand.subgroups:SubgroupConfig``.
        fields: Fields that have an option. The others are set in Python.
        about: Subject of the analysis, for messages.
        hint: Instruction about an option that does not apply, for messages.
        renamed: Option of each field whose option has another name.
        parsed: Function that converts the value of an option to that of the field, by option.
    """

    config: str
    fields: tuple[str, ...]
    about: str = "people"
    hint: str = "leave it out"
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parsed: Mapping[str, Callable[[Any], object]] = dataclasses.field(default_factory=dict)

    def load(self) -> type[ConfigT]:
        """Import the class of the configuration."""
        package, _, name = self.config.partition(":")
        config: type[ConfigT] = getattr(importlib.import_module(package), name)
        return config

    def options(self) -> dict[str, str]:
        """Return the field of each option, by the name of the option in Python."""
        return {self.renamed.get(name, name): name for name in self.fields}

    def read(self, settings: Settings, **others: Any) -> ConfigT:
        """Build the configuration that the options describe.

        Args:
            settings: Options of the command.
            others: Fields that do not come from these options; None if they are not set.
        """
        options = self.options()
        for option in settings:
            if option not in options:
                raise OptionError(f"{flag(option)} does not apply to {self.about}", hint=self.hint)
        fields = {
            options[option]: self.parsed[option](value) if option in self.parsed else value
            for option, value in settings.items()
        }
        fields |= {name: value for name, value in others.items() if value is not None}
        try:
            return self.load()(**fields)
        except OptionError as error:
            names = {**{name: option for option, name in options.items()}, **{name: name for name in others}}
            if error.location in names:
                error.location = flag(names[error.location])
            raise


def flag(option: str) -> str:
    """Format the name of an option. The ``_`` at the end of a Python keyword is dropped."""
    return f"--{option.rstrip('_').replace('_', '-')}"


class TitledCommand(TyperCommand):
    """Command whose help lists its options in titled groups.

    Attributes:
        sources: Configurations whose fields are options too.
    """

    sources: tuple[ConfigOptions[Any], ...] = ()
    added: tuple[str, ...] | None = None

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, with those of the configurations."""
        if self.added is None:
            options = _make_options(self.sources)
            self.added = tuple(str(option.name) for option in options)
            self.params = sorted([*self.params, *options], key=_place)
        return super().get_params(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the arguments."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(order).items():
            if times > 1 and not parameter.multiple and not getattr(parameter, "is_flag", False):
                raise OptionError(f"{parameter.opts[0]} was given {times} times", hint="give it once")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. The options of the configurations are passed as one mapping."""
        ctx.meta[OPTION_NAMES] = [name for parameter in self.get_params(ctx) for name in parameter.opts]
        if self.sources:
            settings = {name: ctx.params.pop(name) for name in self.added or ()}
            ctx.meta[SETTINGS] = {
                name: value
                for name, value in settings.items()
                if value is not None and value is not False and value != ()
            }
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help of all parameters, in titled groups."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(HEADINGS[_place(parameter)[0]], []).append(record)
        options = sum(map(len, groups.values())) - len(groups.get("Arguments", ()))
        if options <= FEW_OPTIONS:
            flat = [record for title, records in groups.items() if title != "Arguments" for record in records]
            groups = {"Arguments": groups.get("Arguments", []), "Options": flat}
        for title in HEADINGS:
            if groups.get(title):
                with formatter.section(title):
                    formatter.write_dl(groups[title])


def _place(parameter: Any) -> tuple[int, int]:
    """Return the position of a parameter in the help: the number of its title, and its position below the title."""
    is_argument = parameter.param_type_name == "argument"
    return (0, 0) if is_argument else PLACES.get(parameter.name, (HEADINGS.index("Analysis"), 0))


class TitledCommands(TyperGroup):
    """Group whose help lists its commands in titled groups, each with its first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the first sentence of the help of each command."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            records = groups.setdefault(command.rich_help_panel or "Commands", [])
            records.append((name, str(command.help).partition(".")[0] + "."))
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def add_command(
    app: typer.Typer,
    function: Callable[..., None],
    *sources: ConfigOptions[Any],
    name: str | None = None,
    title: str | None = None,
) -> None:
    """Add a function to the commands of an application.

    Args:
        app: Application or group.
        function: Function of the command. A parameter whose type is a data class takes the options of its fields, whose
            method ``check``, if any, is called first. The parameter ``settings`` takes those of the configurations.
        sources: Configurations whose fields are options.
        name: Name of the command. Default: the name of the function.
        title: Title in the help of the application.
    """
    cls = type("ConfiguredCommand", (TitledCommand,), {"sources": sources})
    name = name or function.__name__.replace("_", "-")
    app.command(name, cls=cls, rich_help_panel=title)(_flatten(function))


def command_group(app: typer.Typer, name: str, about: str, *, title: str) -> typer.Typer:
    """Add a group of commands to an application, and return it."""
    group = typer.Typer(name=name, cls=TitledCommands, help=about, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, rich_help_panel=title)
    return group


def _flatten(function: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a data class by parameters for the fields of the class."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if dataclasses.is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            hints = get_type_hints(parameter.annotation, include_extras=True)
            parameters += [
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
                )
                for field in dataclasses.fields(parameter.annotation)
            ]
        else:
            annotation = typer.Context if parameter.name == "settings" else parameter.annotation
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation))

    @functools.wraps(function)
    def flattened(**values: Any) -> None:
        arguments = {
            name: group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        for argument in arguments.values():
            if hasattr(argument, "check"):
                argument.check()
        if "settings" in values:
            values["settings"] = values["settings"].meta[SETTINGS]
        function(**arguments, **values)

    flattened.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # read by Typer
    flattened.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flattened


def _make_options(sources: tuple[ConfigOptions[Any], ...]) -> list[Any]:
    """Build the options of some configurations, each name once."""
    parameters: dict[str, inspect.Parameter] = {}
    for source in sources:
        config = source.load()
        for option, name in source.options().items():
            if option not in parameters:
                parameters[option] = inspect.Parameter(
                    option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotate(config, name, option)
                )

    def collect(**settings: Any) -> None: ...

    collect.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]  # read by Typer
    collect.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    app = typer.Typer(add_completion=False)
    app.command(add_help_option=False)(collect)
    return list(typer.main.get_command(app).params)


def _annotate(config: type[Config], name: str, option: str) -> Any:
    """Return the type of an option, with its help: text, choices, default and range."""
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
        list[kind] | None if repeated else kind | None,  # type: ignore[valid-type]  # the type is not static
        typer.Option(flag(option), help=text + note, metavar=unit, show_default=False),
    ]


def _field_choices(field: FieldInfo) -> tuple[str, ...]:
    """Return the values of a field that is a choice."""
    for part in (field.annotation, *get_args(field.annotation)):
        if get_origin(part) is Literal:
            return tuple(map(str, get_args(part)))
    return ()


def _format_range(limits: Mapping[str, float]) -> str:
    """Format a range as Click does: ``x>=1``, or ``0<=x<1``."""
    if len(limits) == 1:
        ((sign, limit),) = limits.items()
        return f"x{SIGNS[sign]}{limit:g}"
    (low, minimum), (high, maximum) = limits.items()
    return f"{minimum:g}{SIGNS[low].replace('>', '<')}x{SIGNS[high]}{maximum:g}"


def _option_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type of one value of a field, and whether its option may be repeated."""
    parts = get_args(annotation) or (annotation,)
    for part in (annotation, *parts):
        if get_origin(part) is tuple or get_origin(part) is Mapping or part is Mapping:
            return str, True
    return next((kind for kind in (bool, int, float, Path) if kind in (annotation, *parts)), str), False
