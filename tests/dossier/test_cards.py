"""An audit as cards: each by the schema or the reader of those who defined it, and every number as the audit has it."""

import json

import pytest

import evenhand
from evenhand.dossier import read_evidence, write_card

DECIDED = [1] * 20 + [0] * 80 + [1] * 60 + [0] * 40
SEX = ["F"] * 100 + ["M"] * 100


@pytest.fixture(scope="module")
def audit():
    return evenhand.audit_predictions(DECIDED, y_true=DECIDED, sensitive_features={"sex": SEX}, favourable=1)


def test_cyclonedx_accepts_the_bill_of_materials(audit):
    pytest.importorskip("cyclonedx", reason="needs cyclonedx-python-lib, of the test group")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = write_card(audit, "cyclonedx")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text.replace('"slice"', '"slices"')) is not None


def test_the_bill_of_materials_has_numbers_intervals_and_who_is_worse_off(audit):
    (model,) = json.loads(write_card(audit, "cyclonedx"))["components"]
    metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    women = next(one for one in metrics if one["slice"] == "sex: F" and one["type"].startswith("selection rate"))
    assert float(women["value"]) == 0.2
    assert float(women["confidenceInterval"]["lowerBound"]) < 0.2 < float(women["confidenceInterval"]["upperBound"])
    (assessment,) = model["modelCard"]["considerations"]["fairnessAssessments"]
    assert assessment == {
        "groupAtRisk": "sex: F",
        "harms": "selected less often: 20.0 % against 60.0 % of sex M (observed)",
    }


def test_a_gap_that_chance_explains_is_no_risk():
    even = evenhand.audit_predictions([1, 0] * 100, sensitive_features={"sex": SEX}, favourable=1)
    (model,) = json.loads(write_card(even, "cyclonedx"))["components"]
    assert "fairnessAssessments" not in model["modelCard"].get("considerations", {})


def test_hugging_face_reads_the_metadata(audit):
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub, which transformers brings")
    card = hub.ModelCard(write_card(audit, "huggingface"))
    results = {(one.metric_type, one.metric_args["of"]): one for one in card.data.eval_results}
    gap = results["demographic_parity_difference", "sex: M and F"]
    assert gap.metric_value == pytest.approx(0.4)
    assert gap.metric_args["low"] < 0.4 < gap.metric_args["high"]
    assert "selected 0.33 times as often" in card.text
    (evidence,) = read_evidence([audit])
    assert card.text.count("\n| ") == len(evidence.numbers) + 2
    assert len(card.data.eval_results) == sum(one.quantity.kind != "unknown" for one in evidence.numbers)


def test_croissant_is_about_the_data(audit):
    found = json.loads(write_card(audit, "croissant"))
    assert found["rai:personalSensitiveInformation"] == ["sex"]
    assert "sex: F 100, M 100" in found["rai:dataBiases"]
    assert "selected 0.33 times as often" in found["rai:dataSocialImpact"]


@pytest.mark.filterwarnings("ignore:.*ConjunctiveGraph:DeprecationWarning")
def test_croissants_own_library_finds_no_error(audit):
    library = pytest.importorskip("mlcroissant", reason="needs mlcroissant, of the group of frameworks")
    found = library.Dataset(jsonld=json.loads(write_card(audit, "croissant")))
    assert found.metadata.name == "data"
    assert not found.metadata.ctx.issues.errors
