"""A screening file as a model of rows and of texts: scores are shares of answers or chances, never one noisy answer."""

from contextlib import ExitStack

import numpy as np
import pytest
import yaml

from evenhand.errors import BudgetError, ModelError
from evenhand.llm.scorer import LanguageScorer
from evenhand.models import load_model, load_text_model
from evenhand.models.noise import check_noise
from evenhand.models.replies import find_ledger
from evenhand.schema import Schema
from evenhand.subgroups.text.analysis import find_text_subgroups
from fake_chat import RecordingChat, chance_by_words
from llm.screening import screening

SCHEMA = Schema.model_validate(
    {
        "target": {"name": "invited", "favourable": "yes", "values": ["no", "yes"]},
        "attributes": [
            {"name": "name", "kind": "categorical", "values": ["Emily", "Lakisha"], "protected": True},
            {"name": "years", "kind": "integer", "lower": 0, "upper": 9},
        ],
    }
)
CHANCES = chance_by_words(0.6, {"Lakisha": -2.0})
ROWS = np.array([[name, years] for name in (0.0, 1.0) for years in range(10)])


@pytest.fixture
def write(tmp_path):
    def _write(url, **changes):
        found = screening(url, **changes).model_dump(mode="json", exclude_none=True)
        path = tmp_path / "screening.yaml"
        path.write_text(yaml.safe_dump(found, sort_keys=False), "utf-8")
        return path

    return _write


@pytest.fixture
def load():
    """Load scorers, and close them after the test."""
    with ExitStack() as opened:

        def _load(path):
            found = load_model(path, SCHEMA)
            assert isinstance(found, LanguageScorer)
            opened.callback(found.asker.model.close)
            return found

        yield _load


def test_retries_that_may_be_charged_are_paid_from_the_ledger(write, load):
    faults = {2: 500, 3: "truncated", 4: 504, 5: 429}
    with RecordingChat(CHANCES, faults=faults) as chat:
        scorer = load(write(chat.url, asks=8))
        scorer.scores(ROWS[:1])
        assert find_ledger(scorer).sent == 8 + 2  # the truncated answer, and that behind a gateway that stopped waiting
    with RecordingChat(CHANCES, faults=dict.fromkeys(range(1, 99), "truncated")) as chat:
        scorer = load(write(chat.url, asks=8))
        find_ledger(scorer).budget = 10
        with pytest.raises(BudgetError):
            scorer.scores(ROWS[:1])
        assert len(chat.received) <= 10


def test_a_score_is_the_mean_of_several_answers(write, load):
    with RecordingChat(CHANCES) as chat:
        scorer = load(write(chat.url, asks=8))
        about = scorer.name, scorer.classes, scorer.favourable, chat.received
        assert about == ("screening.yaml", ("no", "yes"), 1, [])
        scores = scorer.scores(ROWS)
        assert len(chat.paid) == len(set(chat.paid)) == find_ledger(scorer).sent == 160
        assert np.array_equal(scores[:, 1] * 8, np.round(scores[:, 1] * 8))
        assert scores[:10, 1].mean() == pytest.approx(0.6, abs=0.12)
        assert scores[10:, 1].mean() == pytest.approx(0.17, abs=0.12)
        assert np.array_equal(scorer.predict(ROWS), (scores[:, 1] > 0.5).astype(int))
        assert len(chat.paid) == 160  # nobody is asked about twice
        again = scorer.reply_again(ROWS).scores
        assert len(set(chat.paid)) == 320
        assert not np.array_equal(again, scores)


def test_where_chances_are_read_one_answer_is_enough(write, load):
    answers = {"choices": ["yes", "no"], "favourable": "yes", "read": "logprobs"}
    with RecordingChat(CHANCES) as chat:
        scorer = load(write(chat.url, answers=answers))
        scores = scorer.scores(ROWS)
        assert scores[:10, 1] == pytest.approx(0.6)
        assert scores[10:, 1] == pytest.approx(CHANCES("Lakisha"))
        assert len(chat.paid) == 20
        assert check_noise(scorer, ROWS) is None


def test_an_own_noise_is_measured(write, load):
    with RecordingChat(0.5) as chat:
        scorer = load(write(chat.url, asks=1))
        check = check_noise(scorer, ROWS)
        assert 0.2 < check.rate.value < 0.8


def test_answers_without_a_choice_count_as_the_file_says(write, load):
    with RecordingChat(1.0, refusals=0.5) as chat:
        scorer = load(write(chat.url, asks=10, refused="unfavourable"))
        assert scorer.scores(ROWS)[:, 1].mean() == pytest.approx(0.5, abs=0.15)
        scorer = load(write(chat.url, asks=10, refused="excluded"))
        assert scorer.scores(ROWS)[:, 1].tolist() == [1.0] * 20
        chat.refusals = 1.0
        scorer = load(write(chat.url, refused="excluded"))
        with pytest.raises(ModelError, match=r"no answer to a prompt can be read.*refused"):
            scorer.scores(ROWS)


@pytest.mark.parametrize(("favourable", "share"), [(None, 0.8), ("low", 0.2)])
def test_numbers_are_scaled_by_their_range(favourable, share, write, load):
    answers = {"read": "number", "range": [1, 6]} | ({"favourable": favourable} if favourable else {})
    with RecordingChat({"5": 1.0}) as chat:
        scorer = load(write(chat.url, answers=answers, asks=1))
        assert scorer.scores(ROWS[:2])[:, 1].tolist() == pytest.approx([share] * 2)


def test_budgets_of_the_file_and_of_the_analysis_hold(write, load):
    with RecordingChat() as chat:
        scorer = load(write(chat.url, asks=2, plan={"at_once": 2, "calls": 9}))
        with pytest.raises(BudgetError, match="limit of 9 calls"):
            scorer.scores(ROWS)
        assert len(chat.paid) == 9
        scorer = load(write(chat.url, asks=2))
        find_ledger(scorer).budget = 39
        with pytest.raises(BudgetError, match="budget of 39"):
            scorer.scores(ROWS)
        assert len(chat.paid) == 9


def test_what_is_no_model_of_one_person_is_refused(write):
    path = write("http://127.0.0.1:9/v1", answers={"read": "ranking", "candidates": 3})
    with pytest.raises(ModelError, match="a ranking compares people"):
        load_model(path, SCHEMA)
    with pytest.raises(ModelError, match="a ranking compares people"):
        load_text_model(path)
    grades = {"name": "grade", "favourable": "a", "values": ["a", "b", "c"]}
    three = Schema.model_validate({**SCHEMA.model_dump(), "target": grades})
    with pytest.raises(ModelError, match="has 3 labels"):
        load_model(write("http://127.0.0.1:9/v1"), three)


def test_texts_are_asked_about(write):
    with RecordingChat(CHANCES) as chat:
        model = load_text_model(write(chat.url, prompt="{{ text }} Invite? Answer yes or no.", asks=10))
        assert (model.classes, model.can_vary, model.batch) == (("no", "yes"), True, 256)
        first = model.replies(["Emily"] * 1 + ["Lakisha"])
        again = model.replies(["Emily", "Lakisha"])
        assert first[0] > first[1]
        assert len(set(chat.paid)) == model.ledger.sent == 40
        assert not np.array_equal(first, again)
        model.ask.__self__.model.close()


def test_subgroups_of_texts_stop_at_the_limit_of_calls(write):
    with RecordingChat(chance_by_words(0.9, {"women": -6.0})) as chat:
        texts = [f"{n} {who} wrote." for n in range(20) for who in ("women", "men")]
        model = load_text_model(write(chat.url, prompt="{{ text }} Answer yes or no.", asks=1, plan={"calls": 30}))
        assert "search was stopped" in str(find_text_subgroups(model, texts, protected=["gender"]))
        assert len(chat.paid) == 30
        model.ask.__self__.model.close()
