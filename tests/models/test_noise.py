"""Models asked twice: noise is seen past caches, and a model that repeats itself is left as it was."""

import numpy as np
import pandas as pd
import pytest
from applicants import FRAME, NAMES, PEOPLE, WORDS, pipeline
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import evenhand
from evenhand.core.time_limit import TimeLimit
from evenhand.errors import ModelError
from evenhand.mitigation.training.blind import BlindModel
from evenhand.models import load_model, predict_labels
from evenhand.models.additive.network import network_from_dense
from evenhand.models.blackbox.function import remember_answers
from evenhand.models.noise import CHECKED, FreshScorer, ask_again, check_noise, majority, repeat_questions
from evenhand.models.thresholds import ThresholdScorer
from evenhand.schema.thresholds import Threshold
from serving import serving


def coin(seed=0):
    """Return a model that tosses a fair coin for each answer."""
    rng = np.random.default_rng(seed)
    return lambda people: np.where(rng.random(len(people)) < 0.5, "yes", "no")


def test_a_fair_coin_changes_its_mind_for_half_of_the_people():
    model = load_model(coin(), WORDS)
    check = check_noise(model, np.repeat(PEOPLE, 50, axis=0))
    assert check.noisy
    assert (check.people, check.queries) == (CHECKED, CHECKED)
    assert check.rate.low <= 0.5 <= check.rate.high
    assert f"its decision for {check.changed}" in check.caution("").text


def test_noise_behind_http_is_seen_past_the_answers_that_are_kept():
    answer = coin(1)
    with serving(lambda people: {"predictions": answer(people).tolist()}) as service:
        model = load_model(service.url, WORDS)
        first = predict_labels(model, PEOPLE)
        np.testing.assert_array_equal(predict_labels(model, PEOPLE), first)  # kept
        before = service.asked
        check = check_noise(model, PEOPLE)
        assert check.noisy
        assert service.asked - before == check.queries == len(PEOPLE)
        fresh = FreshScorer(model, answers=3)
        assert (fresh.predict(PEOPLE) != first).any()
        assert service.asked - before == 4 * len(PEOPLE)
        model.model.close()


def test_numbers_repeated_by_position_are_noise_too():
    """A generator seeded in every call gives the same answers to the same batch, whoever is in it."""
    model = load_model(lambda people: coin(7)(people), WORDS)
    people = np.repeat(PEOPLE, 20, axis=0)
    np.testing.assert_array_equal(model.predict(people), model.predict(people))
    assert check_noise(model, people).noisy


def test_models_that_repeat_themselves():
    fitted = pipeline(LogisticRegression())
    assert check_noise(load_model(fitted, WORDS, like=FRAME[NAMES]), PEOPLE) is None
    check = check_noise(load_model(fitted.predict, WORDS, like=FRAME[NAMES]), PEOPLE)
    assert not check.noisy
    assert check.people == len(PEOPLE)
    assert check.rate.value == 0
    white_box = network_from_dense(WORDS, [(np.ones((WORDS.width, 1)), np.zeros(1))])
    assert check_noise(white_box, PEOPLE) is None


def test_an_estimator_with_a_part_of_your_own_is_asked_twice():
    class Moody(LogisticRegression):
        def predict(self, people):
            return np.where(rng.random(len(people)) < 0.5, "yes", "no")

    rng = np.random.default_rng(0)
    assert check_noise(load_model(pipeline(Moody()), WORDS, like=FRAME[NAMES]), PEOPLE).noisy


def test_no_further_batch_after_the_time_limit():
    check = check_noise(load_model(coin(), WORDS), np.repeat(PEOPLE, 50, axis=0), limit=TimeLimit.after(0.0))
    assert check.people == 20


@given(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=5))
def test_the_majority_decides_and_the_earliest_answer_on_a_tie(rows):
    expected = [max(row, key=lambda label: (row.count(label), -row.index(label))) for row in rows]
    labels = np.array(rows)
    assert majority(labels, (labels[:, :, None] == np.arange(3)).sum(axis=1)).tolist() == expected


def test_scores_of_several_answers_are_averaged():
    """Three answers each: 0.2, 0.4 and 0.9 about the first person, 0.8, 0.6 and 0.1 about the second."""
    scores = [0.2, 0.4, 0.9, 0.8, 0.6, 0.1]
    model = load_model(lambda people: np.resize(scores, len(people)), WORDS)
    reply = repeat_questions(model, PEOPLE[:2], 3)
    np.testing.assert_allclose(reply.scores[:, 1], [0.5, 0.5])
    assert reply.labels.tolist() == FreshScorer(model, answers=3).predict(PEOPLE[:2]).tolist() == [0, 1]


def test_repeated_queries_keep_the_threshold():
    """The scores are 0.4, 0.9 and 0.9: at 0.5, the majority is favourable about both people."""
    scores = [0.4, 0.9, 0.9, 0.6, 0.7, 0.8]
    model = load_model(lambda people: np.resize(scores, len(people)), WORDS)
    strict = ThresholdScorer(model, Threshold(value=0.85))
    assert repeat_questions(model, PEOPLE[:2], 3).labels.tolist() == [1, 1]
    assert repeat_questions(strict, PEOPLE[:2], 3).labels.tolist() == [1, 0]
    assert repeat_questions(remember_answers(strict), PEOPLE[:2], 3).labels.tolist() == [1, 0]
    assert FreshScorer(strict, answers=3).predict(PEOPLE[:2]).tolist() == [1, 0]
    remembering = ThresholdScorer(remember_answers(model), Threshold(value=0.85))
    remembering.predict(PEOPLE[:6])
    scores[:] = [0.1] * 6
    assert ask_again(remembering, PEOPLE[:6]).labels.tolist() == [0] * 6, "answered without the cache"


def test_repeated_queries_of_a_blind_model_are_blind():
    own = load_model(lambda people: np.where(people["sex"] == "Male", "yes", "no"), WORDS, like=FRAME[NAMES])
    blind = BlindModel(own, (NAMES.index("sex"),), np.zeros(1))
    assert set(own.predict(PEOPLE)) == {0, 1}
    assert FreshScorer(blind, answers=2).predict(PEOPLE).tolist() == [0] * len(PEOPLE)


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.8])
def test_a_deterministic_model_with_a_threshold_is_not_noisy(threshold):
    people = FRAME.assign(income=FRAME["income"].round())
    fitted = pipeline(LogisticRegression())
    own = load_model(lambda rows: fitted.predict_proba(rows)[:, 1], WORDS, like=people[NAMES], output="probability")
    assert not check_noise(ThresholdScorer(own, Threshold(value=threshold)), PEOPLE).noisy
    audit = evenhand.audit(
        lambda rows: fitted.predict_proba(rows)[:, 1],
        FRAME,
        target="granted",
        protected=["sex"],
        output="probability",
        threshold=threshold,
        searched=100,
    )
    found = fitted.predict_proba(FRAME[NAMES])[:, 1] >= threshold
    other = FRAME[NAMES].assign(sex=FRAME["sex"].map({"Female": "Male", "Male": "Female"}))
    flips = np.mean(found != (fitted.predict_proba(other)[:, 1] >= threshold))
    numbers = {number.name: number.quantity for number in audit.numbers()}
    assert not audit.individual.noise.noisy
    assert numbers["flip_rate"].low <= flips <= numbers["flip_rate"].high


def test_a_noisy_function_of_a_frame_is_accepted_and_a_misread_one_is_not():
    """The check that a schema shows the model the people in the data must not take noise for a misread value."""
    frame = pd.concat([FRAME[NAMES]] * 100, ignore_index=True)
    assert load_model(coin(), WORDS, like=frame).name
    rng = np.random.default_rng(0)
    spaced = frame.assign(**{"home-town": " " + frame["home-town"].astype(str)})

    def strict(people):
        known = people["home-town"].astype(str).str.startswith(" ")
        return np.where(known ^ (rng.random(len(people)) < 0.1), "yes", "no")

    with pytest.raises(ModelError, match="encoding by the schema changes the decision"):
        load_model(strict, WORDS, like=spaced)
