"""Judges of prompts, instructions and classifiers of items."""

from itertools import product
from typing import Any

import pytest
from genai_reference import read_config
from hypothesis import given
from hypothesis import strategies as st

from evenhand import genai
from evenhand.errors import DataError, ModelError, OptionError
from evenhand.genai import Enforcer, FunctionClassifier, FunctionJudge, Guard, Item, KeywordJudge, LexiconClassifier
from evenhand.genai.backends import pictures
from evenhand.genai.backends.studio import COLOURS, GROUPS, Studio, StudioPixels
from evenhand.genai.enforcement.instructions import InstructionWriter, clean_item


def _configuration(**leader: object) -> genai.GenerationConfig:
    demand = {"group": "age", "values": ["young", "old"], "repeated": 4}
    conditions = [{"name": "leader", **leader}, {"name": "poor", "keywords": ["poor", "in poverty"]}]
    return read_config({}, *[{"condition": name, **demand} for name in ("leader", "poor")], conditions=conditions)


@pytest.mark.parametrize(
    ("prompt", "held"),
    [
        ("a successful Business\n leader", {"leader"}),
        ("somebody in  poverty, and a CEO", {"leader", "poor"}),
        ("a poorly lit leaderboard", set()),
        ("", set()),
    ],
)
def test_keywords_of_a_configuration_are_whole_words(prompt: str, held: set[str]) -> None:
    configuration = _configuration(keywords=["business leader", "CEO"])
    judged = KeywordJudge.of(configuration).conditions(prompt)
    assert judged == held
    assert len(Enforcer(configuration, seed=0).admit(judged).counts) == len(held)


HIDDEN = st.sampled_from("\u00ad\u200b\u200c\u200d\u2060\ufeff\u034f\ufe0f\u202e\U000e0061\x00\u0332\u0336\u0301")


@given(st.data())
def test_a_keyword_that_readers_see_is_found(data: st.DataObject) -> None:
    letters = list(data.draw(st.sampled_from(["leader", "Chief Executive", "CEO"])))
    for k in data.draw(st.sets(st.integers(1, len(letters)))):
        letters[k - 1] += data.draw(HIDDEN)
    style = data.draw(st.sampled_from([str, str.upper, str.title, _full_width, _bold]))
    before, after = data.draw(st.tuples(*[st.sampled_from([" ", "\u201c", "_", "(", "\n", "**", "-"])] * 2))
    prompt = f"x{before}{style(''.join(letters))}{after}x"
    judge = KeywordJudge({"leader": ["leader", "chief executive", "CEO"]})
    assert judge.conditions(prompt) == {"leader"}, ascii(prompt)


def _full_width(text: str) -> str:
    return "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in text)


def _bold(text: str) -> str:
    return "".join(
        chr(0x1D400 + ord(letter) - ord("A"))
        if "A" <= letter <= "Z"
        else chr(0x1D41A + ord(letter) - ord("a"))
        if "a" <= letter <= "z"
        else letter
        for letter in text
    )


@pytest.mark.parametrize(
    ("keyword", "prompt", "held"),
    [
        ("leader", "two leaders", True),
        ("leader", "the leaders' table", True),
        ("leader", "leadership of leaderboards", False),
        ("secretary", "Secretaries", True),
        ("boy", "boys", True),
        ("policeman", "policemen", True),
        ("person", "old people", True),
        ("child", "children", True),
        ("wife", "wives", True),
        ("chief executive", "chief-executives", True),
        ("he", "hes", False),
        ("año", "el ano", False),
        ("año", "el an\u0303o", True),
        ("Straße", "STRASSE", True),
        ("women's wear", "women\u2019s wear", True),
        ("co-founder", "a co\u2011founder", True),
    ],
)
def test_forms_of_keywords(keyword: str, prompt: str, held: bool) -> None:
    assert bool(KeywordJudge({"it": [keyword]}).conditions(prompt)) is held
    assert bool(KeywordJudge({"it": ["x"]}, {"group": {"value": [keyword]}}).fixed_groups(prompt)) is held


def test_a_condition_that_nothing_tells_is_refused() -> None:
    with pytest.raises(OptionError, match="the keywords of 'leader' are missing"):
        KeywordJudge.of(_configuration())
    with pytest.raises(OptionError, match="expected words to match"):
        KeywordJudge({"leader": [" "]})


def test_functions_judge_and_their_answers_are_checked() -> None:
    judge = FunctionJudge({"long": lambda prompt: len(prompt) > 5, "leader": lambda prompt: "leader" in prompt})
    assert judge.conditions("a leader") == {"long", "leader"}
    assert judge.conditions("a cat") == frozenset()
    with pytest.raises(ModelError, match="'leader' answered 'no'"):
        FunctionJudge({"leader": lambda _: "no"}).conditions("x")


@pytest.mark.parametrize(
    ("prompt", "fixed"),
    [
        ("an OLD leader", {"age"}),
        ("a leader in gold", set()),
        ("a young woman", {"age", "gender"}),
        ("a leader, and some other", set()),  # 'other' is a word like any other
        ("", set()),
    ],
)
def test_values_named_in_a_prompt_fix_their_group(prompt: str, fixed: set[str]) -> None:
    configuration = read_config(
        {"age": ["young", "old", "other"], "gender": ["woman", "man"]},
        {"condition": "leader", "paired": ["age", "gender"], "repeated": 20},
        conditions=[{"name": "leader", "keywords": ["leader"]}],
    )
    assert KeywordJudge.of(configuration).fixed_groups(prompt) == fixed


def test_words_for_values_are_used_instead_of_their_names() -> None:
    configuration = _configuration(keywords=["leader"])
    judge = KeywordJudge.of(configuration, {"age": {"old": ["elderly", "grey haired"]}})
    assert judge.fixed_groups("a grey  haired leader") == {"age"}
    assert judge.fixed_groups("an old leader") == frozenset()
    assert judge.fixed_groups("a young leader") == {"age"}
    with pytest.raises(OptionError, match="no group 'sex'"):
        KeywordJudge.of(configuration, {"sex": {"man": ["he"]}})
    with pytest.raises(OptionError, match="no age 'ancient'"):
        KeywordJudge.of(configuration, {"age": {"ancient": ["ancient"]}})


def test_functions_tell_what_is_fixed() -> None:
    judge = FunctionJudge({}, {"age": lambda prompt: "old" in prompt, "gender": lambda prompt: False})
    assert judge.fixed_groups("an old leader") == {"age"}
    with pytest.raises(ModelError, match="'age' answered None"):
        FunctionJudge({}, {"age": lambda _: None}).fixed_groups("x")


MUST = {"gender": ("woman",)}


def configured(**instruction: Any) -> genai.GenerationConfig:
    groups = {"gender": ["woman", "man"], "age": ["young", "old"]}
    conditions = [{"name": "leader", "keywords": ["leader", "Chef"]}]
    demand = {"condition": "leader", "group": "gender", "repeated": 2}
    return read_config(groups, demand, conditions=conditions, guard={"instruction": instruction})


def writer(**instruction: Any) -> InstructionWriter:
    return InstructionWriter(configured(**instruction).guard.instruction)


@pytest.mark.parametrize(
    ("must", "clause"),
    [
        ({}, ""),
        (MUST, "(showing: gender woman)"),
        ({"age": ("old",), "gender": ("woman", "man")}, "(showing: age old, gender woman or man)"),
    ],
)
def test_writes_the_default_clause(must: dict[str, tuple[str, ...]], clause: str) -> None:
    assert writer()("a leader", must) == f"a leader {clause}".strip()
    assert writer().clause(must) == clause


@pytest.mark.parametrize(
    ("told", "prompt"),
    [
        ({"template": "(showing: {values}) {prompt}"}, "(showing: gender woman) a leader"),
        ({"template": "It shows {values}."}, "a leader It shows gender woman."),
        ({"values": {"gender": {"woman": "a woman"}}}, "a leader (showing: a woman)"),
        ({"part": "{value}"}, "a leader (showing: woman)"),
        ({"template": "{values}: {prompt}, in oil", "part": "{value}"}, "woman: a leader, in oil"),
    ],
)
def test_templates_and_words(told: dict[str, Any], prompt: str) -> None:
    assert writer(**told)("a leader", MUST) == prompt
    assert writer(**told)("a leader", {}) == "a leader"


def test_several_values_and_groups_are_joined_as_told() -> None:
    told = {"either": " oder ", "also": " und ", "values": {"gender": {"woman": "eine Frau", "man": "ein Mann"}}}
    said = writer(**told)("ein Chef", {"gender": ("woman", "man"), "age": ("old",)})
    assert said == "ein Chef (showing: eine Frau oder ein Mann und age old)"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"template": "showing a woman"}, "expected a text with {values}"),
        ({"values": {"hat": {"red": "a red hat"}}}, "there is no group 'hat'"),
        ({"values": {"gender": {"lady": "a lady"}}}, "there is no gender 'lady'"),
        ({"templat": "{values}"}, "templat"),
    ],
)
def test_wordings_that_make_no_sense_are_refused(told: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        configured(**told)
    assert message in str(caught.value)


class Echo:
    """A model that repeats what it was told, and writes of a man."""

    def generate(self, prompt: str) -> Item:
        return Item.of_text(f"{prompt}: he led.")


@pytest.mark.parametrize("told", [{}, {"template": "{values} {prompt}"}, {"template": "[{values}] {prompt} [end]"}])
def test_texts_do_not_carry_the_words_that_were_put_in(told: dict[str, Any]) -> None:
    configuration = configured(**told)
    classifier = LexiconClassifier({"gender": {"woman": ["woman", "she"], "man": ["man", "he"]}, "age": {}})
    parts = (Enforcer(configuration, in_flight=1), Echo(), classifier, KeywordJudge.of(configuration))
    instruct = InstructionWriter(configuration.guard.instruction)
    guard = Guard(*parts, groups=configuration.values, instruct=instruct)
    answers = [guard.answer("a leader") for _ in range(4)]
    assert any(answer.changed for answer in answers)
    for answer in answers:
        assert answer.item is not None
        assert answer.item.text == "a leader: he led."
        # The words that were put in do not count as shown either.
        assert answer.values["gender"] == "man"


def test_only_what_was_put_in_is_taken_out() -> None:
    made = Item.of_text("A woman led. She was showing it.")
    assert clean_item(made, "a leader", "a leader (showing: gender woman)") is made
    assert clean_item(made, "a leader", "a leader") is made
    assert clean_item(made, "a leader", "a woman who leads") is made


def test_every_kind_of_person_that_the_studio_draws_is_recognised_from_the_pixels() -> None:
    studio, classifier = Studio(seed=11), StudioPixels()
    for _ in range(5):
        for values in product(*GROUPS.values()):
            asked = dict(zip(GROUPS, values, strict=True))
            picture = studio.generate(
                InstructionWriter()("a person", {group: (value,) for group, value in asked.items()})
            )
            assert classifier.classify(picture) == asked


def test_where_nobody_was_drawn_nothing_is_recognised() -> None:
    studio, classifier = Studio(seed=12, unrecognised=1.0), StudioPixels()
    for _ in range(50):
        assert set(classifier.classify(studio.generate("a person")).values()) == {None}


def test_it_is_the_pixels_that_are_read() -> None:
    pixels = pictures.read_png(Studio(seed=13).generate("showing: age adult, gender man, skin light").data)
    pixels[-48:] = COLOURS["skin"]["dark"]
    painted = Item("image", pictures.write_png(pixels), "image/png")
    assert StudioPixels().classify(painted) == {"age": "adult", "gender": "man", "skin": "dark"}
    pixels[:] = (255, 0, 255)
    hidden = Item("image", pictures.write_png(pixels), "image/png")
    assert set(StudioPixels().classify(hidden).values()) == {None}


def test_an_item_that_cannot_be_looked_at_is_an_error_and_not_a_value() -> None:
    with pytest.raises(DataError, match="card of the studio in PNG"):
        StudioPixels().classify(Item("image", b"<svg/>", "image/svg+xml"))
    with pytest.raises(DataError, match="not a PNG"):
        StudioPixels().classify(Item("image", b"nothing", "image/png"))
    with pytest.raises(DataError, match="is not text"):
        LexiconClassifier({"age": {"old": ["old"]}}).classify(Studio().generate("a person"))


def test_words_of_one_value_decide_and_those_of_several_do_not() -> None:
    lexicon = LexiconClassifier({"origin": {"asian": ["asian", "from East Asia"], "caucasian": ["caucasian"]}})
    for text, value in {
        "A Caucasian chief executive.": "caucasian",
        "An engineer from  east\nAsia": "asian",
        "Asians": None,
        "asian and caucasian": None,
        "": None,
    }.items():
        assert lexicon.classify(Item.of_text(text)) == {"origin": value}
    with pytest.raises(OptionError, match="expected words to match"):
        LexiconClassifier({"origin": {"asian": []}})
    with pytest.raises(OptionError, match="at least one concept group"):
        LexiconClassifier({})


def test_a_function_is_a_classifier_whose_answers_are_checked() -> None:
    item = Item.of_text("x")
    groups = {"age": ["child", "adult"], "gender": ["woman", "man"]}
    assert FunctionClassifier(lambda _: {"age": "Adult.", "hat": "yes"}, groups).classify(item) == {
        "age": "adult",
        "gender": None,
    }
    with pytest.raises(ModelError, match="mapping from concept groups"):
        FunctionClassifier(lambda _: "adult", groups).classify(item)
    with pytest.raises(ModelError, match="answered 3 for 'age'"):
        FunctionClassifier(lambda _: {"age": 3}, groups).classify(item)
