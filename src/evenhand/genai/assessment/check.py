"""What a configuration promises before anything is made: whether it can be kept, and what that is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.core.document import Block, Document, Facts, Heading, NextStep, Text
from evenhand.genai.classifiers.confusion import SpecificationSuccess, specification_success
from evenhand.genai.games.feasibility import (
    Feasibility,
    FeasibilityVerdict,
    SpecificationFeasibility,
    check_feasibility,
)
from evenhand.genai.games.retries import (
    AttemptSuccess,
    RetrySettings,
    bound_misses,
    choose_retries,
    split_specifications,
)
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.stats.quantity import Unknown


@dataclass(frozen=True)
class ConfigurationCheck:
    """What a configuration promises.

    Attributes:
        feasibility: whether an obedient generator can keep it for ever.
        labels: what deadlines are worth under the samples of labels, by specification.
        success: how often instructions work.
        settings: what the configured retries and slack are worth: for everything, or, where successes were counted, for
            groups that are kept apart one by one; empty if it is not known that the configuration can be kept.
        smallest: likewise retries and slack that are enough, or why there are none.
    """

    feasibility: Feasibility
    labels: tuple[SpecificationSuccess, ...]
    success: AttemptSuccess
    settings: tuple[RetrySettings, ...] = ()
    smallest: tuple[RetrySettings | Unknown, ...] = ()

    def document(self, name: str = "the configuration") -> Document:
        """Return whether the configuration can be kept, what labels make of it, and what retries and slack are worth.

        Args:
            name: of the configuration.
        """
        found = self.feasibility
        blocks: list[Block] = [
            Text(f"{found.reason[:1].upper()}{found.reason[1:]}", role="finding"),
            Facts(tuple((one.name, _describe_specification(one)) for one in found.specifications)),
        ]
        if found.hint is not None:
            blocks.append(NextStep(found.hint))
        if self.labels:
            blocks.append(Heading("Labels"))
        blocks += [
            Text(f"{one.specification}: {one.statement()}", tuple(value.statement() for value in one.values))
            for one in self.labels
        ]
        if self.settings:
            blocks += [Heading("Instructions"), Text(self.success.statement())]
            # Where nothing is known of the generator, retries that would be enough for an obedient one mislead.
            blocks += [] if self.success.source == "nothing" else [Facts(tuple(self._settings()))]
        return Document(
            TITLES[found.verdict].format(name),
            blocks=tuple(blocks),
            brand="Evenhand, generative AI",
        )

    def _settings(self) -> Iterator[tuple[str, str]]:
        for now, enough in zip(self.settings, self.smallest, strict=True):
            yield "configured", now.statement()
            about = f"{' and '.join(now.about)}: " if now.about else ""
            yield "enough", f"{about}none; {enough.reason}" if isinstance(enough, Unknown) else enough.statement()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values: what ``Feasibility.to_dict`` says, and more."""
        return {
            **self.feasibility.to_dict(),
            "labels": [one.model_dump(mode="json") for one in self.labels],
            "success": self.success.model_dump(mode="json"),
            "settings": [one.plain() for one in self.settings],
            "smallest": [
                one.plain() if isinstance(one, RetrySettings) else one.model_dump(mode="json") for one in self.smallest
            ],
        }


TITLES: dict[FeasibilityVerdict, str] = {
    "feasible": "{} can be kept",
    "infeasible": "{} cannot be kept",
    "undecided": "Whether {} can be kept is not known",
}
"""What is said of a configuration, by its name."""

METHODS = {
    "hall": "no more are ever due than there are items",
    "exact": "the game of {:,} positions was solved",
}
"""How it is known whether deadlines can be kept."""


def _describe_specification(one: SpecificationFeasibility) -> str:
    if one.repeated is None:
        return "every value must appear; there are no deadlines"
    within = ", ".join(f"{value} within {by}" for value, by in zip(one.values, one.repeated, strict=True))
    how = f"; {METHODS[one.method].format(one.states)}" if one.method is not None else ""
    sign = {"feasible": "", "infeasible": "AT FAULT: ", "undecided": "UNDECIDED: "}[one.verdict]
    return f"{sign}{within}{how if one.verdict != 'undecided' else ''}"


def check_configuration(
    configuration: GenerationConfig, counts: Mapping[str, Mapping[str, int]] | None = None
) -> ConfigurationCheck:
    """Check a configuration.

    Args:
        configuration: what is to be kept.
        counts: of instructions, by specification, as in ``Enforcer.counts``; as the simulation says unless given.

    Raises:
        DataError: a sample cannot be read.
        OptionError: counts that cannot be.
    """
    found = check_feasibility(configuration)
    success = (
        AttemptSuccess.from_simulation(configuration)
        if counts is None
        else AttemptSuccess.from_counts(configuration, counts)
    )
    labels = specification_success(configuration)
    if not found.feasible:
        return ConfigurationCheck(found, labels, success)
    in_flight = configuration.simulation.in_flight
    apart = split_specifications(configuration, success)
    return ConfigurationCheck(
        found,
        labels,
        success,
        tuple(bound_misses(configuration, success, in_flight=in_flight, about=about) for about in apart),
        tuple(choose_retries(configuration, success, in_flight=in_flight, about=about) for about in apart),
    )
