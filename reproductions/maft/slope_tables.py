"""Figures 5 to 11: how near estimated gradients come, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from reproductions.comparison import (
    ComparedFigure,
    ComparedTable,
    OwnFigure,
    PublishedTable,
    Values,
    summarize_verdicts,
)
from reproductions.maft import published
from reproductions.maft.figures import DRAWN, NEEDS, RERUN, absent_rows, claim, join_reasons, pieces_of, plain

SIMILAR = {
    "Figure 5": ("gradients", "Similarity of estimated and true gradients"),
    "Figure 7": ("directions", "Similarity of the first global move"),
    "Figure 9": ("probabilities", "Similarity of the probabilities of local moves"),
}
TIMED = {
    "Figure 6": ("", "Seconds for the gradients"),
    "Figure 8": ("directions", "Seconds for the first global move"),
    "Figure 10": ("probabilities", "Seconds for the probabilities of local moves"),
}
NUMBERED = "The stored text of the paper numbers the last of these six drawings alone, 10; they are counted backwards."
LARGE = 0.8
"""Section 4.2.3: the average gradient similarity across most benchmarks is above it."""


def compare_similarity(number: str, values: Mapping[str, Values]) -> ComparedTable:
    """Compare figure 5, 7 or 9: the cosine similarity of what is derived from estimates and from true gradients."""
    kind, title = SIMILAR[number]
    place = list(SIMILAR).index(number)
    numbered = "" if place else f" {NUMBERED}"  # said at the first of the six
    figures = []
    found = pieces_of(values, "slopes")
    for name, piece in found.items():
        ours, own = piece[kind], piece[f"own {kind}"]
        theirs = published.SIMILARITIES.get(name)
        figures.append(
            ComparedFigure(
                row=name,
                measure="mean cosine similarity",
                published=None if theirs is None else theirs[place],
                ours=_mean(ours),
                default=_mean(own),
                verdict="not compared",
                because=DRAWN if theirs is None else RERUN,
            )
        )
    figures += absent_rows(found, "mean cosine similarity")
    means = [piece[kind]["mean"] for piece in found.values()]
    if means:
        many = sum(mean > LARGE for mean in means)
        figures.append(
            claim(
                "benchmarks with a mean above 0.8",
                "statement of the text",
                "the majority",
                plain(many, basis=f"of {len(means)}"),
                holds=2 * many > len(means),
                because="the networks of the benchmarks that are left out are not counted",
            )
        )
    return ComparedTable(
        number=number,
        title=title,
        text=(
            "h = 1, up to 1,000 people. The drawing prints no numbers: our figures stand beside a run of the authors' "
            "program on the same networks, which is not compared. Evenhand asks inside the domain and in double "
            f"precision.{numbered}"
        ),
        figures=tuple(figures),
        verdict=summarize_verdicts([figure.verdict for figure in figures]),
        because=join_reasons(figures),
    )


def _half(summary: Values) -> float:
    return 1.96 * float(np.sqrt(summary["variance"] / max(summary["n"], 1)))


def _mean(summary: Values) -> OwnFigure:
    mean, half = float(summary["mean"]), _half(summary)
    return OwnFigure(
        value=round(mean, 4),
        kind="estimated",
        low=round(mean - half, 4),
        high=round(min(mean + half, 1.0), 4),
        basis=f"on {summary['n']:,} people",
    )


def compare_times(number: str, values: Mapping[str, Values]) -> ComparedTable:
    """Compare figure 6, 8 or 10: seconds as ratios within one run."""
    use, title = TIMED[number]
    found = pieces_of(values, "slopes")
    figures: list[ComparedFigure] = []
    if found:
        seconds = {
            way: [piece["seconds"][way] for piece in found.values()] for way in next(iter(found.values()))["seconds"]
        }
        figures = _gradient_times(found, seconds) if not use else _use_times(use, seconds)
    return ComparedTable(
        number=number,
        title=title,
        text=(
            "Processor seconds of networks in NumPy, person by person as the programs go, compared as ratios within "
            "one run; means over the benchmarks."
        ),
        figures=tuple(figures),
        verdict=summarize_verdicts([figure.verdict for figure in figures]),
        because=join_reasons(figures),
    )


def _ratio(one: list[float], other: list[float]) -> float:
    return float(np.mean(np.array(one) / np.array(other)))


def _gradient_times(found: Mapping[str, Values], seconds: dict[str, list[float]]) -> list[ComparedFigure]:
    measure = "ratios of seconds"
    ratio = _ratio(seconds["ADF"], seconds["EIDIG"])
    figures = [
        claim(
            "ADF to EIDIG",
            measure,
            "noticeably above 1",
            plain(ratio, kind="measured"),
            holds=ratio > 1.1,
            because="with backpropagation written out, the loss costs one division more, and no further graph",
        )
    ]
    ratio = _ratio(seconds["MAFT"], seconds["EIDIG"])
    figures.append(
        claim(
            "MAFT to EIDIG",
            measure,
            "slightly above 1",
            plain(ratio, kind="measured"),
            holds=1 <= ratio < 3,
            because="the network is so small that the number of calls counts, not what they compute",
        )
    )
    figures[-1] = figures[-1].model_copy(
        update={"default": plain(_ratio(seconds["own"], seconds["EIDIG"]), kind="measured", basis="all people at once")}
    )
    ratio = _ratio(seconds["MAFT one by one"], seconds["MAFT"])
    figures.append(
        claim(
            "MAFT one by one to MAFT",
            measure,
            "above 1",
            plain(ratio, kind="measured"),
            holds=ratio > 1,
            because="calls cost as much as rows",
        )
    )
    each = {name: piece["seconds"]["MAFT one by one"] / piece["seconds"]["MAFT"] for name, piece in found.items()}
    most = max(each, key=lambda name: each[name])
    figures.append(
        claim(
            "benchmark where one by one costs most more",
            measure,
            "MEPS15",
            plain(each[most], kind="measured", basis=f"on {most}"),
            holds=most.startswith("M"),
            because="inputs are not what counts",
        )
    )
    longest = max(1000 * piece["seconds"]["MAFT"] / piece["people"] for piece in found.values())
    figures.append(
        claim(
            "1,000 gradients of MAFT, at most",
            "seconds",
            "below 10",
            plain(longest, kind="measured"),
            holds=longest < 10,
            because="this machine is slower",
        ).model_copy(update={"unit": "s"})
    )
    return figures


def _use_times(use: str, seconds: dict[str, list[float]]) -> list[ComparedFigure]:
    alone = _ratio(seconds["MAFT"], seconds["EIDIG"])
    within = _ratio(seconds[f"{use}, MAFT"], seconds[f"{use}, EIDIG"])
    return [
        claim(
            "MAFT to EIDIG, less than for the gradients alone",
            "ratios of seconds",
            "further decreases",
            plain(within, kind="measured", basis=f"{alone:.2f} for the gradients alone"),
            holds=within <= alone,
            because="what surrounds the gradients costs next to nothing here, so the difference stays as it is",
        )
    ]


def compare_plane(values: Mapping[str, Values]) -> ComparedTable:
    """Compare figure 11: gradients in the plane of their first two components."""
    figures = []
    found = pieces_of(values, "slopes")
    for name, piece in found.items():
        plane = piece["plane"]
        figures.append(
            claim(
                name,
                "mean distance from EIDIG's gradients, MAFT",
                "closer than ADF",
                plain(plane["MAFT"], basis=f"ADF {plane['ADF']:.2f}; {100 * plane['variance']:.0f} % of the variance"),
                holds=plane["MAFT"] < plane["ADF"],
                because="the estimate with h = 1 is off by more than the loss's slope, which points the other way",
            )
        )
    figures += absent_rows(found, "mean distance from EIDIG's gradients, MAFT")
    return ComparedTable(
        number="Figure 11",
        title="Gradients in the plane of their first two principal components",
        text=(
            "The paper shows clouds: MAFT's close to EIDIG's, ADF's distinctly apart. Distances are in units of the "
            "mean distance of EIDIG's gradients from their middle. ADF's are of the predicted label's loss, so that "
            "they point the other way."
        ),
        figures=tuple(figures),
        verdict=summarize_verdicts([figure.verdict for figure in figures]),
        because=join_reasons(figures),
    )


SLOPE_TABLES = tuple(
    PublishedTable(
        f"Figure {number}",
        (SIMILAR | TIMED).get(f"Figure {number}", ("", ""))[1],
        partial(compare_similarity if f"Figure {number}" in SIMILAR else compare_times, f"Figure {number}"),
        NEEDS,
    )
    for number in range(5, 11)
)
"""Figures 5 to 10."""
