"""An audit searches too: briefly, for each protected attribute, and shows whom it found."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from evenhand import audit, report
from evenhand.errors import OptionError
from evenhand.report import summary

QUICK = audit.Config(time_limit=60, samples=500, searched=400)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "grade": rng.integers(0, 40, n),
            "sex": rng.choice(["f", "m"], n),
            "city": rng.choice(["a", "b"], n),
            "region": rng.choice(["north", "south", "west"], n),
        }
    )
    return frame.assign(hired=np.where(frame["grade"] + rng.normal(0, 3, n) > 20, "yes", "no"))


def southern(frame):
    """Men in the south need four points less; the city changes nothing."""
    return 1 / (1 + np.exp(20.5 - frame["grade"] - 4 * ((frame["sex"] == "m") & (frame["region"] == "south"))))


def audited(people, config=QUICK, model=southern):
    return audit.run(model, people, target="hired", protected=["sex", "city"], config=config)


@pytest.fixture(scope="module")
def result(people):
    return audited(people)


def test_one_search_per_protected_attribute(result):
    by_sex, by_city = result.searches
    assert (by_sex.protected, by_city.protected) == (("sex",), ("city",))
    assert by_sex.profiles > 0
    assert by_city.profiles == 0
    assert all(example.unprotected["region"] == "south" for example in by_sex.examples)
    assert all(example.valid for example in by_sex.examples)


def test_rates_stay_as_they_are(people, result):
    without = audited(people, dataclasses.replace(QUICK, searched=0))
    assert without.searches == ()
    assert without.individual.rates == result.individual.rates
    assert without.individual.examples == result.individual.examples
    assert without.violation_rate == result.violation_rate


def test_it_is_shown(result):
    lines = {(line.protected, line.question): line for line in summary.lines(result)}
    assert lines["sex", "search found"].value == result.searches[0].profiles
    assert "treated best most often: sex m" in lines["sex", "search found"].details[-1]
    assert "no proof" in lines["city", "search found"].next_step
    page = report.render(result)
    assert "Found by searching: another sex" in page
    assert "region south" in page
    assert "found nobody who is decided differently" in page
    assert "search found" in result.summary()
    assert audit.AuditResult.from_json(result.to_json()) == result


def test_what_cannot_be_searched_is_listed(people):
    alone = people[["sex", "hired"]]
    result = audit.run(lambda frame: frame["sex"] == "m", alone, target="hired", protected=["sex"], config=QUICK)
    assert result.searches == ()
    (item,) = [item for item in result.not_run if item.what == "search for individuals by sex"]
    assert "every attribute is protected" in item.reason
    assert item.reason in report.render(result)


def test_an_interrupt_while_searching_ends_the_audit_with_what_was_found(people, monkeypatch):
    def stopped(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("evenhand.individual.search.run", stopped)
    result = audited(people)
    assert result.interrupted
    assert result.searches == ()
    assert len(result.individual.rates) == 6


def test_a_negative_number_of_profiles():
    with pytest.raises(OptionError, match="searched"):
        audit.Config(searched=-1)
