"""Findings in words: who they are, how often they get what, and how far that is from those they are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import charts

if TYPE_CHECKING:
    from evenhand.subgroup.measures import Measure
    from evenhand.subgroup.result import Finding, SubgroupResult

OTHERS = {
    "rest": "everyone else",
    "best": "the best treated other group",
    "texts": "the texts it is compared with",
}
"""With whom a subgroup is compared."""

RATES: dict[Measure, str] = {
    "favourable": "rate of the favourable decision",
    "false-negative": "rate of wrong refusals",
    "false-positive": "rate of wrong favourable decisions",
    "score": "mean score",
}
"""What a measure's rate is called."""

CONTROLS = {
    "max-t": "at most {error} chance of even one false finding (permutations, max-t)",
    "BY": "at most {error} of the findings false on average (Benjamini-Yekutieli)",
    "none": "without any account of how many subgroups were looked at",
}
"""What a control promises."""


def sentence(result: SubgroupResult, finding: Finding, label: str | None = None) -> str:
    """A finding as a sentence: ``Of 1,203 people with sex Female, 20.7 % get >50K; of everyone else 83.1 %.``

    Args:
        result: what it was found in.
        finding: which one.
        label: the favourable label.
    """
    if about_texts(result):
        return result.sentence(finding)
    sampled = "" if finding.samples is None else f"{finding.samples:,} samples of "
    alike = f"With {result.per} alike, o" if result.per else "O"
    who = f"{sampled or f'{finding.size:,} '}people {'with' if finding.rules else 'for whom'} {finding.words}"
    others = finding.versus.words() if finding.versus else OTHERS["rest"]
    if result.measure == "score":
        the = f"With {result.per} alike, the" if result.per else "The"
        return f"{the} mean score of {who} is {finding.rate:.3f}; of {others} {finding.rest_rate:.3f}."
    own, theirs = charts.percent(finding.rate), charts.percent(finding.rest_rate)
    if result.measure == "favourable":
        return f"{alike}f {who}, {own} get {label or 'the favourable label'}; of {others} {theirs}."
    truly = "truly" if result.measure == "false-negative" else "not truly"
    what = "are refused it" if result.measure == "false-negative" else "get it all the same"
    return f"{alike}f {who} who are {truly} {label or 'favourable'}, {own} {what}; of {others} {theirs}."


def about_texts(result: SubgroupResult) -> bool:
    """Whether subgroups are of texts, not of people."""
    from evenhand.subgroup.text import TextSubgroups

    return isinstance(result, TextSubgroups)


def nouns(result: SubgroupResult) -> str:
    """What subgroups are made of."""
    return "texts" if about_texts(result) else "people"


def kind(result: SubgroupResult) -> str:
    """What kind of number rates and gaps are: counted on the people in the data, or on samples."""
    return "observed" if all(finding.samples is None for finding in result.findings) else "estimated"


def others(result: SubgroupResult) -> str:
    """With whom a subgroup is compared."""
    them = OTHERS["texts" if about_texts(result) else result.against]
    return f"{them} with {result.per} alike" if result.per else them


def counted(result: SubgroupResult) -> bool:
    """Whether rates are shares of people, so that gaps are points; else they are mean scores."""
    return result.measure != "score"


def worse(result: SubgroupResult, finding: Finding) -> bool:
    """Whether the subgroup fares worse than those it is compared with."""
    return finding.gap > 0 if result.measure == "false-negative" else finding.gap < 0


def unclear(result: SubgroupResult, finding: Finding) -> str:
    """Why a finding does not stand out; nothing if it does."""
    if finding.found:
        return ""
    if finding.low > 0 or finding.high < 0:
        reach = max(abs(finding.low), abs(finding.high))
        return "certainly within the margin" if reach < result.margin else "not clear enough"
    return "not told from chance"


def directions(result: SubgroupResult) -> tuple[str, str]:
    """What ``worse`` and its contrary are called; of texts nobody can tell which label is the better one."""
    if not about_texts(result):
        return "worse off", "better off"
    return ("above", "below") if result.measure == "false-negative" else ("below", "above")


def points(result: SubgroupResult, gap: float) -> str:
    """A gap with its sign, in percentage points, or in decimals for mean scores: ``-22.1``."""
    value, digits = (100 * gap, 1) if counted(result) else (gap, 3)
    written = f"{value:+.{digits}f}"
    if float(written):
        return written
    # What is not 0 does not look like it, where an interval ends close to it.
    return f"{value:+.{digits + 2}f}" if round(value, digits + 2) else written[1:]


def unit(result: SubgroupResult) -> str:
    """What gaps are measured in."""
    return "points" if counted(result) else "units of the score"


def rate(result: SubgroupResult, value: float) -> str:
    """A rate in percent, or a mean score in decimals."""
    return charts.percent(value) if counted(result) else f"{value:.3f}"


def added(result: SubgroupResult, finding: Finding) -> str:
    """What a finding says beyond the simpler one it stands under: ``and age 60 or more``."""
    if finding.under is None:
        return finding.words
    simpler = result.findings[finding.under]
    if (finding.size, finding.rest) == (simpler.rest, simpler.size):
        return f"the others: {finding.words}"
    more = {name: rule for name, rule in finding.rules.items() if simpler.rules.get(name) != rule}
    return f"and {result.words(more)}" if more else finding.words


def in_people(result: SubgroupResult, finding: Finding) -> str:
    """The gap counted in people: how many more, or fewer, would have the outcome at the others' rate."""
    if not counted(result):
        return ""
    n = round(finding.size * (finding.rate - finding.rest_rate))
    return f"{abs(n):,} {'fewer' if n < 0 else 'more'}"


def looked_at(result: SubgroupResult) -> str:
    """How many were looked at, and what the control promises about all of them together."""
    if result.method != "exact":
        return f"of {result.rule_sets:,} there are, by the published method {result.method}"
    promise = CONTROLS[result.control].format(error=f"{100 * (1 - result.confidence):.6g} %")
    floor = f"{100 * result.support:.6g} % of them or " if result.support else ""
    return (
        f"different subgroups, out of {result.rule_sets:,} rule sets (the others describe the same {nouns(result)} "
        f"again, or have fewer than {floor}{result.least_people:,} inside or outside); {promise}"
    )


def stand_out(result: SubgroupResult) -> str:
    """How many stand out, to be read after the number."""
    if result.method != "exact":
        return "of them stand out by that method's own rule; the notes say what it does not account for"
    own = sum(finding.under is None and finding.found for finding in result.findings)
    said = "of them stand out from chance" if result.found != 1 else "of them stands out from chance"
    return f"{said}; {own:,} of those listed are not explained by a simpler one" if result.found else said


def standing_out(result: SubgroupResult) -> str:
    """What it takes to be called found."""
    if result.method != "exact":
        return "by the rule of the published method; the notes say what it does not account for"
    margin = f"{100 * result.margin:g} points" if counted(result) else f"{result.margin:g}"
    said = f"a gap stands out if its {'' if result.control == 'none' else 'adjusted '}interval excludes 0"
    return f"{said}, and does not rule out a gap of {margin}" if result.margin else said
