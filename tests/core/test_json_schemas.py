"""JSON of results: the real files keep to their schemas, and readers ignore what is new."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand
from evenhand.auditing import AuditResult
from evenhand.errors import DataError
from support import ROOT

jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema, of the group test")


sys.path.insert(0, str(ROOT / "tools"))

import make_reference as reference


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"skill": rng.integers(0, 10, 300), "female": rng.integers(0, 2, 300)})
    hired = (people["skill"] - 2 * people["female"] > 3).astype(int)
    model = LogisticRegression().fit(people, hired)
    about = {"y": hired, "protected": ["female"]}
    audit = evenhand.audit(model, people, **about, thresholds=True, keep_decisions=True, max_boxes=20)
    decided = evenhand.audit_predictions(
        y_score=model.predict_proba(people)[:, 1], threshold=0.5, y_true=hired, sensitive_features=people[["female"]]
    )
    return [
        audit,
        audit.groups,
        audit.individual,
        audit.subgroups,
        *audit.certificates,
        *audit.searches,
        decided,
        evenhand.compare(audit, audit),
        evenhand.search(model, people, **about, seed=1, budget=2000),
    ]


def test_real_files_keep_to_their_schema(results):
    kinds = {type(result).__name__ for result in results}
    assert kinds >= {"AuditResult", "GroupMetrics", "IndividualResult", "SubgroupResult", "Certificate", "SearchResult"}
    for result in results:
        schema = reference.describe_schema(type(result).__name__)
        jsonschema.Draft202012Validator.check_schema(schema)
        written = json.loads(result.to_json())
        jsonschema.Draft202012Validator(schema).validate(written)
        assert written["schema_version"] == 1
        # A field of a later version is no fault, a field of another type or kind is one.
        jsonschema.Draft202012Validator(schema).validate(written | {"later": 1})
        for wrong in ({"kind": "other"}, {"seconds": "long"}, {"schema_version": None}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.Draft202012Validator(schema).validate(written | wrong)


def test_readers_ignore_fields_that_they_do_not_know(results):
    for result in results:
        written = json.loads(result.to_json())
        written["later"] = {"any": "thing"}
        for part in written.values():
            if isinstance(part, dict) and "kind" in part:
                part["later"] = 1
        assert type(result).from_json(json.dumps(written)) == result
    nested = json.loads(results[0].to_json())
    nested["groups"]["overall"]["accuracy"]["later"] = 1
    nested["data"]["later"] = 1
    assert AuditResult.from_json(json.dumps(nested)) == results[0]


def test_json_whose_fields_mean_something_else_is_refused(results):
    written = json.loads(results[0].to_json()) | {"schema_version": 2, "evenhand": "9.0"}
    with pytest.raises(DataError, match=r"schema_version 1 or lower, got 2, written by evenhand 9\.0"):
        AuditResult.from_json(json.dumps(written))
    with pytest.raises(DataError, match="not a AuditResult"):
        AuditResult.from_json(json.dumps({"kind": "audit"}))
