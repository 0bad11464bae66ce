"""What a search for subgroups of texts found: gaps between real texts, and what swapping words alone changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from evenhand.stats import Quantity
from evenhand.subgroup.result import Finding, SubgroupResult
from evenhand.subgroup.text.config import Compared
from evenhand.texts import TextFinding

if TYPE_CHECKING:
    import pandas as pd


class Effect(Finding):
    """What it does to the same texts to speak of this group in place of the others: the model's own doing.

    The fields are those of a finding: ``size`` counts texts, each asked about with this group's words (``rate``) and
    with the words of every other group in their place (``rest`` answers, whose average text by text is ``rest_rate``);
    ``gap`` is the mean difference within a text. Counts are not given, since not every group has words for every place.

    Attributes:
        clusters: how many different texts these are once the words are cut out; the interval counts them as one each.
    """

    clusters: int


class Flips(BaseModel):
    """How often the label changes with the words of one category.

    Attributes:
        category: whose words were swapped.
        texts: texts whose words were swapped.
        flips: how many of them are decided differently after some swap.
        rate: their share.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    category: str
    texts: int
    flips: int
    rate: Quantity


class TextSubgroups(SubgroupResult):
    """The subgroups of texts that a model treats differently.

    ``people`` counts texts, and ``attributes`` are categories with their groups or terms.

    Attributes:
        classes, favourable: the labels, and the one whose rate or score is compared.
        compared: with which texts the findings compare: ``others`` of the same categories, or ``all`` others.
        queries: texts that the model was asked about.
        effects: what swapping does, by group, ranked as ``findings`` are.
        effects_critical: how many standard errors the adjusted intervals of the effects reach.
        flips: how often swapping changes a label, by category.
        examples: texts whose label some swap changes, widest gap between scores first.
    """

    classes: tuple[str, ...]
    favourable: str
    compared: Compared
    queries: int
    effects: tuple[Effect, ...] = ()
    effects_critical: float | None = None
    flips: tuple[Flips, ...] = ()
    examples: tuple[TextFinding, ...] = ()

    def sentence(self, finding: Finding) -> str:
        """A finding or an effect as a sentence."""
        what = {
            "favourable": f"get {self.favourable}",
            "false-negative": f"are wrongly refused {self.favourable}",
            "false-positive": f"wrongly get {self.favourable}",
            "score": "",
        }[self.measure]
        if isinstance(finding, Effect):
            who, rest = f"{finding.size:,} texts made to speak of {finding.words}", "of the same texts about others"
        elif finding.samples is not None:
            who, rest = f"{finding.samples:,} samples made to speak of {finding.words}", "of samples about others"
        elif self.compared == "others":
            who, rest = f"{finding.size:,} texts that speak of {finding.words}", f"of {finding.rest:,} about others"
        else:
            who, rest = f"{finding.size:,} texts that speak of {finding.words}", f"of the {finding.rest:,} other texts"
        if self.measure == "score":
            return f"The mean score of {who} is {finding.rate:.3f}; {rest} {finding.rest_rate:.3f}."
        return f"Of {who}, {100 * finding.rate:.1f} % {what}; {rest} {100 * finding.rest_rate:.1f} %."

    def summary(self) -> str:
        """How much was looked at, the clearest gaps between texts, and the clearest effects of swapping."""
        how = f"({self.control}, {100 * self.confidence:g} %)"
        lines = [
            f"{self.tested:,} of {self.rule_sets:,} rule sets over {', '.join(one.name for one in self.attributes)} "
            f"looked at in {self.people:,} texts; {self.found:,} stand out {how}"
        ]
        lines += self._lines([one for one in self.findings if one.found and one.under is None])
        if self.effects:
            clear = [one for one in self.effects if one.found and one.under is None]
            lines.append(
                f"words swapped in the same texts: {len(clear):,} of {len(self.effects):,} groups make a difference "
                "of their own"
            )
            lines += self._lines(clear)
        lines += [
            f"{one.category}: the label of {one.flips:,} of {one.texts:,} texts changes with the words"
            for one in self.flips
        ]
        return "\n".join(lines)

    def _lines(self, findings: list[Finding] | list[Effect]) -> list[str]:
        return [f"{one.gap:+.3f} [{one.low:+.3f}, {one.high:+.3f}]  {self.sentence(one)}" for one in findings[:10]]

    def to_frame(self) -> pd.DataFrame:
        """One row per finding and effect: ``analysis`` (observed or swapped), then the columns of the findings."""
        import pandas as pd

        observed = super().to_frame()
        swapped = pd.DataFrame([{name: getattr(one, str(name)) for name in observed} for one in self.effects])
        parts = [observed.assign(analysis="observed"), swapped.assign(analysis="swapped")]
        both = pd.concat([part for part in parts if len(part)]) if any(map(len, parts)) else parts[0]
        return both[["analysis", *observed.columns]].reset_index(drop=True)
