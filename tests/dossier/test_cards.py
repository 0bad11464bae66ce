"""An audit as a Hugging Face card: the Hub's own library reads it, with every number as the audit has it."""

import pytest

import evenhand
from evenhand.dossier import write_card
from evenhand.dossier.cards import list_numbers

DECIDED = [1] * 20 + [0] * 80 + [1] * 60 + [0] * 40
SEX = ["F"] * 100 + ["M"] * 100


@pytest.fixture(scope="module")
def audit():
    return evenhand.audit_predictions(DECIDED, y_true=DECIDED, sensitive_features={"sex": SEX}, favourable=1)


def test_hugging_face_reads_the_metadata(audit):
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub, which transformers brings")
    card = hub.ModelCard(write_card(audit))
    results = {(one.metric_type, one.metric_args["of"]): one for one in card.data.eval_results}
    gap = results["demographic_parity_difference", "sex: M and F"]
    assert gap.metric_value == pytest.approx(0.4)
    assert gap.metric_args["low"] < 0.4 < gap.metric_args["high"]
    assert "selected 0.33 times as often" in card.text
    numbers = list(list_numbers(audit))
    assert card.text.count("\n| ") == len(numbers) + 2
    assert len(card.data.eval_results) == sum(one.quantity.kind != "unknown" for one in numbers)


def test_numbers_of_an_audit_keep_their_kind_and_interval(audit):
    quantities = {(number.group, number.name): number.quantity for number in list_numbers(audit)}
    breakdown = audit.groups.breakdowns[0]
    for group in breakdown.groups:
        for name, quantity in group.metrics.items():
            assert quantities[group.label, name] == quantity
    for gap in breakdown.gaps:
        assert gap.value in [one.quantity for one in list_numbers(audit) if one.name == gap.name]
