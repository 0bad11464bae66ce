"""``evenhand card``: from the report of an audit, to a file and to standard output."""

import pytest

from evenhand import audit_predictions
from evenhand.dossier import write_card


@pytest.fixture(scope="module")
def audit():
    return audit_predictions([1, 0, 1, 1] * 20, sensitive_features={"sex": ["F", "M"] * 40}, favourable=1)


def test_a_card_is_written(evenhand, audit, tmp_path):
    (tmp_path / "report.json").write_text(audit.to_json())
    ran = evenhand("card", tmp_path, "--save", tmp_path / "card")
    assert (ran.code, ran.out) == (0, "")
    assert (tmp_path / "card").read_text("utf-8") == write_card(audit)
    assert evenhand("card", tmp_path / "report.json").out == write_card(audit)


@pytest.mark.parametrize("content", [None, "{}", '{"kind": "subgroups"}', "not JSON"])
def test_what_is_no_audit_is_refused(evenhand, tmp_path, content):
    report = tmp_path / "report.json"
    if content is not None:
        report.write_text(content)
    ran = evenhand("card", report, "--save", tmp_path / "card")
    assert ran.code == 2
    assert str(report) in ran.err
    assert not (tmp_path / "card").exists()
