"""``evenhand genai assess``: assess recorded or new items of a generator."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand import genai
from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import PageOptions, TrustFunctionsOption
from evenhand.core.text import split_lines
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenhand.core.typing import Progress
    from evenhand.genai.assessment.prompts import PromptBias


@dataclass(frozen=True)
class ColumnOptions:
    """Roles of the columns of a table, with values and deadlines."""

    group_column: list[str] | None = typer.Option(
        None, help="Column of labels; with --config GROUP=COLUMN. May be repeated."
    )
    condition_column: list[str] | None = typer.Option(
        None, help="Condition on the items, e.g. asked=leader; may be repeated."
    )
    sequence_column: str | None = typer.Option(None, help="Column of the sequence of each item; run=3 selects one.")
    image_column: str | None = typer.Option(None, help="Column with the paths of image files, shown on the page.")
    repeated: list[str] | None = typer.Option(
        None,
        help="Deadlines in items: 6 for every value, 5,6,6,9 for one each, or by group: sex=6, sex+age=20. "
        "May be repeated.",
    )
    values: list[str] | None = typer.Option(
        None, help="Values that must appear, e.g. sex=female,male; by default all in the file."
    )

    @property
    def any_column(self) -> bool:
        """Whether any column is named."""
        return bool(self.group_column or self.condition_column or self.sequence_column or self.image_column)


@dataclass(frozen=True)
class PromptOptions:
    """Prompts of the configured generator."""

    prompt: list[str] | None = typer.Option(None, help="Prompt for the generator; may be repeated.")
    prompts: str | None = typer.Option(
        None, metavar="FILE", help="Text file with a prompt per line; - is standard input."
    )
    requests: int | None = typer.Option(
        None, min=1, help="Number of items; the prompts are repeated. By default one per prompt."
    )

    def read(self) -> list[str]:
        """Collect the prompts of both options, without empty lines."""
        path = self.prompts
        try:
            text = "" if path is None else sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
        except OSError as error:
            raise OptionError(f"{path} cannot be read: {error.strerror}", location="--prompts") from None
        except UnicodeDecodeError:
            raise OptionError(f"{path} is not text in UTF-8", location="--prompts") from None
        collected = []
        for option, lines in (
            ("--prompt", self.prompt or None),
            ("--prompts", None if path is None else split_lines(text)),
        ):
            prompts = [line.strip() for line in lines or () if line.strip()]
            if lines is not None and not prompts:
                raise OptionError("there is no prompt", location=option, hint="write one per line")
            collected += prompts
        return collected


@dataclass(frozen=True)
class LiveOptions(PromptOptions):
    """Prompts and folder of new items."""

    out: Path | None = typer.Option(None, help="Folder of the items; the same command continues an interrupted run.")

    def refuse(self, needed: str, prompts: list[str], **others: object) -> None:
        """Refuse options of new items."""
        options = {"prompt": prompts, "out": self.out, "requests": self.requests, **others}
        for option, value in options.items():
            if value:
                raise OptionError(f"--{option} requires {needed}", location=f"--{option}")


SETTINGS: ConfigOptions[genai.AssessmentConfig] = ConfigOptions(
    "evenhand.genai:AssessmentConfig", ("ways", "inherent", "bar", "error", "repetitions", "confidence")
)


def assess(
    settings: Settings,
    columns: ColumnOptions,
    live: LiveOptions,
    output: PageOptions,
    sequence: Path | None = typer.Argument(
        None, help="Items of a generator: a CSV, Parquet or Excel file with a row per item."
    ),
    config: Path | None = typer.Option(
        None, help="Configuration with conditions, groups, values and deadlines: a YAML or TOML file."
    ),
    trust: TrustFunctionsOption = False,
) -> None:
    """Assess whether a generator shows every value regularly."""
    terms = SETTINGS.read(settings)
    prompts = live.read()
    if config is None:
        live.refuse("--config", prompts, inherent=terms.inherent)
        if sequence is None:
            raise OptionError("expected SEQUENCE, got none", hint="pass a table, or --config with prompts")
        result = _assess_table(sequence, columns, terms)
        folder = sequence.absolute().parent
    else:
        if columns.repeated or columns.values:
            raise OptionError("deadlines and values are part of the configuration", location="--repeated, --values")
        configured = _ConfiguredAssessment(config, terms, trust)
        if sequence is None:
            if not prompts or live.out is None:
                raise OptionError(
                    "expected SEQUENCE, or prompts and --out",
                    hint="pass a table; or generate items with --prompt or --prompts, and --out",
                )
            if columns.any_column:
                raise OptionError("columns require SEQUENCE")
            with output.progress() as progress:
                result = configured.assess_live(prompts, live.requests or len(prompts), live.out, progress)
            folder, output = live.out, replace(output, html=output.html or live.out / "assessment.html")
        else:
            live.refuse("a run without SEQUENCE", prompts)
            result = configured.assess_table(sequence, columns)
            folder = sequence.absolute().parent
    output.finish(result, partial(result.document, str(folder)), interrupted=result.interrupted)


def _assess_table(sequence: Path, columns: ColumnOptions, settings: genai.AssessmentConfig) -> genai.GenaiAssessment:
    """Assess a table without a configuration."""
    groups = list(dict.fromkeys(columns.group_column or ()))
    if not groups:
        raise OptionError("expected a column of labels, got none", hint="name at least one: --group-column NAME")
    conditions = dict(split_pair(text, "--condition-column") for text in columns.condition_column or ())
    column, _, only = (columns.sequence_column or "").partition("=")
    values = dict(split_pair(text, "--values") for text in columns.values or ())
    sequences = genai.read_sequences(
        sequence,
        groups,
        conditions=conditions | ({column: only} if only else {}),
        values={group: split_words(words) for group, words in values.items()},
        sequence_column=column or None,
        image_column=columns.image_column,
    )
    return genai.assess_sequences(
        sequences,
        repeated=_parse_group_deadlines(columns.repeated or (), groups),
        ways=settings.ways,
        confidence=settings.confidence,
        conditions=conditions,
        source=sequence.name,
    )


@dataclass(frozen=True)
class _ConfiguredAssessment:
    """Assessment of a table or of new items, as configured."""

    config: Path
    settings: genai.AssessmentConfig
    trust: bool

    def assess_table(self, sequence: Path, columns: ColumnOptions) -> genai.GenaiAssessment:
        """Assess a table."""
        from evenhand.genai.assessment.evaluation import ItemColumns, evaluate_config, read_condition_sequences
        from evenhand.genai.assessment.prompts import answers_by_prompt

        configuration = genai.GenerationConfig.read(self.config)
        names = {condition.name for condition in configuration.conditions}
        conditions = columns.condition_column or ()
        only = dict(split_pair(text, "--condition-column") for text in conditions if "=" in text)
        holding = [text for text in conditions if "=" not in text]
        holding += [column for column, value in only.items() if value in names]
        column, _, name = (columns.sequence_column or "").partition("=")
        only |= {column: name} if name else {}
        items = read_condition_sequences(
            sequence,
            configuration,
            ItemColumns(
                conditions=next(iter(holding), None),
                groups=dict(split_pair(text, "--group-column") for text in columns.group_column or ()),
                only=only,
                sequence=column or None,
                image=columns.image_column,
            ),
        )
        bias = None
        if self.settings.inherent is not None:
            bias = self._find_bias(configuration, answers_by_prompt(items), sequence)
        return evaluate_config(
            items,
            configuration,
            prompts=bias,
            ways=self.settings.ways,
            confidence=self.settings.confidence,
            source=sequence.name,
        )

    def _find_bias(
        self, configuration: genai.GenerationConfig, answered: Mapping[str, Any], sequence: Path
    ) -> PromptBias:
        """Find the prompts of a table that fix a value."""
        from evenhand.genai.assessment.evaluation import read_fixed_groups

        if not answered:
            raise OptionError("the table has no prompts", location="--inherent", hint="add a column named prompt")
        fixed = None
        if self.settings.inherent == "judged" and (fixed := read_fixed_groups(sequence)) is None:
            judge = genai.build_judge(configuration, trust=self.trust, folder=self.config.absolute().parent)
            fixed = {prompt: judge.fixed_groups(prompt) for prompt in answered}
        return genai.estimate_prompt_bias(answered, configuration.values, fixed=fixed, terms=self.settings)

    def assess_live(self, prompts: list[str], requests: int, out: Path, progress: Progress) -> genai.GenaiAssessment:
        """Generate items, and assess them."""
        pipeline = genai.build_pipeline(
            genai.GenerationConfig.read(self.config), trust=self.trust, folder=self.config.absolute().parent
        )
        return genai.assess_live(
            pipeline, prompts, requests=requests, folder=out, config=self.settings, progress=progress
        )


def split_pair(text: str, option: str) -> tuple[str, str]:
    """Return both sides of ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not (equals and name and value):
        raise OptionError(f"expected NAME=VALUE, got {text!r}", location=option)
    return name, value


def split_words(text: str) -> list[str]:
    """Split a comma-separated text into words."""
    return [word for word in (part.strip() for part in text.split(",")) if word]


def parse_deadlines(text: str) -> int | tuple[int, ...]:
    """Parse one deadline for all values, or one for each: ``6``, or ``5,6,6,9``."""
    try:
        numbers = tuple(int(number) for number in text.split(","))
    except ValueError:
        raise OptionError(
            f"expected a number of items, got {text!r}",
            location="--repeated",
            hint="write 6, or one number per value: 5,6,6,9",
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def _parse_group_deadlines(
    options: Sequence[str], groups: Sequence[str]
) -> dict[str | tuple[str, ...], int | Sequence[int]]:
    """Parse the deadlines of each group, or combination of groups. Deadlines without a name apply to every group."""
    parsed: dict[str | tuple[str, ...], int | Sequence[int]] = {}
    for text in options:
        name, _, numbers = text.rpartition("=")
        deadlines = parse_deadlines(numbers)
        if not name:
            parsed |= dict.fromkeys(groups, deadlines)
        else:
            parsed[name if name in groups else tuple(part.strip() for part in name.split("+"))] = deadlines
    return parsed
