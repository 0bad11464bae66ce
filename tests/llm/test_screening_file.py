"""The file of a language model that decides: read strictly, and every fault is one clear error."""

import pytest
import yaml

from evenhand.errors import EvenhandError, OptionError
from evenhand.llm import LanguageModel, ScreeningFile, read_screening_file
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
