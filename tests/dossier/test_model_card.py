"""Dossiers as CycloneDX model cards, against the schema of CycloneDX 1.6 that its own library brings along."""

import datetime as dt
import json

import pandas as pd
import pytest

from evenhand.dossier import DossierConfig, compile_dossier, write_bom

cyclonedx = pytest.importorskip("cyclonedx", reason="needs cyclonedx-python-lib, of the test group")
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

PEOPLE = pd.DataFrame({"sex": ["Male", "Female", "Male", "Female"] * 25, "selected": [1, 0, 1, 1] * 25})
SAID = {
    "system": {"name": "Ranker", "vendor": "Acme", "version": 3, "purpose": "ranks applicants"},
    "scenarios": [
        {"group": {"sex": "Female"}, "measure": "ratio", "hazard": "refusal", "mitigation": "a person looks"}
    ],
}


def card(**said):
    config = DossierConfig(
        outcome={"column": "selected"},
        attributes={"sex": {"column": "sex", "categories": ["Male", "Female", "X"]}},
        **said,
    )
    return write_bom(compile_dossier(PEOPLE, config, today=dt.date(2026, 11, 23)))


@pytest.mark.parametrize("said", [{}, SAID])
def test_the_card_is_valid_by_the_schema_of_cyclonedx(said):
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(card(**said)) is None
    broken = card(**said).replace('"slice"', '"slices"')
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(broken) is not None


def test_the_card_has_every_rate_with_its_interval_and_kind():
    (model,) = json.loads(card(**SAID))["components"]
    assert (model["name"], model["version"], model["supplier"]["name"]) == ("Ranker", "3", "Acme")
    metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    found = {(one["type"], one["slice"]): one for one in metrics}
    women = found["impact ratio of people selected (observed)", "sex: Female"]
    assert women["value"] == "0.5"
    assert float(women["confidenceInterval"]["lowerBound"]) < 0.5 < float(women["confidenceInterval"]["upperBound"])
    # An empty category has no rate, and nothing is made up for it.
    assert not [one for one in metrics if one["slice"] == "sex: X"]
    (assessment,) = model["modelCard"]["considerations"]["fairnessAssessments"]
    assert assessment == {"groupAtRisk": "sex: Female", "harms": "refusal", "mitigationStrategy": "a person looks"}


def test_equal_dossiers_have_equal_cards():
    assert card(**SAID) == card(**SAID)
    assert json.loads(card())["serialNumber"] != json.loads(card(**SAID))["serialNumber"]
    assert json.loads(card())["components"][0]["name"] == "to be filled"
