"""``evenhand genai assess``: what a generator shows, recorded or asked now, by options or by a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import JsonOption, QuietOption, check_places, emit_result
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from evenhand.genai.assessment import GenaiAssessment
    from evenhand.genai.inherent import How, Terms


def assess(
    sequence: Annotated[
        Path | None, typer.Argument(help="What a generator answered: a CSV or Parquet file, a row per item.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Conditions, groups, values and deadlines: a YAML or TOML file."),
    ] = None,
    group_column: Annotated[
        list[str] | None,
        typer.Option("--group-column", help="Column of labels; with --config GROUP=COLUMN. May be repeated."),
    ] = None,
    condition_column: Annotated[
        list[str] | None,
        typer.Option("--condition-column", help="Only items with this value, like asked=leader; may be repeated."),
    ] = None,
    repeated: Annotated[
        list[str] | None,
        typer.Option(
            "--repeated",
            help="Every value again within so many items: 6; or 5,6,6,9; or sex=6; or sex+age=20. May be repeated.",
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--values", help="Values that are to appear, like sex=female,male; else all in the file."),
    ] = None,
    sequence_column: Annotated[
        str | None,
        typer.Option("--sequence-column", help="Assess the sequences named in this column apart; run=3: only that."),
    ] = None,
    ways: Annotated[
        int | None, typer.Option("--ways", min=2, help="Coverage of combinations of so many groups; 2.")
    ] = None,
    image_column: Annotated[
        str | None, typer.Option("--image-column", help="Column of picture files, shown in the page.")
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option("--prompt", help="Ask the configured generator this, instead of reading SEQUENCE; repeatable."),
    ] = None,
    prompts: Annotated[Path | None, typer.Option("--prompts", help="A text file with a prompt on every line.")] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests", min=1, help="How many items; prompts are gone through again and again. Each once unless set."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder that keeps the items; the same command goes on with it.")
    ] = None,
    inherent: Annotated[
        str | None,
        typer.Option("--inherent", help="Neutral prompts by themselves too; they are: judged, or estimated."),
    ] = None,
    bar: Annotated[float, typer.Option("--bar", help="A prompt fixes a value that it shows at least so often.")] = 0.95,
    error: Annotated[
        float, typer.Option("--error", help="That any estimated verdict about a prompt is wrong, at most.")
    ] = 0.05,
    repetitions: Annotated[
        int, typer.Option("--repetitions", min=1, help="Items per prompt that estimates may take.")
    ] = 200,
    trust: Annotated[bool, typer.Option("--trust", help="Run functions that the configuration names.")] = False,
    confidence: Annotated[float, typer.Option("--confidence", help="Of every interval.")] = 0.95,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Assess a generator: does every value appear, again and again, how often, in which combinations?"""
    from evenhand import report
    from evenhand.report.assessment import render_assessment, show_assessment

    check_places({"--html": html, "--json": None if json in (None, "-") else Path(str(json))})
    asked = [*(prompt or ()), *_lines(prompts)]
    if config is None:
        _only_with("--config", {"--prompt": asked, "--out": out, "--requests": requests, "--inherent": inherent})
        if sequence is None:
            raise OptionError("there is nothing to assess", mend="give a table, SEQUENCE; or --config with prompts")
        result = _plainly(sequence, group_column or (), condition_column or (), repeated or (), values or (),
                          sequence_column, ways, image_column, confidence)  # fmt: skip
        folder = sequence.absolute().parent
    else:
        if repeated or values:
            raise OptionError("deadlines and values stand in the configuration", where="--repeated, --values")
        terms = Asking(_how(inherent), bar, error, repetitions, ways, confidence)
        if sequence is None:
            if not asked or out is None:
                raise OptionError(
                    "there is nothing to assess",
                    mend="give a table, SEQUENCE; or ask the generator: --prompt or --prompts, and --out",
                )
            if group_column or condition_column or sequence_column or image_column:
                raise OptionError("columns are those of a table, and none is given")
            with report.progress(quiet=quiet or json == "-") as progress:
                result = _live(config, asked, requests or len(asked), out, terms, trust, progress)
            folder, html = out, html or out / "assessment.html"
        else:
            _only_with("prompts, not with SEQUENCE", {"--prompt": asked, "--out": out, "--requests": requests})
            result = _configured(config, sequence, group_column or (), condition_column or (), sequence_column,
                                 image_column, terms, trust)  # fmt: skip
            folder = sequence.absolute().parent
    written = []
    if html is not None:
        report.write_page(render_assessment(result, folder=folder), html)
        written.append(html)
    emit_result(result, json)
    if not quiet and json != "-":
        show_assessment(result, written=written)
    if result.interrupted:
        raise typer.Exit(130)


def _plainly(
    sequence: Path,
    group_column: Sequence[str],
    condition_column: Sequence[str],
    repeated: Sequence[str],
    values: Sequence[str],
    sequence_column: str | None,
    ways: int | None,
    image_column: str | None,
    confidence: float,
) -> GenaiAssessment:
    """Judge a table by the options alone."""
    from evenhand.genai.assess import assess as run
    from evenhand.genai.sequence import read_sequences

    groups = list(dict.fromkeys(group_column))
    if not groups:
        raise OptionError("which labels are looked at?", mend="name at least one column: --group-column NAME")
    conditions = dict(_pair(given, "--condition-column") for given in condition_column)
    column, _, only = (sequence_column or "").partition("=")
    found = read_sequences(
        sequence,
        groups,
        conditions=conditions,
        values={group: _words(given) for group, given in (_pair(one, "--values") for one in values)},
        sequence_column=column or None,
        sequence=only or None,
        image_column=image_column,
    )
    return run(
        found,
        repeated=_betas(repeated, groups),
        ways=ways,
        confidence=confidence,
        conditions=conditions,
        source=sequence.name,
    )


@dataclass(frozen=True)
class Asking:
    """What is asked besides the specifications."""

    how: How | None
    bar: float
    error: float
    most: int
    ways: int | None
    confidence: float

    def terms(self) -> Terms:
        """The terms of estimates."""
        from evenhand.genai.inherent import Terms

        return Terms(self.bar, self.error, self.most)


def _configured(
    config: Path,
    sequence: Path,
    group_column: Sequence[str],
    condition_column: Sequence[str],
    sequence_column: str | None,
    image_column: str | None,
    asking: Asking,
    trust: bool,
) -> GenaiAssessment:
    """Judge a table by a configuration."""
    from evenhand.genai.inherent import answers, estimate, judge_prompts, judged
    from evenhand.genai.specification import Configuration
    from evenhand.genai.specified import Columns, assess_specified, fixed_in, read_specified
    from evenhand.genai.workbench import judge_of

    configuration = Configuration.read(config)
    terms = asking.terms()
    names = {one.name for one in configuration.conditions}
    only = dict(_pair(given, "--condition-column") for given in condition_column if "=" in given)
    holding = [given for given in condition_column if "=" not in given]
    holding += [column for column, value in only.items() if value in names]
    column, _, name = (sequence_column or "").partition("=")
    found = read_specified(
        sequence,
        configuration,
        Columns(
            conditions=next(iter(holding), None),
            groups=dict(_pair(given, "--group-column") for given in group_column),
            only=only,
            sequence=column or None,
            name=name or None,
            image=image_column,
        ),
    )
    bias = None
    if asking.how is not None:
        answered = answers(one.recorded for one in found)
        if not answered:
            raise OptionError(
                "the table does not say which prompts were asked", where="--inherent", mend="it needs a column prompt"
            )
        if asking.how == "estimated":
            bias = estimate(answered, configuration.values, terms=terms)
        else:
            fixed = fixed_in(sequence)
            if fixed is None:
                fixed = judge_prompts(judge_of(configuration, trust=trust, folder=config.absolute().parent), answered)
            bias = judged(answered, configuration.values, fixed, terms=terms)
    return assess_specified(
        found, configuration, prompts=bias, ways=asking.ways, confidence=asking.confidence, source=sequence.name
    )


def _live(
    config: Path,
    prompts: Sequence[str],
    requests: int,
    out: Path,
    asking: Asking,
    trust: bool,
    progress: Callable[[str, float], None],
) -> GenaiAssessment:
    """Ask the configured generator, and judge what it answers."""
    from evenhand.genai.live import assess_live
    from evenhand.genai.specification import Configuration
    from evenhand.genai.workbench import build

    configuration = Configuration.read(config)
    return assess_live(
        build(configuration, trust=trust, folder=config.absolute().parent),
        prompts,
        requests=requests,
        folder=out,
        inherent=asking.how,
        terms=asking.terms(),
        ways=asking.ways,
        confidence=asking.confidence,
        progress=progress,
    )


def _lines(path: Path | None) -> list[str]:
    """The prompts in a file: its lines, without empty ones."""
    if path is None:
        return []
    try:
        found = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} cannot be read: {error}", where="--prompts") from None
    if not found:
        raise OptionError(f"there is no prompt in {path}", where="--prompts", mend="write one on every line")
    return found


def _how(given: str | None) -> How | None:
    if given == "judged":
        return "judged"
    if given == "estimated":
        return "estimated"
    if given is not None:
        raise OptionError(f"{given!r} is no way to know a prompt", where="--inherent", mend="judged, or estimated")
    return None


def _only_with(what: str, given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value:
            raise OptionError(f"{option} goes with {what}", where=option)


def _pair(given: str, option: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not (equals and name and value):
        raise OptionError(f"{given!r} does not say which value of which column", where=option, mend="NAME=VALUE")
    return name, value


def _words(given: str) -> list[str]:
    return [word for word in (part.strip() for part in given.split(",")) if word]


def _betas(given: Sequence[str], groups: Sequence[str]) -> dict[str | tuple[str, ...], int | list[int]]:
    """What is asked of each group, or of several together; a number without a name is asked of every group."""
    found: dict[str | tuple[str, ...], int | list[int]] = {}
    for one in given:
        name, _, numbers = one.rpartition("=")
        try:
            betas = [int(number) for number in numbers.split(",")]
        except ValueError:
            raise OptionError(
                f"{numbers!r} is no number of items", where="--repeated", mend="6, or one number per value: 5,6,6,9"
            ) from None
        beta: int | list[int] = betas[0] if len(betas) == 1 else betas
        if not name:
            found |= dict.fromkeys(groups, beta)
        else:
            found[name if name in groups else tuple(part.strip() for part in name.split("+"))] = beta
    return found
