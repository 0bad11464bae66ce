"""An audit of a model behind HTTP that answers differently each time: noise first, and gates that tell it from bias."""

import numpy as np
import pytest

from evenhand import auditing, view
from evenhand.auditing.wording import headlines
from evenhand.models import Subject
from evenhand.schema.people import ColumnRoles
from serving import serving
from support import draw_frame

QUICK = auditing.AuditConfig(time_limit=60, samples=200, searched=0)


def audited(rate):
    """Audit an endpoint that says yes with a probability that it computes from a person."""
    rng = np.random.default_rng(5)
    n = 800
    people = draw_frame(rng, n, grade=(0, 39), sex="f m", hired="no yes")
    noise = np.random.default_rng(6)

    def reply(instances):
        return {"predictions": ["yes" if noise.random() < rate(one) else "no" for one in instances]}

    with serving(reply) as service:
        subject = Subject(service.url, ColumnRoles("hired", ["sex"], favourable="yes").read(people))
        result = auditing.audit(subject, QUICK)
        subject.scorer.model.close()
    return result


@pytest.fixture(scope="module")
def fair():
    return audited(lambda person: 0.5)


@pytest.fixture(scope="module")
def biased():
    return audited(lambda person: 0.15 if person["sex"] == "f" else 0.75)


def holds(condition, result):
    return auditing.parse_gate(condition).holds(result)


def test_a_fair_coin_is_said_to_be_noise_before_anything_else(fair, tmp_path):
    blocks = fair.document().blocks
    assert blocks[0].tone == "caution"
    assert blocks[0].text.startswith("The model answers differently each time: asked twice about the same 300 people")
    assert "not significantly more often" in headlines(fair)[0]
    assert "the decision changes with sex alone" not in fair.summary()
    report, _ = view.write_report(fair, tmp_path)
    page = report.read_text("utf-8")
    assert page.index("answers differently each time") < page.index("demographic parity difference")
    assert fair.subgroups.noise == fair.individual.noise
    assert auditing.AuditResult.from_json(fair.to_json()) == fair


def test_gates_tell_noise_from_bias(fair, biased):
    assert holds("violation_rate.sex < 0.02", fair)
    assert holds("violation_rate.sex > 0.2", biased)
    assert not holds("excess_flip_rate.low > 0", fair)
    assert holds("excess_flip_rate.sex.low > 0 and population_excess_flip_rate.sex.low > 0", biased)
