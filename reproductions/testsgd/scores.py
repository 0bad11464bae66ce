"""Tables 4, 7 and 8: rule sets and their scores, before and after retraining, and by other methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evenhand.stats import difference_interval, student_interval
from evenhand.text import format_count
from reproductions.comparison import ComparedFigure, ComparedTable, OwnFigure, Values, judge, summarize_verdicts
from reproductions.mitigation.record import MitigationRun
from reproductions.mitigation.tables import RETRAINED, gap_interval
from reproductions.testsgd import published
from reproductions.testsgd.people import COMBINATIONS, TOP
from reproductions.testsgd.published import TITLES

NEAR = 5.0
"""Points that scores may lie apart and agree: the published error margin."""

NEAR_SHARE = 10.0
"""Points that the shares of a score that retraining leaves may lie apart."""

NEAR_ACCURACY = 1.0

ROUNDING = 0.3
"""Points by which a printed score may miss the difference of the rates printed beside it."""

OTHER_NETWORK = "the network is another one of the same size, trained here"


def compare_subgroups(values: Mapping[str, Values]) -> ComparedTable:
    """Return Table 4: the published rule sets on our networks, and what is first on ours."""
    figures = [*_people_figures(values), *_text_figures(values), *_significance(values), *_first_figures(values)]
    real = [one.default.value for one in figures if one.measure == SIGNIFICANT and one.default is not None]
    return ComparedTable(
        number="Table 4",
        title="Rule sets and fairness scores",
        text="The published rule sets are judged on networks of the same size trained here: by sampling as published "
        "(means over the networks) and by counting the real people or texts, with intervals adjusted for every rule "
        "set tested (of three networks the one with the middle gap). Then what the published search finds first on our "
        "network.",
        figures=tuple(figures),
        verdict=summarize_verdicts([one.verdict for one in figures]),
        because=f"{sum(real):.3g} of {TOP * len(real)} published rule sets are significant after adjustment, the mean "
        "over our networks; scores are those of other networks, and several rule sets describe almost no one, or "
        "almost everyone" if real else "",
    )  # fmt: skip


def networks_of(values: Mapping[str, Values], name: str) -> list[Values]:
    """Return what was found on each network of a data set of people, in order."""
    return [values[key] for key in sorted(values) if key.startswith(f"{name}-") and key[len(name) + 1 :].isdigit()]


SCORE = "score of the published rule sets"
SIGNIFICANT = "published rule sets that are significant after adjustment"
FIRST = "score of the first rule sets that the published search finds on our network"


def _people_figures(values: Mapping[str, Values]) -> Iterator[ComparedFigure]:
    for name, rows in published.SUBGROUPS.items():
        networks = networks_of(values, name)
        for rank, row in enumerate(rows):
            own = [one["published"][rank] for one in networks]
            label = f"{TITLES[name]} {rank + 1}: {row.words}"
            if not own:
                yield _absent(label, SCORE, row.score)
                continue
            counts = [one["sampled"] for one in own]
            sampled = mean_figure(
                [100 * abs(k / n - k2 / n2) for n, k, n2, k2 in counts if n and n2], samples=counts[0]
            )
            middle = _middle_network(own)
            counted = counted_figure(middle)
            why = describe_size(middle, "people") if counted is None else OTHER_NETWORK
            verdict = "not compared" if sampled is None else judge(row.score, sampled.value, within=NEAR)
            if abs(row.score - abs(row.inside - row.rest)) > ROUNDING:
                why += f"; the rates printed lie {abs(row.inside - row.rest):.1f} points apart"
            if name in published.OTHER_LABEL:
                why += f"; the rates printed are of {published.OTHER_LABEL[name]}"
            yield ComparedFigure(
                row=label, measure=SCORE, unit="%", published=row.score, ours=sampled, default=counted,
                verdict=verdict, because="" if verdict == "agrees" and counted is not None else why,
            )  # fmt: skip
            if sampled is None:
                continue
            flipped = name in published.OTHER_LABEL
            for measure, printed, (n_at, k_at), key in (
                ("rate inside", row.inside, (0, 1), "rate"),
                ("rate outside", row.rest, (2, 3), "rest_rate"),
            ):
                rates = [100 * (one[k_at] / one[n_at]) for one in counts]
                ours = mean_figure([100 - rate for rate in rates] if flipped else rates, samples=None)
                known = middle.get(key)
                value = None if known is None else 100 * (1 - known if flipped else known)
                assert ours is not None
                verdict = judge(printed, ours.value, within=NEAR)
                yield ComparedFigure(
                    row=label, measure=measure, unit="%", published=printed, ours=ours,
                    default=None if value is None else OwnFigure(value=value, kind="observed"),
                    verdict=verdict, because="" if verdict == "agrees" else OTHER_NETWORK,
                )  # fmt: skip


def _text_figures(values: Mapping[str, Values]) -> Iterator[ComparedFigure]:
    for name, rows in published.TEXT_SUBGROUPS.items():
        own = values[name]["published"] if name in values else []
        for rank, row in enumerate(rows):
            label = f"{TITLES[name]} {rank + 1}: {row.words}"
            if not own:
                yield _absent(label, SCORE, row.score)
                continue
            found = own[rank]
            sampled = sampled_figure(found["sampled"])
            counted = counted_figure(found)
            texts = format_count(found["sampled"]["size"] + found["sampled"]["rest"], "text", "texts")
            why = f"samples are made of {texts} with words about {' and '.join(row.terms)}"
            why += "" if counted else f"; {found['refused']}"
            verdict = "not compared" if sampled is None else judge(row.score, sampled.value, within=NEAR)
            yield ComparedFigure(
                row=label, measure=SCORE, unit="%", published=row.score, ours=sampled, default=counted,
                verdict=verdict, because=why,
            )  # fmt: skip


def _significance(values: Mapping[str, Values]) -> Iterator[ComparedFigure]:
    for name, title in TITLES.items():
        networks = networks_of(values, name) or ([values[name]] if name in values else [])
        if not networks:
            yield _absent(title, SIGNIFICANT, float(TOP), unit="")
            continue
        judged = [one for network in networks for one in network["published"]]
        count = len(networks)
        significant = sum(bool(one.get("found")) for one in judged) / count
        reasons = Counter(describe_doubt(one) for one in judged if not one.get("found"))
        said = [f"{describe_share(many, count)} {reason}" for reason, many in reasons.items()]
        yield ComparedFigure(
            row=title, measure=SIGNIFICANT, published=float(TOP), published_text=f"{TOP}, not tested",
            default=OwnFigure(
                value=significant, kind="observed", basis=f"mean of {count} networks, adjusted for every rule set"
            ),
            verdict="agrees" if significant == TOP else "differs", because="; ".join(said),
        )  # fmt: skip


def describe_share(many: int, networks: int) -> str:
    """Return how many of the rule sets, on average over the networks."""
    return f"{many / networks:.3g} of {TOP}"


def describe_doubt(found: Values) -> str:
    """Return why a rule set is not significant."""
    if "refused" in found:
        return "hold or leave too few"
    return "are certainly less than 5 points" if found["low"] * found["high"] > 0 else "may be chance"


def _middle_network(own: Sequence[Values]) -> Values:
    """Return a rule set on the network with the middle one of its gaps; the first where it was refused."""
    return sorted(own, key=lambda one: abs(one.get("gap", 0.0)))[len(own) // 2]


def _first_figures(values: Mapping[str, Values]) -> Iterator[ComparedFigure]:
    for name, title in TITLES.items():
        if name in published.SUBGROUPS:
            found = values.get(f"{name}-0")
            tops = found["sampled"]["thresholds"]["5"]["top"] if found else []
            judged = found["own"] if found else []
            scores = [row.score for row in published.SUBGROUPS[name]]
        else:
            tops = values[f"{name}-sampled"]["top"] if f"{name}-sampled" in values else []
            judged = [{}] * len(tops)
            scores = [row.score for row in published.TEXT_SUBGROUPS[name]]
        for rank, (top, own, score) in enumerate(zip(tops, judged, scores, strict=False)):
            ours = sampled_figure(top)
            counted = counted_figure(own)
            if ours is None:
                continue
            verdict = judge(score, ours.value, within=NEAR)
            unsure = describe_size(top, "people" if name in published.SUBGROUPS else "texts")
            said = ["another network, another rule set"] * (verdict != "agrees") + [unsure] * (counted is None)
            if own.get("found") is False:
                said.append(f"not significant: such gaps {describe_doubt(own)}")
            yield ComparedFigure(
                row=f"{title} {rank + 1}: {top['words']}", measure=FIRST, unit="%", published=score, ours=ours,
                default=counted, verdict=verdict, because="; ".join(filter(None, said)),
            )  # fmt: skip


# Table 7: retraining.

HALF = 50.0
"""Percent of a score that is left of it where it is halved."""

BEFORE, AFTER = "score before retraining", "score after retraining"
LEFT, LOST = "share of the score that is left", "accuracy gained"


def compare_mitigation(values: Mapping[str, Values]) -> ComparedTable:
    """Return Table 7: the score of the widest subgroup before and after retraining, and the accuracy."""
    figures: list[ComparedFigure] = []
    for name, printed in RETRAINED.items():
        before, after = printed.before, printed.after
        figures += _mended_figures(
            TITLES[name], published.PublishedMitigation(before.accuracy, before.gap, after.accuracy, after.gap),
            _mended_people(values.get(f"{name}-mended")),
        )  # fmt: skip
    for name, lines in published.TEXT_MITIGATION.items():
        figures += _mended_figures(TITLES[name], lines, _mended_texts(values.get(f"{name}-mended")))
    reached = [one for one in figures if one.measure == LEFT and one.ours is not None]
    halved = sum(one.ours is not None and one.ours.value <= HALF for one in reached)
    unused = [one.default.value for one in reached if one.default is not None]
    return ComparedTable(
        number="Table 7",
        title="Mitigation by retraining",
        text="People: retraining on the subgroup with the widest gap of our network (significant after adjustment, "
        "where one is); from 50 instances up to a tenth of the training set are added, and the validation set says how "
        "many. Scores by sampling around the people of the training set, as published, and by counting people who were "
        "never used (95 % intervals). Texts: the first published rule set. One network per data set.",
        figures=tuple(figures),
        verdict=summarize_verdicts([one.verdict for one in figures]),
        because=f"retraining halves the score by the published count in {halved} of {len(reached)} data sets, on "
        f"people not used before in {sum(value <= HALF for value in unused)} of {len(unused)}" if reached else "",
    )  # fmt: skip


class _Mended:
    """A score and an accuracy before and after, as published and on people who were not used."""

    def __init__(
        self,
        scores: tuple[float, float],
        held: tuple[OwnFigure | None, OwnFigure | None],
        accuracy: tuple[float, float],
        words: str,
    ) -> None:
        self.scores, self.held, self.accuracy, self.words = scores, held, accuracy, words


def _mended_people(found: Values | None) -> _Mended | None:
    run = None if found is None else MitigationRun.model_validate(found)
    if run is None or len(run.models) < 2:
        return None
    models = run.models[:2]
    held = []
    for one in models:
        low, high = gap_interval(one.held_out)
        held.append(
            _absolute(one.held_out.rate - one.held_out.rest_rate, low, high, f"on {one.held_out.people:,} people")
        )
    sure = "" if run.significant else ", which is not significant"
    return _Mended(
        (100 * models[0].sampled.gap, 100 * models[1].sampled.gap),
        (held[0], held[1]),
        (100 * (models[0].held_out.accuracy or 0.0), 100 * (models[1].held_out.accuracy or 0.0)),
        f"{run.subgroup}{sure}; {models[1].words.rpartition(', ')[2]}",
    )


def _mended_texts(found: Values | None) -> _Mended | None:
    tried = [] if found is None else [one for one in found["tried"] if "refused" not in one["sampled"]]
    if len(tried) < 2:
        return None
    accuracy = [100 * one["held_out"][0] / one["held_out"][1] for one in tried]
    cheap = [i for i in range(1, len(tried)) if accuracy[i] >= accuracy[0] - NEAR_ACCURACY] or [1]
    best = min(cheap, key=lambda i: abs(tried[i]["sampled"]["gap"]))
    seeds = format_count(tried[0]["sampled"]["size"] + tried[0]["sampled"]["rest"], "text", "texts")
    return _Mended(
        (100 * abs(tried[0]["sampled"]["gap"]), 100 * abs(tried[best]["sampled"]["gap"])),
        (None, None),
        (accuracy[0], accuracy[best]),
        f"{tried[0]['sampled']['words']}, samples of {seeds}; with {tried[best]['added']:,} texts added",
    )


def _mended_figures(
    title: str, printed: published.PublishedMitigation, own: _Mended | None
) -> Iterator[ComparedFigure]:
    left = 100 * printed.score_after / printed.score
    if own is None:
        yield _absent(title, BEFORE, printed.score)
        yield _absent(title, AFTER, printed.score_after)
        yield _absent(title, LEFT, left)
        yield _absent(title, LOST, printed.accuracy_after - printed.accuracy)
        return
    for at, (measure, number) in enumerate(((BEFORE, printed.score), (AFTER, printed.score_after))):
        better = "" if at == 0 else "lower"
        verdict = judge(number, own.scores[at], within=NEAR, better=better)
        yield ComparedFigure(
            row=title, measure=measure, unit="%", published=number,
            ours=OwnFigure(value=own.scores[at], kind="estimated", basis="5,000 samples a side"), default=own.held[at],
            verdict=verdict, because=own.words,
        )  # fmt: skip
    share = 100 * own.scores[1] / max(own.scores[0], 1e-9)
    verdict = judge(left, share, within=NEAR_SHARE, better="lower")
    unused = own.held[1].value / max(own.held[0].value, 1e-9) * 100 if own.held[0] and own.held[1] else None
    yield ComparedFigure(
        row=title, measure=LEFT, unit="%", published=left, ours=OwnFigure(value=share, kind="estimated"),
        default=None if unused is None else OwnFigure(value=unused, kind="observed", basis="on people not used"),
        verdict=verdict, because="" if verdict == "agrees" else f"another network and another subgroup: {own.words}",
    )  # fmt: skip
    change, expected = own.accuracy[1] - own.accuracy[0], printed.accuracy_after - printed.accuracy
    verdict = judge(expected, change, within=NEAR_ACCURACY, better="higher")
    yield ComparedFigure(
        row=title, measure=LOST, unit="%", published=expected,
        ours=OwnFigure(value=change, kind="observed", basis="points, on people or texts outside the training set"),
        verdict=verdict, because="" if verdict == "agrees" else "another network, and few people to measure it on",
    )  # fmt: skip


# Table 8: other methods.


def compare_methods(values: Mapping[str, Values]) -> ComparedTable:
    """Return Table 8: the first score by TestSGD, by THEMIS, and by the auditor of FairFictPlay."""
    figures: list[ComparedFigure] = []
    for name, rows in published.SUBGROUPS.items():
        found, title = values.get(f"{name}-0"), TITLES[name]
        if found is None:
            figures += [
                _absent(title, measure, number)
                for measure, number in (
                    ("TestSGD", rows[0].score), ("THEMIS", published.THEMIS[name]),
                    ("FairFictPlay", published.FAIRFICTPLAY[name]),
                )
            ]  # fmt: skip
            continue
        widest = found["counted"]["widest"]
        own = _first_sampled(found)
        default = None if widest is None else counted_figure(widest)
        said = f"first as published: {own['words']}" + (f"; widest significant: {widest['words']}" if widest else "")
        figures.append(_compare_score(title, "TestSGD", rows[0].score, sampled_figure(own), default, said))
        figures.append(_themis_figure(title, published.THEMIS[name], found["themis"], default))
        linear = found["linear"]
        figures.append(
            _compare_score(
                title, "FairFictPlay", published.FAIRFICTPLAY[name],
                OwnFigure(value=100 * abs(linear["gap"]), kind="observed", basis=f"{linear['size']:,} people inside"),
                default,
                "its auditor on our network; the learning that plays against the auditor is not part of Evenhand",
            )
        )  # fmt: skip
    return ComparedTable(
        number="Table 8",
        title="TestSGD beside THEMIS and FairFictPlay",
        text="The highest score by each method on our first network; Evenhand's own is the widest gap that is "
        "significant after adjustment and that no other gap explains, the same beside all three.",
        figures=tuple(figures),
        verdict=summarize_verdicts([one.verdict for one in figures]),
        because="scores are those of other networks; what agrees is which method can be used where, and that THEMIS "
        "and the auditor find other gaps than TestSGD",
    )


def _first_sampled(found: Values) -> Values:
    top: Values = found["sampled"]["thresholds"]["5"]["top"][0]
    return top


def _themis_figure(title: str, printed: float | None, found: Values, default: OwnFigure | None) -> ComparedFigure:
    if COMBINATIONS in found:
        return ComparedFigure(
            row=title, measure="THEMIS", unit="%", published=printed, default=default,
            published_text="more than 24 hours" if printed is None else "",
            verdict="agrees" if printed is None else "differs",
            because=f"not measured here either: {found[COMBINATIONS]}",
        )  # fmt: skip
    ours = OwnFigure(
        value=100 * found["score"], kind="estimated", low=100 * found["low"], high=100 * found["high"],
        basis=f"random inputs, all pairs of {found['combinations']} combinations",
    )  # fmt: skip
    said = f"{found['best']} ({found['rest']:,} people) against {found['worst']} ({found['size']:,} people)"
    return _compare_score(title, "THEMIS", printed, ours, default, said)


def _compare_score(
    row: str, measure: str, printed: float | None, ours: OwnFigure | None, default: OwnFigure | None, because: str
) -> ComparedFigure:
    verdict = "not compared" if ours is None or printed is None else judge(printed, ours.value, within=NEAR)
    return ComparedFigure(
        row=row, measure=measure, unit="%", published=printed, ours=ours, default=default, verdict=verdict,
        because=because if verdict == "agrees" or OTHER_NETWORK in because else f"{OTHER_NETWORK}; {because}",
    )  # fmt: skip


# Figures of ours.


def _absent(row: str, measure: str, printed: float | None, *, unit: Any = "%") -> ComparedFigure:
    return ComparedFigure(
        row=row, measure=measure, unit=unit, published=printed, verdict="not compared", because="not done in this run"
    )


def mean_figure(values: Sequence[float], *, samples: Sequence[int] | None) -> OwnFigure | None:
    """Return the mean over networks, in percent, with Student's interval; of one network its sampling margin."""
    if not values:
        return None
    mean, count = float(np.mean(values)), len(values)
    if count > 1:
        low, high = student_interval(mean, float(np.var(values, ddof=1)), count, upper=100.0)
        return OwnFigure(value=mean, kind="estimated", low=float(low), high=float(high), basis=f"{count} networks")
    if samples is None:
        return OwnFigure(value=mean, kind="estimated", basis="one network")
    n, k, rest, rest_k = samples
    low, high = difference_interval(k, n, rest_k, rest)
    own = _absolute(k / n - rest_k / rest, float(low), float(high), f"{n:,} samples a side")
    return own.model_copy(update={"kind": "estimated"})


def sampled_figure(found: Values) -> OwnFigure | None:
    """Return the score of a rule set that was sampled, with the published margins; None where it was refused."""
    if "refused" in found:
        return None
    own = _absolute(found["gap"], found["low"], found["high"], "samples")
    return own.model_copy(update={"kind": "estimated"})


def counted_figure(found: Values) -> OwnFigure | None:
    """Return the score of a rule set that was counted, with its adjusted interval; None where it was refused."""
    if "gap" not in found:
        return None
    sure = "significant" if found["found"] else "not significant"
    return _absolute(found["gap"], found["low"], found["high"], f"{found['size']:,} against {found['rest']:,}, {sure}")


def _absolute(gap: float, low: float, high: float, basis: str) -> OwnFigure:
    """Return a gap without its sign, in percent; its interval is turned with it."""
    low, high = (low, high) if gap >= 0 else (-high, -low)
    return OwnFigure(value=100 * abs(gap), kind="observed", low=100 * low, high=100 * high, basis=basis)


def describe_size(found: Values, what: str) -> str:
    """Return how few a rule set holds, or leaves outside."""
    if "refused" in found:
        return str(found["refused"])
    return f"{found['size']:,} {what} inside, {found['rest']:,} outside"
