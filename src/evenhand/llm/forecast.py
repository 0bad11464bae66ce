"""What an audit of a language model will ask at most: calls, tokens and money, before anything is paid."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Literal

from evenhand.core.document import Column, Document, Facts, Table, TableRow, Text
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_significant
from evenhand.llm.asking import afford_calls
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.design import Design, Interviewer
from evenhand.llm.interview import open_interview
from evenhand.llm.stopping import LOOKS
from evenhand.stats.level import bonferroni, normal_quantile

if TYPE_CHECKING:
    import pandas as pd


class ForecastSweep(ResultPart):
    """What is known after a sweep at the latest.

    Attributes:
        sweep: its number.
        calls: asked by then, repeated questions included.
        half_width: of a gap's interval by the noise of answers alone, if each is as uncertain as the toss of a coin.
    """

    sweep: int
    calls: int
    half_width: float


class LanguageModelForecast(Result):
    """What an audit asks at most. Nothing was asked for it.

    Attributes:
        file, model, service, data: what will be asked, where, about which rows.
        templates, rows: rows asked about, and rows there are.
        groups: group -> how many names it has.
        calls: in all, at most: the sum of the next three, or the limit that was set.
        sweep_calls: in all planned sweeps.
        noise_calls: to ask the first sweep again.
        finding_calls: to confirm findings.
        tokens_in, tokens_out: Tokens of all calls: an estimate of those read, and the maximum of those written. None if
            the file sets no limit.
        money: Cost of these tokens. None if the file gives no prices.
        limit: of money, which is never passed; None without one.
        sweeps: what is known after some of the sweeps.
    """

    kind: Literal["llm-forecast"] = "llm-forecast"
    file: str = ""
    model: str = ""
    service: str = ""
    data: str = ""
    templates: int
    rows: int
    groups: dict[str, int]
    calls: int
    sweep_calls: int
    noise_calls: int
    finding_calls: int
    tokens_in: int
    tokens_out: int | None = None
    money: float | None = None
    limit: float | None = None
    sweeps: tuple[ForecastSweep, ...] = ()

    @property
    def sentence(self) -> str:
        """What will be asked, in one sentence without its full stop."""
        out = "an unknown number" if self.tokens_out is None else f"at most {self.tokens_out:,}"
        price = (
            "at a price that the file does not state"
            if self.money is None
            else f"for about {format_significant(self.money)}"
        )
        limit = "" if self.limit is None else f", and never more than {format_significant(self.limit)}"
        return (
            f"this asks {self.model} at {self.service} up to {self.calls:,} times: about {self.tokens_in:,} tokens in "
            f"and {out} out, {price}{limit}"
        )

    def document(self) -> Document:
        """Return what will be asked, and how narrow intervals can become."""
        groups = ", ".join(f"{group} ({format_count(many, 'name', 'names')})" for group, many in self.groups.items())
        parts = [f"{self.sweep_calls:,} in sweeps", f"{self.noise_calls:,} to measure noise"]
        parts += [f"{self.finding_calls:,} to confirm findings"] if self.finding_calls else []
        columns = tuple(Column(name, numeric=True) for name in ("sweep", "calls so far", "half-width by noise"))
        rows = tuple(
            TableRow((one.sweep, f"{one.calls:,}", f"{100 * one.half_width:.1f} points")) for one in self.sweeps
        )
        return Document(
            f"Forecast for {self.model} on {self.data}",
            "Nothing was asked.",
            (
                Text(items=(f"{self.sentence[0].upper()}{self.sentence[1:]}.",), role="finding"),
                Facts(
                    (
                        ("templates", f"{self.templates:,} of {format_count(self.rows, 'row', 'rows')}"),
                        ("groups", groups),
                        ("calls", f"{self.calls:,} at most: {', '.join(parts)}"),
                    )
                ),
                Table(
                    "How wide a gap's interval stays by the noise of answers alone, if each answer is as uncertain as "
                    "the toss of a coin; templates and names widen it, surer answers narrow it",
                    columns,
                    rows,
                ),
            ),
            brand="Evenhand forecast",
            made=self.provenance,
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per sweep: its number, calls so far, half-width by noise."""
        import pandas as pd

        return pd.DataFrame([one.model_dump() for one in self.sweeps])


def forecast_language_model(
    model: Any,
    people: Any,
    config: LanguageModelConfig | None = None,
    *,
    data_name: str = "data",
    **settings: Any,
) -> LanguageModelForecast:
    """Forecast what ``audit_language_model`` asks at most, by the plan. Nothing is asked.

    Args:
        model, people: as for ``audit_language_model``.
        config: the settings of the audit.
        data_name: what the rows are called.
        settings: fields of ``LanguageModelConfig`` by name, in place of those in ``config``.

    Raises:
        EvenhandError: the file or the rows cannot be used, or the limits do not suffice for two sweeps.
    """
    started = time.perf_counter()
    config = LanguageModelConfig.of(config, settings)
    interview = open_interview(model, people, config)
    file = interview.model.file
    config = interview.config
    with interview.model as asked:
        twice = file.outcome != "score"
        planned = afford_calls(interview, config, twice=twice)
        trials = Design(interview.templates, interview.names, config.seed or 0).sweep(0)
        first = asked.forecast(interview.questions(Interviewer(interview).questions(trials)))
    votes = file.consensus
    calls = votes * planned.most
    size = calls / max(first.calls, 1)
    level = bonferroni(config.confidence, len(interview.comparisons))
    return LanguageModelForecast(
        file=file.name,
        model=file.service.model,
        service=file.service.url,
        data=data_name,
        templates=interview.templates,
        rows=interview.total,
        groups={group: len(members) for group, members in zip(interview.groups, interview.people, strict=True)},
        calls=calls,
        sweep_calls=votes * planned.sweeps * planned.sweep,
        noise_calls=votes * planned.again,
        finding_calls=votes * planned.fresh,
        tokens_in=math.ceil(size * first.tokens_in),
        tokens_out=None if first.tokens_out is None else math.ceil(size * first.tokens_out),
        money=None if first.money is None else size * first.money,
        limit=config.money,
        sweeps=tuple(
            ForecastSweep(
                sweep=number,
                calls=votes * (number * planned.sweep + planned.again),
                half_width=normal_quantile(level) * math.sqrt(0.5 / (number * interview.templates)),
            )
            for number in sorted({*(one for one in LOOKS if 1 < one < planned.sweeps), planned.sweeps})
        ),
        seed=config.seed or 0,
        seconds=time.perf_counter() - started,
    )
