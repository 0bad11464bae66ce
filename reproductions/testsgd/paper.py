"""The paper: its tables, and the work for them."""

from __future__ import annotations

from functools import partial

from reproductions.comparison import Paper, Piece, PublishedTable
from reproductions.testsgd import scores, tables
from reproductions.testsgd.bounds import find_false_gaps, measure_coverage
from reproductions.testsgd.people import mend_people, search_people
from reproductions.testsgd.texts import mend_texts, sample_texts, search_texts

RUNS = 3
"""Networks per data set of people; the paper gives means over three."""

MINUTES = {"census": 1.2, "bank": 0.5, "german": 0.2, "compas": 1.2, "law": 0.2, "crime": 2.0}
QUICK_MINUTES = {"census": 0.3, "bank": 0.15, "german": 0.1, "compas": 0.3, "law": 0.1, "crime": 0.3}
"""Of the first network of a data set, which is also searched as published."""

NEEDS = "the extra torch and files in the folder of data, both for texts"

ON_PEOPLE = ("Table 3", "Table 4", "Table 5", "Table 8")


def _plan_pieces() -> tuple[Piece, ...]:
    pieces = [
        Piece("coverage", ("Theorem 4.2",), measure_coverage, 0.1, 0.05),
        Piece("fair-models", ("Theorem 4.2",), find_false_gaps, 0.2, 0.05),
    ]
    for name, minutes in MINUTES.items():
        pieces += [
            Piece(
                f"{name}-{run}",
                (*ON_PEOPLE, *(("Table 6",) if name in ("law", "compas") else ())) if run == 0 else ON_PEOPLE[:2],
                partial(search_people, name, run),
                minutes if run == 0 else 0.3,
                QUICK_MINUTES[name] if run == 0 else 0.0,
            )
            for run in range(RUNS)
        ]
        pieces.append(Piece(f"{name}-mended", ("Table 7",), partial(mend_people, name, 0), 0.6, 0.0))
    for name, minutes in {"wiki": 0.3, "imdb": 0.8}.items():
        quick = 0.2 if name == "wiki" else 0.0
        pieces += [
            Piece(name, ("Table 3", "Table 4", "Table 5"), partial(search_texts, name), minutes, quick),
            Piece(f"{name}-sampled", ("Table 4", "Table 5"), partial(sample_texts, name), 2 * minutes, quick),
            Piece(f"{name}-mended", ("Table 7",), partial(mend_texts, name), 4 * minutes, 0.0),
        ]
    return tuple(pieces)


PAPER = Paper(
    name="testsgd",
    title="TestSGD",
    published_in="Zhang, Sun, Wang, Sun, ACM TOSEM 2023",
    tables=(
        PublishedTable("Figure 1", "Overview of the method", tables.compare_overview),
        PublishedTable("Table 1", "Identity terms", tables.compare_terms),
        PublishedTable("Section 4.1", "How many rule sets there are", tables.compare_counts),
        PublishedTable("Section 4.2", "A score and its margins", tables.compare_example),
        PublishedTable("Theorem 4.2", "The error bound", tables.compare_bounds),
        PublishedTable("Table 2", "Parameters", tables.compare_parameters),
        PublishedTable("Table 3", "Data sets and accuracy of the networks", tables.compare_accuracy, NEEDS),
        PublishedTable("Table 4", "Rule sets and fairness scores", scores.compare_subgroups, NEEDS),
        PublishedTable("Table 5", "Time and rule sets", tables.compare_times, NEEDS),
        PublishedTable("Table 6", "Effect of the support threshold", tables.compare_thresholds),
        PublishedTable("Table 7", "Mitigation by retraining", scores.compare_mitigation, NEEDS),
        PublishedTable("Table 8", "TestSGD beside THEMIS and FairFictPlay", scores.compare_methods),
    ),
    pieces=_plan_pieces(),
)
"""The paper and the work for its tables."""
