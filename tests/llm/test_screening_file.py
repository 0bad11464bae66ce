"""Screening files, the scorers that they describe, and their prompts."""

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import yaml

from evenhand.datasets import load_name_list
from evenhand.errors import BudgetError, EvenhandError, ModelError, OptionError
from evenhand.llm import LanguageModel, ScreeningFile, read_screening_file
from evenhand.llm.prompts import MAX_PROMPT, compile_template, plain_row
from evenhand.llm.scorer import LanguageScorer
from evenhand.models import load_model, load_text_model
from evenhand.models.noise import check_noise
from evenhand.models.replies import find_ledger
from evenhand.schema import Schema
from evenhand.subgroups.text.analysis import find_text_subgroups
from fake_chat import RecordingChat, chance_by_words
from llm.screening import screening
from support import ROOT

WHOLE = {
    "service": {"url": "http://127.0.0.1:8000/v1", "model": "m", "key": "API_KEY", "options": {"max_tokens": 8}},
    "system": "You screen CVs for {{ job }}.",
    "prompt": "{{ person.first }}: {{ years }} years.\nAnswer yes or no.",
    "answers": {"choices": ["yes", "no"], "favourable": "yes"},
    "refused": "excluded",
    "people": {"names": "names.yaml", "compare": [["white woman", "black woman"]]},
    "plan": {"half_width": 0.04, "calls": 6000, "money": 5.0, "price": [0.15, 0.6], "at_once": 8, "seeds": "none"},
    "asks": 3,
}


def write(folder, **changes):
    """Write the file with some entries changed; those of None are left out, ``a__b`` is entry b of a."""
    found = {name: dict(value) if isinstance(value, dict) else value for name, value in WHOLE.items()}
    for name, value in changes.items():
        outer, _, inner = name.partition("__")
        place, last = (found[outer], inner) if inner else (found, outer)
        if value is None:
            del place[last]
        else:
            place[last] = value
    path = folder / "screening.yaml"
    path.write_text(yaml.safe_dump(found, sort_keys=False), "utf-8")
    return path


def test_a_file_is_what_it_says(tmp_path):
    file = read_screening_file(write(tmp_path))
    assert (file.service.model, file.service.most_tokens, file.answers.favourable) == ("m", 8, "yes")
    assert (file.plan.price, file.plan.at_once, file.asks, file.refused) == ((0.15, 0.6), 8, 3, "excluded")
    assert (file.name, file.outcome, file.kept_answers) == ("screening.yaml", "rate", None)
    assert file.people == WHOLE["people"]


def test_the_example_of_the_reference_is_one(tmp_path):
    page = (ROOT / "docs" / "reference" / "language-models.md").read_text("utf-8")
    (tmp_path / "screening.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0], "utf-8")
    file = read_screening_file(tmp_path / "screening.yaml")
    assert (file.service.key, file.plan.money, file.refused) == ("API_KEY", 5.0, "unfavourable")


def test_words_stay_words(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "service: {url: http://127.0.0.1/v1, model: m}\nprompt: x\nanswers: {choices: [yes, no], favourable: no}\n"
    )
    assert read_screening_file(path).answers.favourable == "no"


@pytest.mark.parametrize(
    ("changes", "place", "fault"),
    [
        ({"service": None}, "", "`service` is missing"),
        ({"prompt": None}, "", "`prompt` is missing"),
        ({"promt": "x"}, "", "no entry 'promt'"),
        ({"path": "x"}, "", "no entry 'path'"),
        ({"service__url": "ftp://x"}, "url", "begins with http"),
        ({"service__url": "http://me:secret@x/v1"}, "url", "must contain only host"),
        ({"service__key": "sk-secret"}, "key", "not the name of an environment variable"),
        ({"service__timeout": 0}, "service.timeout", "expected a"),
        ({"service__options": {"seed": 1}}, "options", "'seed' is set by"),
        ({"service__options": {"stream": True}}, "options", "'stream' is set by"),
        ({"answers": {"read": "text"}}, "answers", "`choices` is missing"),
        ({"answers__choices": ["yes"]}, "answers.choices", "two choices"),
        ({"answers__choices": ["yes", "Yes"]}, "answers.choices", "more than case"),
        ({"answers__choices": ["not yet", "not  yet", "yes"]}, "answers.choices", "more than case"),
        ({"answers__choices": [1, 2]}, "answers.choices", "expected text"),
        ({"answers__favourable": None}, "answers.favourable", "`favourable` is missing"),
        ({"answers__favourable": "maybe"}, "answers.favourable", "'maybe' is not a choice"),
        ({"answers__read": "words"}, "answers.read", "got 'words'"),
        ({"answers__range": [0, 10]}, "answers", "`range` is not used"),
        ({"answers": {"read": "number"}}, "answers", "`range` is missing"),
        ({"answers": {"read": "number", "range": [5, 5]}}, "answers.range", "a minimum below its maximum"),
        ({"answers": {"read": "number", "range": [0, 5], "favourable": "yes"}}, "answers.favourable", "high or low"),
        ({"answers": {"read": "ranking"}}, "answers", "`candidates` is missing"),
        ({"answers": {"read": "ranking", "candidates": 1}}, "answers.candidates", "got 1"),
        ({"answers__read": "logprobs", "answers__choices": ["no", "none", "yes"]}, "answers.choices", "may begin with"),
        ({"refused": "ignored"}, "refused", "got 'ignored'"),
        ({"plan__calls": 0}, "plan.calls", "got 0"),
        ({"plan__at_once": 1000}, "plan.at_once", "expected a"),
        ({"plan__price": None}, "plan.price", "requires prices"),
        ({"plan__price": [-1, 1]}, "plan.price", "negative"),
        ({"plan__price": [float("inf"), 1]}, "plan.price", "not finite"),
        ({"answers": {"read": "number", "range": [0, float("inf")]}}, "answers.range", "a minimum below its maximum"),
        ({"plan__budget": 1}, "plan", "no entry 'budget'"),
        ({"service__options": {"max_tokens": "many"}}, "service.options", "requires a limit on tokens"),
        ({"consensus": 3, "answers": {"read": "number", "range": [0, 5]}}, "consensus", "majority requires choices"),
        ({"prompt": "{{ a"}, "prompt", "not a template"),
        ({"system": "{% include 'x' %}"}, "system", "but no Include"),
    ],
)
def test_a_fault_is_one_clear_error(changes, place, fault, tmp_path):
    path = write(tmp_path, **changes)
    with pytest.raises(OptionError) as raised:
        read_screening_file(path)
    assert fault in raised.value.message
    assert str(raised.value.location).startswith(f"{path}, {place}" if place else str(path))
    assert raised.value.hint or "secret" not in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "Value error" not in str(raised.value)


def test_limits_given_by_a_command_are_checked_like_those_of_the_file(tmp_path):
    file = read_screening_file(write(tmp_path, plan=None))
    with LanguageModel.of(file, calls=7, at_once=2) as model:
        assert (model.file.plan.calls, model.file.plan.at_once, model.file.path) == (7, 2, file.path)
    with pytest.raises((EvenhandError, ValueError), match="requires prices"):
        LanguageModel.of(file, money=1.0)


def test_a_file_can_be_made_in_python():
    file = ScreeningFile.model_validate({name: WHOLE[name] for name in ("service", "prompt", "answers")})
    assert (file.name, file.path) == ("m", None)


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
def scorer_write(tmp_path):
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


def test_retries_that_may_be_charged_are_paid_from_the_ledger(scorer_write, load):
    faults = {2: 500, 3: "truncated", 4: 504, 5: 429}
    with RecordingChat(CHANCES, faults=faults) as chat:
        scorer = load(scorer_write(chat.url, asks=8))
        scorer.scores(ROWS[:1])
        assert find_ledger(scorer).sent == 8 + 2  # the truncated answer, and that behind a gateway that stopped waiting
    with RecordingChat(CHANCES, faults=dict.fromkeys(range(1, 99), "truncated")) as chat:
        scorer = load(scorer_write(chat.url, asks=8))
        find_ledger(scorer).budget = 10
        with pytest.raises(BudgetError):
            scorer.scores(ROWS[:1])
        assert len(chat.received) <= 10


def test_a_score_is_the_mean_of_several_answers(scorer_write, load):
    with RecordingChat(CHANCES) as chat:
        scorer = load(scorer_write(chat.url, asks=8))
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


def test_where_chances_are_read_one_answer_is_enough(scorer_write, load):
    answers = {"choices": ["yes", "no"], "favourable": "yes", "read": "logprobs"}
    with RecordingChat(CHANCES) as chat:
        scorer = load(scorer_write(chat.url, answers=answers))
        scores = scorer.scores(ROWS)
        assert scores[:10, 1] == pytest.approx(0.6)
        assert scores[10:, 1] == pytest.approx(CHANCES("Lakisha"))
        assert len(chat.paid) == 20
        assert check_noise(scorer, ROWS) is None


def test_an_own_noise_is_measured(scorer_write, load):
    with RecordingChat(0.5) as chat:
        scorer = load(scorer_write(chat.url, asks=1))
        check = check_noise(scorer, ROWS)
        assert 0.2 < check.rate.value < 0.8


def test_answers_without_a_choice_count_as_the_file_says(scorer_write, load):
    with RecordingChat(1.0, refusals=0.5) as chat:
        scorer = load(scorer_write(chat.url, asks=10, refused="unfavourable"))
        assert scorer.scores(ROWS)[:, 1].mean() == pytest.approx(0.5, abs=0.15)
        scorer = load(scorer_write(chat.url, asks=10, refused="excluded"))
        assert scorer.scores(ROWS)[:, 1].tolist() == [1.0] * 20
        chat.refusals = 1.0
        scorer = load(scorer_write(chat.url, refused="excluded"))
        with pytest.raises(ModelError, match=r"no answer to a prompt can be read.*refused"):
            scorer.scores(ROWS)


@pytest.mark.parametrize(("favourable", "share"), [(None, 0.8), ("low", 0.2)])
def test_numbers_are_scaled_by_their_range(favourable, share, scorer_write, load):
    answers = {"read": "number", "range": [1, 6]} | ({"favourable": favourable} if favourable else {})
    with RecordingChat({"5": 1.0}) as chat:
        scorer = load(scorer_write(chat.url, answers=answers, asks=1))
        assert scorer.scores(ROWS[:2])[:, 1].tolist() == pytest.approx([share] * 2)


def test_budgets_of_the_file_and_of_the_analysis_hold(scorer_write, load):
    with RecordingChat() as chat:
        scorer = load(scorer_write(chat.url, asks=2, plan={"at_once": 2, "calls": 9}))
        with pytest.raises(BudgetError, match="limit of 9 calls"):
            scorer.scores(ROWS)
        assert len(chat.paid) == 9
        scorer = load(scorer_write(chat.url, asks=2))
        find_ledger(scorer).budget = 39
        with pytest.raises(BudgetError, match="budget of 39"):
            scorer.scores(ROWS)
        assert len(chat.paid) == 9


def test_what_is_no_model_of_one_person_is_refused(scorer_write):
    path = scorer_write("http://127.0.0.1:9/v1", answers={"read": "ranking", "candidates": 3})
    with pytest.raises(ModelError, match="a ranking compares people"):
        load_model(path, SCHEMA)
    with pytest.raises(ModelError, match="a ranking compares people"):
        load_text_model(path)
    grades = {"name": "grade", "favourable": "a", "values": ["a", "b", "c"]}
    three = Schema.model_validate({**SCHEMA.model_dump(), "target": grades})
    with pytest.raises(ModelError, match="has 3 labels"):
        load_model(scorer_write("http://127.0.0.1:9/v1"), three)


def test_texts_are_asked_about(scorer_write):
    with RecordingChat(CHANCES) as chat:
        model = load_text_model(scorer_write(chat.url, prompt="{{ text }} Invite? Answer yes or no.", asks=10))
        assert (model.classes, model.can_vary, model.batch) == (("no", "yes"), True, 256)
        first = model.replies(["Emily"] * 1 + ["Lakisha"])
        again = model.replies(["Emily", "Lakisha"])
        assert first[0] > first[1]
        assert len(set(chat.paid)) == model.ledger.sent == 40
        assert not np.array_equal(first, again)
        model.ask.__self__.model.close()


def test_subgroups_of_texts_stop_at_the_limit_of_calls(scorer_write):
    with RecordingChat(chance_by_words(0.9, {"women": -6.0})) as chat:
        texts = [f"{n} {who} wrote." for n in range(20) for who in ("women", "men")]
        model = load_text_model(
            scorer_write(chat.url, prompt="{{ text }} Answer yes or no.", asks=1, plan={"calls": 30})
        )
        assert "search was stopped" in str(find_text_subgroups(model, texts, protected=["gender"]))
        assert len(chat.paid) == 30
        model.ask.__self__.model.close()


@dataclass(frozen=True)
class Somebody:
    first: str = "Emily"

    def word(self, name):
        return f"the {name}"


def render(source, **values):
    return compile_template(source, "prompt")(values)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{{ person.first }}: {{ years }} years as {{ trade }}.", "Emily: 3 years as welder."),
        ("{{ person.word('club') }}", "the club"),
        ("{% if years > 2 %}senior{% else %}junior{% endif %}", "senior"),
        ("{{ 'senior' if years > 2 else 'junior' }}", "senior"),
        ("{% for skill in skills %}{{ loop.index }}. {{ skill|title }}\n{% endfor %}", "1. Tig\n2. Mig\n"),
        ("{{ trade|upper }} {{ trade.title() }} {{ years * 12 }}", "WELDER Welder 36"),
        ("{{ gone }} {{ half }} {{ nan }}", "unknown 2.5 unknown"),
        ("{# a remark #}{{ skills|length }}", "2"),
    ],
)
def test_what_a_template_shows(source, shown):
    values = {"years": 3.0, "trade": "welder", "skills": ["tig", "mig"], "gone": None, "half": 2.5, "nan": float("nan")}
    assert render(source, person=Somebody(), **values) == shown


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(OptionError, match="'yeers' is undefined") as raised:
        render("{{ yeers }}", years=1, trade="welder")
    assert raised.value.hint == "available: trade, years"


@pytest.mark.parametrize(
    "source",
    [
        "{{ person.__class__.__mro__ }}",
        "{{ person.word.__globals__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ person['__class__'] }}{{ person['__init__'].__globals__ }}",
        "{{ ('x' ~ 'y').format(person) }}",
        "{{ '{0.__class__}'.format(person) }}",
        "{{ person|attr('__class__') }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self.__init__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% for a in range(10**9) %}{% endfor %}",
        "{% for a in text %}{% for b in text %}{% endfor %}{% endfor %}",
        "{% for a in [[1]] recursive %}{{ loop(a) }}{% endfor %}",
        "{% for a in text if loop(text) %}{% endfor %}",
        "{% set a = text %}{% set a = a ~ a %}",
        "{% with a = text ~ text %}{% endwith %}",
        "{{ 'a' * 10**10 }}",
        "{{ [0] * 1000000000 }}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'a'|center(1000000000) }}",
        "{{ 'a'.center(1000000000) }}",
        "{{ text|replace('a', text) }}",
        "{{ text|join(text) }}",
        "{{ lipsum(n=1000000) }}",
        "{{ namespace(a=1) }}",
        "{% filter upper %}x{% endfilter %}",
        "{% call person.word() %}{% endcall %}",
        "{% block a %}{% endblock %}",
        "{{ text.encode() }}",
        "{{ years.real.__class__ }}",
        "{{ 1 / 0 }}",
        "{{ items.append(1) }}",
        "(" * 5000 + "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    ],
)
def test_a_hostile_template_is_contained(source):
    items = [1, 2]
    with pytest.raises(OptionError):
        render(source, person=Somebody(), text="a" * 10_000, years=3, items=items)
    assert items == [1, 2]


def test_a_prompt_has_a_limit_of_size():
    with pytest.raises(OptionError, match="at most 1,000,000 characters"):
        render("{% for a in text %}{{ text }}{% endfor %}", text="a" * 100_000)
    with pytest.raises(OptionError, match="a template may have at most"):
        render("a" * 200_001)
    assert len(render("{{ text }}", text="a" * MAX_PROMPT)) == MAX_PROMPT


def test_what_is_in_a_value_is_not_run():
    assert render("{{ text }}", text="{{ 7 * 7 }} <b>") == "{{ 7 * 7 }} <b>"


def test_rows_are_of_python():
    row = plain_row({"a": np.float64(2.0), "b": np.int64(3), 5: "x", "gone": pd.NA, "late": pd.NaT, "none": np.nan})
    assert row == {"a": 2.0, "b": 3, "5": "x", "gone": None, "late": None, "none": None}
    assert [type(value) for value in row.values()][:3] == [float, int, str]


def test_a_person_is_shown_by_name_alone():
    person = load_name_list("us-names").people[0]
    assert render("{{ person }}", person=person) == person.name


@pytest.mark.parametrize("source", ["{years}", "after { years }, {{ years }}", "{Years}", "{person.name}"])
def test_a_name_in_single_braces_is_refused(source):
    with pytest.raises(OptionError):
        render(source, years=4, person=Somebody())


@pytest.mark.parametrize("source", ['{"years": "yes"}', "{other}", "{{ '{years}' }}", "{}", "{ 'years' }"])
def test_other_braces_are_text(source):
    assert "{" in render(source, years=4)


def test_cells_of_words_are_shown_as_they_are():
    row = plain_row({"zip": "02134", "gpa": "3.10", "phone": "+491701234567", "country": "NA", "whole": 1.0})
    source = "{{ zip }} {{ gpa }} {{ phone }} {{ country }} {{ whole }}"
    assert compile_template(source, "prompt")(row) == "02134 3.10 +491701234567 NA 1"
