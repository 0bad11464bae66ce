"""Check whether the deadlines of a configuration are feasible, and how reliable they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evenhand.core.document import Block, Document, Facts, Heading, NextStep, Text
from evenhand.genai.classifiers.confusion import SpecificationSuccess, specification_success
from evenhand.genai.games.feasibility import Feasibility, SpecificationFeasibility, check_feasibility
from evenhand.genai.games.game import FeasibilityVerdict
from evenhand.genai.games.retries import AttemptSuccess, RetrySettings, rate_retries
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.stats.quantity import Unknown

TITLES: dict[FeasibilityVerdict, str] = {
    "feasible": "{} can be kept",
    "infeasible": "{} cannot be kept",
    "undecided": "Whether {} can be kept is not known",
}
"""Title by verdict, with a placeholder for the name of the configuration."""

METHODS = {
    "hall": "there is always an item for each value that is due",
    "exact": "the game of {:,} positions was solved",
}
"""Description of each method."""


class ConfigurationCheck(Feasibility):
    """Feasibility of a configuration for an obedient generator, the effect of wrong labels, and sufficient retries.

    Attributes:
        labels: Effect of wrong labels on each specification.
        success: Success rate of instructions.
        settings: Reliability of the configured retries and slack: for everything, or, with counted success rates, for
            each component. Empty if the configuration is not known to be feasible.
        smallest: Sufficient retries for each of them, or the reason why there are none.
    """

    labels: tuple[SpecificationSuccess, ...]
    success: AttemptSuccess
    settings: tuple[RetrySettings, ...]
    smallest: tuple[RetrySettings | Unknown, ...]

    def document(self, name: str = "the configuration") -> Document:
        """Describe the feasibility, the effect of wrong labels, and the reliability of retries and slack."""
        blocks: list[Block] = [
            Text(f"{self.reason[:1].upper()}{self.reason[1:]}", role="finding"),
            Facts(tuple((entry.name, _describe_specification(entry)) for entry in self.specifications)),
        ]
        if self.hint is not None:
            blocks.append(NextStep(self.hint))
        if self.labels:
            blocks.append(Heading("Labels"))
        for label in self.labels:
            text = f"{label.specification}: {label.statement()}"
            blocks.append(Text(text, tuple(value.statement() for value in label.values)))
        if self.settings:
            blocks += [Heading("Instructions"), Text(self.success.statement())]
            # Without a success rate, retries that suffice for an obedient generator are misleading.
            if self.success.source != "nothing":
                blocks.append(Facts(tuple(self._describe_retries())))
        return Document(TITLES[self.verdict].format(name), blocks=tuple(blocks), brand="Evenhand, generative AI")

    def _describe_retries(self) -> Iterator[tuple[str, str]]:
        for now, enough in zip(self.settings, self.smallest, strict=True):
            yield "configured", now.statement()
            about = f"{' and '.join(now.about)}: " if now.about else ""
            yield "enough", f"{about}none; {enough.reason}" if isinstance(enough, Unknown) else enough.statement()


def _describe_specification(specification: SpecificationFeasibility) -> str:
    if specification.repeated is None:
        return "every value must appear; there are no deadlines"
    deadlines = zip(specification.values, specification.repeated, strict=True)
    text = ", ".join(f"{value} within {deadline}" for value, deadline in deadlines)
    if specification.verdict == "undecided":
        return f"UNDECIDED: {text}"
    how = "" if specification.method is None else f"; {METHODS[specification.method].format(specification.states)}"
    return f"{'' if specification.feasible else 'AT FAULT: '}{text}{how}"


def check_configuration(
    configuration: GenerationConfig, counts: Mapping[str, Mapping[str, int]] | None = None
) -> ConfigurationCheck:
    """Check a configuration.

    Args:
        configuration: The configuration.
        counts: Counts of instructions by specification, as in ``Enforcer.counts``. If None, the simulation is used.

    Raises:
        DataError: A sample is unreadable.
        OptionError: A count is out of range.
    """
    feasibility = check_feasibility(configuration)
    success = (
        AttemptSuccess.from_simulation(configuration)
        if counts is None
        else AttemptSuccess.from_counts(configuration, counts)
    )
    in_flight = configuration.simulation.in_flight
    rated = rate_retries(configuration, success, in_flight=in_flight) if feasibility.feasible else []
    return ConfigurationCheck(
        **dict(feasibility),
        labels=specification_success(configuration),
        success=success,
        settings=tuple(now for now, _ in rated),
        smallest=tuple(enough for _, enough in rated),
    )
