"""Forecast the maximum calls, tokens and cost of a language-model audit."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Literal

from evenhand.core.document import Document, Facts, Text
from evenhand.core.text import format_count, format_significant
from evenhand.llm.asking import afford_calls
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.design import Design, Interviewer
from evenhand.llm.interview import open_interview
from evenhand.llm.result import LanguageModelResult

if TYPE_CHECKING:
    import pandas as pd


class LanguageModelForecast(LanguageModelResult):
    """Forecast of a language-model audit, made without any call.

    Attributes:
        groups: Number of names of each group.
        calls: Maximum number of calls: the sum of the next three numbers, or the configured limit.
        sweep_calls: Calls of all planned sweeps.
        noise_calls: Calls to repeat the first sweep.
        finding_calls: Calls to confirm findings.
        tokens_in, tokens_out: Estimated input tokens and maximum output tokens of all calls. None if the file sets no
            limit.
        money: Cost of these tokens. None if the file gives no prices.
        limit: Maximum cost, which is never exceeded. None without a limit.
    """

    kind: Literal["llm-forecast"] = "llm-forecast"
    groups: dict[str, int]
    calls: int
    sweep_calls: int
    noise_calls: int
    finding_calls: int
    tokens_in: int
    tokens_out: int | None = None
    money: float | None = None
    limit: float | None = None

    @property
    def sentence(self) -> str:
        """Summary in one sentence, without a full stop."""
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
        """Build the report: calls, tokens and cost."""
        groups = ", ".join(f"{group} ({format_count(count, 'name', 'names')})" for group, count in self.groups.items())
        parts = [f"{self.sweep_calls:,} in sweeps", f"{self.noise_calls:,} to measure noise"]
        parts += [f"{self.finding_calls:,} to confirm findings"] if self.finding_calls else []
        return Document(
            f"Forecast for {self.model} on {self.data}",
            "No question was sent.",
            (
                Text(items=(f"{self.sentence[0].upper()}{self.sentence[1:]}.",), role="finding"),
                Facts(
                    (
                        ("templates", f"{self.templates:,} of {format_count(self.rows, 'row', 'rows')}"),
                        ("groups", groups),
                        ("calls", f"{self.calls:,} at most: {', '.join(parts)}"),
                    )
                ),
            ),
            brand="Evenhand forecast",
            made=self.provenance,
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row."""
        import pandas as pd

        names = ("calls", "sweep_calls", "noise_calls", "finding_calls", "tokens_in", "tokens_out", "money", "limit")
        return pd.DataFrame([{name: getattr(self, name) for name in names}])


def forecast_language_model(
    model: Any,
    people: Any,
    config: LanguageModelConfig | None = None,
    *,
    data_name: str = "data",
    **settings: Any,
) -> LanguageModelForecast:
    """Forecast the maximum number of questions and the cost of ``audit_language_model``, without any call.

    Args:
        model, people: As for ``audit_language_model``.
        config: Settings of the audit.
        data_name: Name of the data.
        settings: Fields of ``LanguageModelConfig`` by name, which override those of ``config``.

    Raises:
        EvenhandError: The file or the data are invalid, or the limits are too low for two sweeps.
    """
    started = time.perf_counter()
    config = LanguageModelConfig.of(config, settings)
    interview = open_interview(model, people, config)
    file = interview.model.file
    config = interview.config
    with interview.model as chat:
        planned = afford_calls(interview, config, twice=file.outcome != "score")
        trials = Design(interview.templates, interview.names, config.seed or 0).sweep(0)
        sweep = chat.forecast(interview.questions(Interviewer(interview).questions(trials)))
    votes = file.consensus
    calls = votes * planned.most
    size = calls / max(sweep.calls, 1)
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
        tokens_in=math.ceil(size * sweep.tokens_in),
        tokens_out=None if sweep.tokens_out is None else math.ceil(size * sweep.tokens_out),
        money=None if sweep.money is None else size * sweep.money,
        limit=config.money,
        seed=config.seed or 0,
        seconds=time.perf_counter() - started,
    )
