"""The lines of the first screen, by hand."""

from __future__ import annotations

import examples
import pytest

from evenhand.core.document import Metric
from evenhand.groups import Gap
from evenhand.groups.wording.gaps import four_fifths_sentence
from evenhand.stats import Observed, Proved, Unknown


def line(audit, about: str, name: str) -> Metric:
    answers = [block for block in audit.document().blocks if isinstance(block, Metric)]
    (found,) = [one for one in answers if (one.about, one.name) == (about, name)]
    return found


@pytest.mark.parametrize(
    ("ratio", "low", "high", "said"),
    [
        (0.31, 0.28, 0.34, "not met (0.31)"),
        (0.92, 0.88, 0.96, "met (0.92)"),
        (0.83, 0.76, 0.91, "met (0.83), but the interval 0.76 to 0.91 leaves it open"),
        (0.86, 0.72, 0.9963, "met (0.86), but the interval 0.72 to 1.00 leaves it open"),
        (0.79, 0.70, 0.88, "not met (0.79), but the interval 0.70 to 0.88 leaves it open"),
        (0.7996, 0.7991, 0.7999, "not met (0.7996)"),
        (0.8, 0.8, 0.91, "met (0.80)"),
    ],
)
def test_four_fifths_rule(ratio, low, high, said):
    quantity = Observed(value=ratio, n=900, low=low, high=high, confidence=0.95, method="m")
    assert four_fifths_sentence(ratio_gap(quantity)) == said


def ratio_gap(quantity, **left_out: int) -> Gap:
    return Gap(
        name="demographic_parity_ratio",
        metric="selection_rate",
        value=quantity,
        best="a",
        worst="b",
        not_assessable=left_out,
    )


def test_four_fifths_rule_without_an_interval():
    assert four_fifths_sentence(ratio_gap(Unknown(reason="no one is selected"))) == "unknown (no one is selected)"
    assert four_fifths_sentence(ratio_gap(Proved(value=0.7, how="counted"))) == "not met (0.70)"


def test_four_fifths_rule_with_groups_left_out():
    """What is not met by some is not met, no matter who is left out; what is met by some says who is left out."""
    assert four_fifths_sentence(ratio_gap(Proved(value=0.7, how="counted"), c=24)) == "not met (0.70)"
    said = four_fifths_sentence(ratio_gap(Proved(value=0.9, how="counted"), c=24, d=3))
    assert said == "met (0.90) by the groups that can be assessed; not assessable for: c (24), d (3)"


@pytest.mark.parametrize(
    ("falsified", "undecided", "stopped", "step"),
    [
        (0.0, 0.0, "done", "nothing is left open"),
        (0.1, 0.0, "done", "the section Proof shows who is affected"),
        (0.0, 0.2, "depth", "the undecided boxes cannot be divided further"),
        (0.0, 0.2, "boxes", "a higher limit on boxes decides more"),
    ],
)
def test_what_to_do_after_a_proof(falsified, undecided, stopped, step):
    audit = examples.full()
    certificate = examples.certificate(("sex",), 1 - falsified - undecided, falsified, falsified)
    certificate = certificate.model_copy(update={"stopped_by": stopped, "undecided": undecided})
    assert line(audit.model_copy(update={"certificates": (certificate,)}), "sex", "certified fair").next_step == step


def test_what_is_unknown_has_a_reason_and_no_number():
    found = line(examples.minimal(), "gender", "demographic parity difference")
    assert (found.number.text, found.number.value, found.number.kind) == ("-", None, "unknown")
    assert found.explanation == ("unknown: not computable: at least two groups must have 30 people",)


def test_an_unknown_rate_has_its_reason():
    audit = examples.full()
    rates = (audit.individual.rates[0].model_copy(update={"rate": Unknown(reason="no one was asked")}),)
    individual = audit.individual.model_copy(update={"rates": rates})
    found = line(audit.model_copy(update={"individual": individual}), "race", "counterfactual flip rate")
    assert (found.number.text, found.number.kind, found.explanation) == ("-", "unknown", ("unknown: no one was asked",))
