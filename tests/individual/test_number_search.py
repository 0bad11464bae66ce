"""Search for the largest change of a number: found where it is planted, within the budget, and replayed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evenhand.errors import OptionError
from evenhand.individual import search_numbers
from evenhand.models import QuestionLedger, load_regressor
from evenhand.schema.people import ColumnRoles


def planted(seed: int = 0):
    """A premium that differs by sex alone around age 70, where nobody in the data is."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(20, 50, 200), "town": rng.choice(["a", "b", "c"], 200)})
    frame.loc[0, "age"] = 80
    frame = frame.assign(sex=rng.choice(["f", "m"], 200), premium=rng.normal(size=200))
    people = ColumnRoles(target="premium", protected=["sex"]).read(frame)

    def premium(rows: pd.DataFrame) -> np.ndarray:
        effect = np.maximum(0, 40 - np.abs(rows["age"].to_numpy() - 70)) * np.where(rows["town"] == "b", 2.0, 1.0)
        return 100 + effect * (rows["sex"] == "m").to_numpy()

    ledger = QuestionLedger()
    return people, load_regressor(premium, people.schema, like=people.frame, ledger=ledger), ledger


def test_the_planted_maximum_is_found_within_the_budget() -> None:
    people, model, ledger = planted()
    before = ledger.sent
    found = search_numbers(model, people, budget=6000, tolerance=50.0)
    assert found.largest == 80.0
    assert found.in_data <= 60.0
    assert found.beyond > 0
    assert ledger.sent - before <= 6000
    best = found.examples[0]
    assert best.higher_number - best.lower_number == found.largest
    assert best.same == {"age": "70", "town": "b"}
    assert (best.lower, best.higher) == ({"sex": "f"}, {"sex": "m"})


def test_what_trying_the_model_on_cost_is_part_of_the_budget() -> None:
    people, model, ledger = planted()
    ledger.budget = 2000
    assert ledger.left < 2000
    assert search_numbers(model, people, budget=2000).largest > 0
    assert ledger.sent <= 2000


def test_the_same_seed_finds_the_same() -> None:
    first, second = (search_numbers(model, people, budget=2000) for people, model, _ in (planted(), planted()))
    assert first.examples == second.examples


def test_time_and_an_interrupt_leave_what_was_found_before() -> None:
    people, model, _ = planted()
    short = search_numbers(model, people, budget=100_000, time_limit=1e-9)
    assert short.stopped_by == "time"
    assert 0 < short.in_data == short.largest
    assert short.examples

    class Impatient:
        schema, name, asked = model.schema, "impatient", 0

        def predict_numbers(self, individuals: np.ndarray) -> np.ndarray:
            self.asked += 1
            if self.asked == 3:
                raise KeyboardInterrupt
            return model.predict_numbers(individuals)

    broken = search_numbers(Impatient(), people, budget=100_000)
    assert broken.stopped_by == "interrupt"
    assert broken.largest >= broken.in_data > 0


def test_a_budget_for_nobody_is_refused() -> None:
    people, model, _ = planted()
    frame = people.frame.assign(sex=["a", "b", "c", "d"] * 50)
    wider = ColumnRoles(target="premium", protected=["sex"]).read(frame)
    with pytest.raises(OptionError, match="does not cover a single person"):
        search_numbers(model, wider, budget=2)
