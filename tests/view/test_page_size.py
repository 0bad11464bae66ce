"""A page stays small, however many groups there are, and says what it leaves out."""

from __future__ import annotations

import numpy as np
import pytest

import evenhand
from evenhand import view
from evenhand.core import Document
from evenhand.core.document import PAGE_ROWS, WIDE_ROWS, Column, Heading, Table, TableRow

MOST_BYTES = 600_000


@pytest.mark.full
def test_a_page_of_many_groups_is_small_and_says_what_it_leaves_out():
    rng = np.random.default_rng(0)
    n = 10_000
    schools = np.array([f"school {i:03d} ".ljust(60, "x") for i in range(150)])
    score = rng.random(n)
    result = evenhand.audit_predictions(
        y_true=(rng.random(n) < score).astype(int),
        y_score=score,
        threshold=0.5,
        sensitive_features={
            "school": schools[rng.integers(0, 150, n)],
            "sex": rng.choice(["f", "m"], n),
            "age": rng.choice(["young", "middle", "old"], n),
        },
    )
    page = view.render_page(result.document())
    assert len(page.encode()) < MOST_BYTES
    said = f"The first {WIDE_ROWS} of {{}} rows, lowest selection rate first; all of them are in the JSON"
    assert said.format(150) in page
    assert said.format(900) in page
    first = result.groups.breakdowns[0].listed[0].metrics["selection_rate"].value
    assert first == min(group.metrics["selection_rate"].value for group in result.groups.breakdowns[0].groups)


@pytest.mark.parametrize(("columns", "most"), [(2, PAGE_ROWS), (7, WIDE_ROWS)])
@pytest.mark.parametrize("more", [0, 1])
def test_a_table_is_cut_and_its_caption_says_so(columns, most, more):
    rows = tuple(TableRow((f"row {i}.", *([i] * (columns - 1)))) for i in range(most + more))
    table = Table("Rows", tuple(Column(f"c{i}") for i in range(columns)), rows, order="largest first")
    document = Document("Many", blocks=(Heading("Part"), table))
    page = view.render_page(document)
    assert f"row {most - 1}." in page
    assert f"row {most}." not in page
    left_out = f"Rows. The first {most} of {most + 1} rows, largest first; all of them are in the JSON"
    assert (left_out in page) == bool(more)
    assert all(f"row {i}." in view.render_markdown(document) for i in range(most + more))
