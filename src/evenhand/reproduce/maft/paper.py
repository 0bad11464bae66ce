"""All tables and drawings of MAFT, and the work behind them."""

from __future__ import annotations

from functools import partial

from evenhand.reproduce.comparison import Paper, Piece, PublishedTable
from evenhand.reproduce.maft import published
from evenhand.reproduce.maft.benchmarks import BENCHMARKS, BUNDLED, JOINT
from evenhand.reproduce.maft.figures import NEEDS
from evenhand.reproduce.maft.plain_tables import (
    compare_features,
    compare_intuition,
    compare_networks,
    compare_workflow,
)
from evenhand.reproduce.maft.search_tables import (
    compare_budgets,
    compare_joint,
    compare_numbers,
    compare_retrained,
    compare_steps,
)
from evenhand.reproduce.maft.searches import (
    measure_budgets,
    measure_joint,
    measure_numbers,
    measure_retrained,
    measure_steps,
)
from evenhand.reproduce.maft.slope_tables import SLOPE_TABLES, compare_plane
from evenhand.reproduce.maft.slopes import measure_checkout, measure_networks, measure_slopes

KNOWN = tuple(name for name in BUNDLED if not name.startswith("M"))
FEW = ("M-r", "M-g")
"""Benchmarks that a quick run leaves out, since M-a is like them."""

SLOPED = tuple(table.number for table in SLOPE_TABLES)

PAPER = Paper(
    "maft",
    published.TITLE,
    published.WHERE,
    (
        PublishedTable("Table 1", "What each method needs", compare_features),
        PublishedTable("Table 2", "Data sets, and how accurate their networks are", compare_networks, NEEDS),
        PublishedTable("Figure 1", "The workflow of MAFT", compare_workflow),
        PublishedTable("Figure 2", "What global and local generation mean", compare_intuition),
        PublishedTable("Figure 3", "Perturbation size", compare_steps, NEEDS),
        PublishedTable("Figure 4", "Instances, and how many a second", compare_numbers, NEEDS),
        *SLOPE_TABLES,
        PublishedTable("Figure 11", "Gradients in a plane", compare_plane, NEEDS),
        PublishedTable("Section 4.1", "Networks trained again", compare_retrained),
        PublishedTable("Section 4.3", "Two protected attributes at once", compare_joint),
        PublishedTable("Equal budgets", "All methods with the same number of questions", compare_budgets),
    ),
    (
        Piece("networks", ("Table 1", "Table 2"), measure_networks, 0.1, 0.1),
        Piece("checkout", ("Table 2",), measure_checkout, 0.1, 0.1),
        *(
            Piece(f"steps-{name}", ("Figure 3",), partial(measure_steps, name), 0.6, 0.06 * (name not in FEW))
            for name in BENCHMARKS
        ),
        *(
            Piece(f"numbers-{name}", ("Figure 4",), partial(measure_numbers, name), 0.8, 0.04 * (name not in FEW))
            for name in BENCHMARKS
        ),
        *(
            Piece(f"slopes-{name}", (*SLOPED, "Figure 11"), partial(measure_slopes, name), 0.1, 0.02)
            for name in BENCHMARKS
        ),
        *(
            Piece(f"retrained-{name}", ("Section 4.1",), partial(measure_retrained, name), 0.4, 0.0)
            for name in BENCHMARKS
            if name[0] in "BCG"
        ),
        *(Piece(f"joint-{name}", ("Section 4.3",), partial(measure_joint, name), 0.2, 0.05) for name in JOINT),
        *(Piece(f"budgets-{name}", ("Equal budgets",), partial(measure_budgets, name), 0.5, 0.0) for name in KNOWN),
    ),
)
