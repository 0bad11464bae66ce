"""``evenhand genai assess``: what a generator shows, recorded or asked now, by options or by a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import PageOptions
from evenhand.core.text import split_lines
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenhand.core.typing import Progress
    from evenhand.genai.assessment.prompts import PromptBias
    from evenhand.genai.assessment.result import GenaiAssessment
    from evenhand.genai.config import AssessmentConfig
    from evenhand.genai.spec.specification import GenerationConfig


@dataclass(frozen=True)
class ColumnOptions:
    """Which columns of a table hold labels, conditions, sequences and pictures, and what is asked of them."""

    group_column: Annotated[
        list[str] | None,
        typer.Option(help="Column of labels; with --config GROUP=COLUMN. May be repeated."),
    ] = None
    condition_column: Annotated[
        list[str] | None,
        typer.Option(help="Only items with this value, like asked=leader; may be repeated."),
    ] = None
    sequence_column: Annotated[
        str | None,
        typer.Option(help="Assess the sequences named in this column apart; run=3: only that."),
    ] = None
    image_column: Annotated[str | None, typer.Option(help="Column of picture files, shown in the page.")] = None
    repeated: Annotated[
        list[str] | None,
        typer.Option(
            help="Every value again within so many items: 6; or 5,6,6,9; or sex=6; or sex+age=20. May be repeated.",
        ),
    ] = None
    values: Annotated[
        list[str] | None,
        typer.Option(help="Values that are to appear, like sex=female,male; else all in the file."),
    ] = None

    @property
    def given(self) -> bool:
        """Whether any column is named."""
        return bool(self.group_column or self.condition_column or self.sequence_column or self.image_column)


@dataclass(frozen=True)
class LiveOptions:
    """What is asked of the configured generator."""

    prompt: Annotated[
        list[str] | None,
        typer.Option(help="Ask the configured generator this, instead of reading SEQUENCE; repeatable."),
    ] = None
    prompts: Annotated[Path | None, typer.Option(help="A text file with a prompt on every line.")] = None
    requests: Annotated[
        int | None,
        typer.Option(min=1, help="How many items; prompts are gone through again and again. Each once unless set."),
    ] = None
    out: Annotated[Path | None, typer.Option(help="Folder that keeps the items; the same command goes on with it.")] = (
        None
    )

    def refuse(self, needed: str, prompts: list[str], **others: object) -> None:
        """Refuse options that need something else.

        Raises:
            OptionError: one is given.
        """
        given = {"prompt": prompts, "out": self.out, "requests": self.requests, **others}
        for option, value in given.items():
            if value:
                raise OptionError(f"--{option} goes with {needed}", location=f"--{option}")

    def read_prompts(self) -> list[str]:
        """Return the prompts of both options; a file's lines, without empty ones.

        Raises:
            OptionError: the file cannot be read, or there is no prompt in it.
        """
        path = self.prompts
        try:
            lines = split_lines(path.read_text("utf-8")) if path is not None else []
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"{path} cannot be read: {error}", location="--prompts") from None
        found = [line.strip() for line in lines if line.strip()]
        if path is not None and not found:
            raise OptionError(f"there is no prompt in {path}", location="--prompts", hint="write one on every line")
        return [*(self.prompt or ()), *found]


SETTINGS: ConfigOptions[AssessmentConfig] = ConfigOptions(
    "evenhand.genai:AssessmentConfig", ("ways", "inherent", "bar", "error", "repetitions", "confidence")
)


def assess(
    settings: Settings,
    columns: ColumnOptions,
    live: LiveOptions,
    output: PageOptions,
    sequence: Annotated[
        Path | None, typer.Argument(help="What a generator answered: a CSV, Parquet or Excel file, a row per item.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Conditions, groups, values and deadlines: a YAML or TOML file."),
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Run functions that the configuration names.")] = False,
) -> None:
    """Assess whether a generator shows every value regularly."""
    from evenhand import view

    terms = SETTINGS.read(settings)
    prompts, html = live.read_prompts(), output.html
    if config is None:
        live.refuse("--config", prompts, inherent=terms.inherent)
        if sequence is None:
            raise OptionError("there is nothing to assess", hint="give a table, SEQUENCE; or --config with prompts")
        result = _assess_table(sequence, columns, terms)
        folder = sequence.absolute().parent
    else:
        if columns.repeated or columns.values:
            raise OptionError("deadlines and values stand in the configuration", location="--repeated, --values")
        configured = _ConfiguredAssessment(config, terms, trust)
        if sequence is None:
            if not prompts or live.out is None:
                raise OptionError(
                    "there is nothing to assess",
                    hint="give a table, SEQUENCE; or ask the generator: --prompt or --prompts, and --out",
                )
            if columns.given:
                raise OptionError("columns are those of a table, and none is given")
            with output.progress() as progress:
                result = configured.assess_live(prompts, live.requests or len(prompts), live.out, progress)
            folder, html = live.out, html or live.out / "assessment.html"
        else:
            live.refuse("prompts, not with SEQUENCE", prompts)
            result = configured.assess_table(sequence, columns)
            folder = sequence.absolute().parent
    written = []
    if html is not None:
        view.write_page(view.render_page(result.document(str(folder))), html)
        written.append(html)
    output.finish(result, result.document, written, interrupted=result.interrupted)


def _assess_table(sequence: Path, columns: ColumnOptions, settings: AssessmentConfig) -> GenaiAssessment:
    """Judge a table by the options alone."""
    from evenhand.genai.assessment.assess import assess_sequences
    from evenhand.genai.assessment.sequences import read_sequences

    groups = list(dict.fromkeys(columns.group_column or ()))
    if not groups:
        raise OptionError("which labels are looked at?", hint="name at least one column: --group-column NAME")
    conditions = dict(split_pair(given, "--condition-column") for given in columns.condition_column or ())
    column, _, only = (columns.sequence_column or "").partition("=")
    values = dict(split_pair(given, "--values") for given in columns.values or ())
    found = read_sequences(
        sequence,
        groups,
        conditions=conditions,
        values={group: split_words(given) for group, given in values.items()},
        sequence_column=column or None,
        sequence=only or None,
        image_column=columns.image_column,
    )
    return assess_sequences(
        found,
        repeated=_parse_group_deadlines(columns.repeated or (), groups),
        ways=settings.ways,
        confidence=settings.confidence,
        conditions=conditions,
        source=sequence.name,
    )


@dataclass(frozen=True)
class _ConfiguredAssessment:
    """An assessment by a configuration: of a table, or of a generator that is asked."""

    config: Path
    settings: AssessmentConfig
    trust: bool

    def assess_table(self, sequence: Path, columns: ColumnOptions) -> GenaiAssessment:
        """Judge a table."""
        from evenhand.genai.assessment.evaluation import ItemColumns, evaluate_config, read_condition_sequences
        from evenhand.genai.assessment.prompts import answers_by_prompt
        from evenhand.genai.spec.specification import GenerationConfig

        configuration = GenerationConfig.read(self.config)
        names = {one.name for one in configuration.conditions}
        conditions = columns.condition_column or ()
        only = dict(split_pair(given, "--condition-column") for given in conditions if "=" in given)
        holding = [given for given in conditions if "=" not in given]
        holding += [column for column, value in only.items() if value in names]
        column, _, name = (columns.sequence_column or "").partition("=")
        found = read_condition_sequences(
            sequence,
            configuration,
            ItemColumns(
                conditions=next(iter(holding), None),
                groups=dict(split_pair(given, "--group-column") for given in columns.group_column or ()),
                only=only,
                sequence=column or None,
                name=name or None,
                image=columns.image_column,
            ),
        )
        bias = None
        if self.settings.inherent is not None:
            bias = self._find_bias(configuration, answers_by_prompt(one.recorded for one in found), sequence)
        return evaluate_config(
            found,
            configuration,
            prompts=bias,
            ways=self.settings.ways,
            confidence=self.settings.confidence,
            source=sequence.name,
        )

    def _find_bias(self, configuration: GenerationConfig, answered: Mapping[str, Any], sequence: Path) -> PromptBias:
        """Return which prompts of a table fix a value.

        Raises:
            OptionError: the table does not say what was asked.
        """
        from evenhand import genai
        from evenhand.genai.assessment.evaluation import read_fixed_groups
        from evenhand.genai.assessment.prompts import ask_fixed_groups, estimate_prompt_bias, judge_prompt_bias

        if not answered:
            raise OptionError(
                "the table does not say which prompts were asked",
                location="--inherent",
                hint="it needs a column prompt",
            )
        if self.settings.inherent == "estimated":
            return estimate_prompt_bias(answered, configuration.values, terms=self.settings)
        fixed = read_fixed_groups(sequence)
        if fixed is None:
            judge = genai.build_judge(configuration, trust=self.trust, folder=self.config.absolute().parent)
            fixed = ask_fixed_groups(judge, answered)
        return judge_prompt_bias(answered, configuration.values, fixed, terms=self.settings)

    def assess_live(self, prompts: list[str], requests: int, out: Path, progress: Progress) -> GenaiAssessment:
        """Ask the configured generator, and judge what it answers."""
        from evenhand.genai.assessment.live import assess_live
        from evenhand.genai.pipeline import build_pipeline
        from evenhand.genai.spec.specification import GenerationConfig

        pipeline = build_pipeline(
            GenerationConfig.read(self.config), trust=self.trust, folder=self.config.absolute().parent
        )
        return assess_live(pipeline, prompts, requests=requests, folder=out, config=self.settings, progress=progress)


def split_pair(given: str, option: str) -> tuple[str, str]:
    """Return both sides of ``NAME=VALUE``.

    Raises:
        OptionError: it is written otherwise.
    """
    name, equals, value = given.partition("=")
    if not (equals and name and value):
        raise OptionError(f"{given!r} does not say which value of which column", location=option, hint="NAME=VALUE")
    return name, value


def split_words(given: str) -> list[str]:
    """Return the words between commas."""
    return [word for word in (part.strip() for part in given.split(",")) if word]


def parse_deadlines(given: str) -> int | tuple[int, ...]:
    """Return one deadline for all values, or one for each: ``6``, or ``5,6,6,9``.

    Raises:
        OptionError: it is written otherwise.
    """
    try:
        numbers = tuple(int(number) for number in given.split(","))
    except ValueError:
        raise OptionError(
            f"expected a number of items, got {given!r}",
            location="--repeated",
            hint="6, or one number per value: 5,6,6,9",
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def _parse_group_deadlines(
    given: Sequence[str], groups: Sequence[str]
) -> dict[str | tuple[str, ...], int | Sequence[int]]:
    """Return what is asked of each group, or of several together; a number without a name is asked of every group."""
    found: dict[str | tuple[str, ...], int | Sequence[int]] = {}
    for one in given:
        name, _, numbers = one.rpartition("=")
        deadlines = parse_deadlines(numbers)
        if not name:
            found |= dict.fromkeys(groups, deadlines)
        else:
            found[name if name in groups else tuple(part.strip() for part in name.split("+"))] = deadlines
    return found
