"""A budget is a ceiling, and the report's number is the model's own count, from loading it to the last further try."""

import json

import numpy as np
import pytest
from search_cases import people

from evenhand.errors import BudgetError
from evenhand.individual import search
from evenhand.models import QuestionLedger, Subject
from serving import DROP, serving


def reply(instances):
    """Favour men of middling grades; half of all profiles with such a grade flip."""
    chances = [0.3 + 0.4 * (one["sex"] == "m") * (one["grade"] in (2, 3)) + 0.01 * one["years"] for one in instances]
    return {"predictions": chances}


def run(service, **settings):
    subject = Subject(service.url, people(200, 1), ledger=QuestionLedger(settings.get("budget")))
    return search.search(subject.scorer, subject.people, **settings)


@pytest.mark.parametrize("method", ["frontier", "random", "aequitas", "sg", "maft", "themis"])
@pytest.mark.parametrize("budget", [50, 333, pytest.param(900, marks=pytest.mark.full)])
def test_an_endpoint_is_asked_no_more_than_the_budget_and_counts_what_the_report_says(method, budget):
    with serving(reply) as service:
        found = run(service, method=method, budget=budget, seed=3)
        assert found.queries == service.asked <= budget
        assert found.profiles == 0 or found.queries > 32


def test_without_a_budget_the_count_is_the_same():
    with serving(reply) as service:
        found = run(service, seeds=20, local=5, samples=300)
        assert found.queries == service.asked > 600
    keys = [json.dumps(one, sort_keys=True) for request in service.requests for one in request]
    # Known answers are not asked for again, except to see whether they repeat.
    again = [found.noise, found.noise_test, *(rate.repeats for rate in found.rates)]
    assert len(keys) == len(set(keys)) + sum(check.queries for check in again if check is not None)


def test_further_tries_are_paid_for():
    with serving(reply, first=[(503, {}), DROP]) as service:
        found = run(service, budget=200)
        assert found.queries == service.asked <= 200
        assert len(service.requests[0]) == len(service.requests[2])


def test_a_budget_that_does_not_pay_for_trying_the_model_says_so():
    with serving(reply) as service:
        with pytest.raises(BudgetError, match=r"budget of 20 rows is spent: 0 have been queried, .* needs 31"):
            run(service, budget=20)
        assert service.asked == 0


class Counting:
    """A function that a search calls with frames."""

    def __init__(self):
        self.rows, self.people = 0, []

    def __call__(self, frame):
        self.rows += len(frame)
        self.people += frame.astype(str).agg("|".join, axis=1).tolist()
        return np.array(reply(frame.to_dict("records"))["predictions"])


@pytest.mark.parametrize("budget", [None, 700])
def test_a_function_is_asked_once_for_scores_and_labels(budget):
    model = Counting()
    found = search.search(model, people(100, 0), budget=budget, samples=0, seeds=20, local=10)
    assert found.queries == model.rows
    assert budget is None or model.rows <= budget
    # The first 32 try the model; the next were asked about twice to see whether answers repeat.
    searched = model.people[32 + found.noise.people + found.noise.queries : -found.noise_test.queries]
    assert len(set(searched)) == len(searched)
