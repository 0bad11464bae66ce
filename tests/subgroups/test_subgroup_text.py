"""Subgroups of texts: observed and swapped terms."""

import re
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import COLOURS, PETS, chance

from evenhand.datasets import IdentityCategory
from evenhand.datasets.identity.lists import TermRow, categories_named, category_names, read_categories
from evenhand.datasets.identity.swapping import TermSwapper
from evenhand.errors import DataError, LimitError, ModelError, OptionError
from evenhand.subgroups.result import RefusedRuleSet, TextSubgroupResult
from evenhand.subgroups.text.analysis import find_text_subgroups
from support import scaled, shared

LISTS = [COLOURS, PETS]
TERMS = {one.name: one.groups for one in LISTS}


def test_the_published_terms():
    lists = {one.name: one for one in categories_named("published")}
    assert {name: len(one.groups) for name, one in lists.items()} == {"gender": 14, "race": 17, "religion": 9, "age": 8}
    assert sum(len(one.groups) for one in lists.values()) == 48
    assert "published" not in category_names()
    assert [one.name for one in categories_named("religion")] == ["religion"]


@pytest.mark.parametrize(
    ("sentence", "spoken"),
    [
        ("An African American came", ["african american"]),
        ("an american from africa", ["american"]),
        ("MIDDLE-EASTERN food", ["middle eastern"]),
        ("the Asians, blackboards and indiana", []),
        ("Asian, not Indian.", ["asian", "indian"]),
    ],
)
def test_terms_of_several_words_their_boundaries_and_case(sentence, spoken):
    race = {one.name: one for one in categories_named("published")}["race"]
    assert [race.groups[mention.group] for mention in TermSwapper(race).mentions(sentence)] == spoken


def test_lists_in_files(tmp_path):
    several = tmp_path / "mine.yaml"
    several.write_text("colour: [red, green]\npet: {groups: [cats, dogs], rows: [[cat, dog], [kitten, puppy]]}\n")
    colour, pet = read_categories(several)
    assert (colour.name, colour.groups) == ("colour", ("red", "green"))
    assert (pet.name, pet.groups) == ("pet", ("cats", "dogs"))
    assert pet.by_term().groups == ("cat", "dog", "kitten", "puppy")
    single = tmp_path / "hair.yaml"
    single.write_text("terms: [fair, dark]\n")
    assert len(read_categories(single)) == 1
    for content, complaint in (
        ("{}", "no list"),
        ("a: [x]", "two groups"),
        ("a: 3", "groups"),
        ("3", "groups: and rows:"),
    ):
        single.write_text(content)
        with pytest.raises(DataError, match=re.escape(complaint)):
            read_categories(single)


def brute_force(texts, outcome, compared, least, depth):
    """Every rule set, by looking at the words of every text again."""
    spoken = [{name: {word for word in one.split() if word in terms} for name, terms in TERMS.items()} for one in texts]
    found = {}
    for size in range(1, depth + 1):
        for names in combinations(TERMS, size):
            for chosen in product(*(TERMS[name] for name in names)):
                inside = [all(term in one[name] for name, term in zip(names, chosen, strict=True)) for one in spoken]
                among = [compared == "all" or all(one[name] for name in names) for one in spoken]
                rest = [there and not here for there, here in zip(among, inside, strict=True)]
                if sum(inside) >= least and sum(rest) >= least:
                    counts = [sum(side) for side in (inside, rest)]
                    positives = [
                        sum(y for y, there in zip(outcome, side, strict=True) if there) for side in (inside, rest)
                    ]
                    rules = dict(zip(names, ((one,) for one in chosen), strict=True))
                    found.setdefault((tuple(inside), tuple(among)), (rules, *counts, *positives))
    return list(found.values())


@settings(max_examples=scaled(40), deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(["red", "green", "blue", "cat", "dog", "x", "y"]), max_size=4).map(" ".join),
        min_size=1,
        max_size=30,
    ),
    compared=st.sampled_from(["others", "all"]),
    depth=st.integers(1, 2),
    least=st.integers(1, 4),
)
def test_against_brute_force(texts, compared, depth, least):
    model = chance(0.4)
    try:
        result = find_text_subgroups(
            model,
            texts,
            protected=LISTS,
            compared=compared,
            depth=depth,
            min_texts=least,
            permutations=40,
            swaps=0,
            favourable="1.0",
            labels=("0.0", "1.0"),
            margin=0.0,
        )
    except DataError:
        assert not any(word in one.split() for one in texts for terms in TERMS.values() for word in terms)
        return
    expected = brute_force(texts, model(texts), compared, least, depth)
    got = [(one.rules, one.size, one.rest, one.positives, one.rest_positives) for one in result.findings]
    assert result.tested == len(expected) == len(got)
    for one in expected:
        assert one in got
    for one in result.findings:
        assert one.low <= one.gap + 1e-9
        assert one.gap <= one.high + 1e-9
        assert one.gap == pytest.approx(one.rate - one.rest_rate)


def spoken_of(n, rng, also=0.3):
    """Texts about a colour, some of them about a pet too, all different."""
    colours, pets = rng.choice(COLOURS.groups, n), rng.choice(PETS.groups, n)
    second = np.where(rng.random(n) < also, pets, "thing")
    return [f"{colour} {pet} {i}" for i, (colour, pet) in enumerate(zip(colours, second, strict=True))]


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["favourable", "score"])
def test_fair_models_are_left_alone(measure):
    """What is decided depends on whether there is a pet, and else on chance: 100 runs, 5 % may find something."""
    rng = np.random.default_rng(3)
    texts, alarms = spoken_of(400, rng), 0
    for _ in range(100):
        scores = dict(zip(texts, np.clip(rng.normal(0.3, 0.3, 400), 0, 1).tolist(), strict=True))
        scores |= {one: 1 - score for one, score in scores.items() if "cat" in one or "dog" in one}
        result = find_text_subgroups(
            lambda asked, scores=scores: [scores[one] for one in asked],
            texts,
            protected=LISTS,
            swaps=0,
            margin=0.0,
            measure=measure,
            permutations=199,
        )
        alarms += result.found > 0
    assert alarms <= 12  # more with probability 0.2 % at a true rate of 5 %


@pytest.mark.parametrize("compared", ["others", "all"])
def test_a_planted_gap_is_found_and_said_once(compared):
    texts = spoken_of(3000, np.random.default_rng(0))
    unfair, fair = chance(0.7), chance(0.4)

    def model(asked):
        return [a if "red" in one else b for one, a, b in zip(asked, unfair(asked), fair(asked), strict=True)]

    result = find_text_subgroups(model, texts, protected=LISTS, swaps=0, compared=compared)
    own = [one for one in result.findings if one.found and one.under is None]
    assert [one.rules for one in own] == [{"colour": ("red",)}]
    assert own[0].low > 0.2
    assert result.found > 1  # red cats, and the greens that are not red
    assert {one.under for one in result.findings if one.found} == {None, 0}


def test_error_rates():
    """Half of the deserving reds are refused, and no others."""
    texts = [f"{colour} {i}" for colour in ("red", "green") for i in range(200)]
    truth = ["good" if i % 2 else "bad" for _ in ("red", "green") for i in range(200)]
    refused = {f"red {i}" for i in range(200) if i % 4 == 1}
    given = {one: "bad" if one in refused else label for one, label in zip(texts, truth, strict=True)}

    def model(asked):
        return [given[one] for one in asked]

    missed = find_text_subgroups(
        model, texts, protected=[COLOURS], truth=truth, measure="false-negative", favourable="good", swaps=0
    )
    top = missed.findings[0]
    assert (missed.people, top.rules, top.size, top.positives, top.rest_positives) == (
        200,
        {"colour": ("red",)},
        100,
        50,
        0,
    )
    wrong = find_text_subgroups(
        model, texts, protected=[COLOURS], truth=truth, measure="false-positive", favourable="good", swaps=0
    )
    assert wrong.found == 0
    assert wrong.rate == 0
    with pytest.raises(OptionError, match="true labels"):
        find_text_subgroups(model, texts, protected=[COLOURS], measure="false-negative")
    with pytest.raises(DataError, match="400 texts and 1 truth"):
        find_text_subgroups(model, texts, protected=[COLOURS], truth=["good"])
    with pytest.raises(DataError, match="no text's true label is 'good'"):
        find_text_subgroups(
            model, texts, protected=[COLOURS], truth=["bad"] * 400, measure="false-negative", favourable="good"
        )


def test_what_is_asked_about_is_judged_or_refused():
    texts = [f"red cat {i}" for i in range(9)] + [f"green dog {i}" for i in range(100)]
    judged = ({"colour": "red"}, {"colour": "Green", "pet": "dog"}, {"colour": "green"})
    result = find_text_subgroups(chance(0.5), texts, protected=LISTS, judged=judged, swaps=0, min_texts=5)
    assert [type(one).__name__ for one in result.judged] == ["Finding", "Finding", "Finding"]
    assert result.judged[1].rules == {"colour": ("green",), "pet": ("dog",)}
    again = next(one for one in result.findings if one.rules == {"colour": ("red",)})
    assert result.judged[0].low == pytest.approx(again.low)
    floors = find_text_subgroups(chance(0.5), texts, protected=LISTS, judged=judged, swaps=0)
    assert all(isinstance(one, RefusedRuleSet) for one in floors.judged)
    assert floors.judged[0].reason == "9 texts contain it: fewer than 30"
    assert "are compared with" in floors.judged[2].reason
    for wrong in ({"shape": "round"}, {"colour": "pink"}):
        with pytest.raises(OptionError, match=r"shape|pink"):
            find_text_subgroups(chance(0.5), texts, protected=LISTS, judged=(wrong,), swaps=0)


def test_single_terms():
    own = IdentityCategory(
        name="pet", groups=("cats", "dogs"), rows=(TermRow(words=("cat", "dog")), TermRow(words=("kitten", "puppy")))
    )
    texts = [f"a {word} {i}" for word in ("cat", "kitten", "dog", "puppy") for i in range(50)]
    groups = find_text_subgroups(chance(0.5), texts, protected=[own])
    assert {one.rules["pet"] for one in groups.findings} == {("cats",), ("dogs",)}
    terms = find_text_subgroups(chance(0.5), texts, protected=[own], by="term")
    assert {one.rules["pet"] for one in terms.findings} == {("cat",), ("dog",), ("kitten",), ("puppy",)}
    assert {(one.size, one.rest) for one in terms.findings} == {(50, 150)}


def test_it_travels():
    texts = spoken_of(300, np.random.default_rng(1))
    result = find_text_subgroups(chance(0.5), texts, protected=LISTS, seed=7)
    assert TextSubgroupResult.from_json(result.to_json()) == result
    plain = result.plain()
    assert plain["kind"] == "subgroups"
    assert {"rules", "size", "rest", "rate", "rest_rate", "gap", "low", "high", "adjusted_p"} <= set(
        plain["findings"][0]
    )
    frame = result.to_frame()
    assert list(frame["analysis"]) == ["observed"] * len(result.findings) + ["swapped"] * len(result.effects)
    again = find_text_subgroups(chance(0.5), texts, protected=LISTS, seed=7)
    assert again.model_copy(update={"seconds": result.seconds}) == result


def test_limits_and_interrupts():
    texts = [f"{colour} {i}" for i in range(5000) for colour in COLOURS.groups]
    calls = []

    def impatient(asked):
        calls.append(len(asked))
        if len(calls) == 8 + 3:  # after those that are asked about twice
            raise KeyboardInterrupt
        return [0.2] * len(asked)

    result = find_text_subgroups(impatient, texts, protected=[COLOURS])
    assert result.interrupted
    assert result.people == 300 + 2 * 4096
    assert result.queries == 2 * 300 + 2 * 4096
    assert "not queried about 6,508 of 15,000 texts" in " ".join(result.notes)

    def never(asked):
        raise KeyboardInterrupt

    with pytest.raises(LimitError, match="before the first query"):
        find_text_subgroups(never, texts, protected=[COLOURS])
    with pytest.raises(LimitError, match="before the first query"):
        find_text_subgroups(chance(0.5), texts, protected=[COLOURS], time_limit=1e-9)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"compared": "best"}, "compared: expected one of: others, all, got 'best'"),
        ({"by": "word"}, "by: expected one of: group, term, got 'word'"),
        ({"time_limit": 0.0}, "time_limit: expected a number above 0 (seconds), got 0.0"),
        ({"protected": ["religion", "published"]}, "two lists called 'religion'"),
        ({"protected": ["hair"]}, "'hair'"),
        ({"measure": "score"}, "labels only"),
    ],
)
def test_bad_options(options, complaint):
    with pytest.raises(OptionError, match=re.escape(complaint)):
        find_text_subgroups(
            lambda asked: ["a"] * len(asked), ["a red cat", "a Sikh"], **{"protected": [COLOURS]} | options
        )


@pytest.mark.parametrize(
    ("model", "texts", "error", "complaint"),
    [
        (len, ["red"], ModelError, "shape"),
        (chance(0.5), ["nobody"], DataError, "has a term of: colour"),
        (chance(0.5), [], DataError, "no texts"),
        (chance(0.5), "red", DataError, "expected a list of texts"),
    ],
)
def test_bad_input(model, texts, error, complaint):
    with pytest.raises(error, match=re.escape(complaint)):
        find_text_subgroups(model, texts, protected=[COLOURS])


def test_the_noise_of_a_model_of_texts_is_said_first():
    rng = np.random.default_rng(0)
    texts = [f"a {colour} cat {i}" for i in range(200) for colour in COLOURS.groups]
    result = find_text_subgroups(
        lambda asked: (rng.random(len(asked)) < [0.2 if "red" in one else 0.7 for one in asked]).tolist(),
        texts,
        protected=[COLOURS],
        favourable="True",
    )
    assert result.noise.noisy
    assert result.findings[0].rules == {"colour": ("red",)}
    assert result.findings[0].found
    first = result.document().blocks[0]
    assert first.text.startswith("The model answers differently each time: asked twice about the same 300 texts")
    assert "one answer for each text" in first.text
    assert find_text_subgroups(chance(0.5), texts, protected=[COLOURS]).noise.changed == 0


decide = chance(0.4)


def test_the_published_example():
    """Zhang et al., section 4.3: what speaks of one group is made to speak of another; 14 groups, one text."""
    gender = [one for one in categories_named("published") if one.name == "gender"]
    asked = []

    def model(texts):
        asked.extend(texts)
        return [0.0] * len(texts)

    find_text_subgroups(model, ["I am a lesbian"], protected=gender, min_texts=1)
    assert (len(asked), len(set(asked))) == (15, 14)
    assert "I am a gay" in asked
    assert "I am an lgbt" in asked or "I am a lgbt" in asked


@settings(max_examples=scaled(30), deadline=None)
@given(
    frames=st.lists(st.tuples(st.sampled_from("klmn"), st.sampled_from(COLOURS.groups)), min_size=3, max_size=25),
    least=st.integers(1, 3),
)
def test_swap_against_brute_force(frames, least):
    texts = [f"{name} has a {colour} hat" for name, colour in frames]
    result = find_text_subgroups(decide, texts, protected=[COLOURS], min_texts=least, margin=0.0, permutations=40)
    names = sorted({name for name, _ in frames})  # texts that differ in the colour alone are asked about once
    decided = np.array([decide([f"{name} has a {colour} hat" for colour in COLOURS.groups]) for name in names])
    assert {one.words for one in result.effects} == (
        {f"colour {colour}" for colour in COLOURS.groups} if len(names) >= least else set()
    )
    for one in result.effects:
        column = COLOURS.groups.index(one.rules["colour"][0])
        rest = np.delete(decided, column, axis=1).mean(axis=1)
        assert one.rate == pytest.approx(decided[:, column].mean())
        assert one.rest_rate == pytest.approx(rest.mean())
        assert one.gap == pytest.approx((decided[:, column] - rest).mean())
        assert one.size == one.clusters == len(names)
        assert -1 <= one.low <= one.high <= 1
        assert one.low <= one.plain_low
        assert one.plain_high <= one.high


def test_two_groups_are_told_of_once():
    texts = [f"my cat number {i}" for i in range(50)]
    result = find_text_subgroups(lambda some: [0.9 if "cat" in one else 0.2 for one in some], texts, protected=[PETS])
    (effect,) = result.effects
    assert effect.rules == {"pet": ("dog",)}
    assert effect.gap == -1
    scores = find_text_subgroups(
        lambda some: [0.9 if "cat" in one else 0.2 for one in some], texts, protected=[PETS], measure="score"
    )
    assert scores.effects[0].gap == pytest.approx(-0.7)


def test_clusters_of_ones_own():
    """A hundred texts from two templates say no more than two."""
    texts = [f"{kind} cat {i}" for kind in ("my", "your") for i in range(50)]
    kinds = [one.split()[0] for one in texts]
    result = find_text_subgroups(lambda some: [float("dog" in one) for one in some], texts, protected=[PETS])
    assert result.effects[0].found
    templates = find_text_subgroups(
        lambda some: [float("dog" in one) for one in some], texts, protected=[PETS], clusters=kinds
    )
    assert (templates.effects[0].clusters, templates.effects[0].size) == (2, 100)
    assert not templates.effects[0].found


def test_some_texts_are_enough():
    texts = [f"my {pet} number {i}" for i in range(300) for pet in PETS.groups]
    asked = []

    def model(some):
        asked.extend(some)
        return decide(some)

    result = find_text_subgroups(model, texts, protected=[PETS], swaps=50)
    assert result.queries == len(asked)
    assert result.effects[0].size == 50
    assert find_text_subgroups(decide, texts, protected=[PETS], swaps=0).effects == ()


def madlibs():
    frame = pd.read_csv(shared("data", "text", "bias_madlibs_77k.csv.xz"))
    return frame.sample(5000, random_state=1)["Text"].tolist()


def blind(texts):
    """Decides by the text with all published terms cut out."""
    terms = sorted((term for one in categories_named("published") for term in one.groups), key=len, reverse=True)
    cut = re.compile(rf"\b(?:an?\s+)?(?:{'|'.join(terms)})\b", re.IGNORECASE)
    return decide([cut.sub("_", one) for one in texts])


def test_a_planted_term_is_found_in_templates_and_none_in_a_fair_model():
    texts = madlibs()
    fair = find_text_subgroups(blind, texts, protected=["published"], depth=1)
    assert len(fair.effects) == 48
    assert fair.found == 0
    assert not any(one.found or one.gap for one in fair.effects)

    def biased(some):
        return [0.0 if re.search(r"\bsikh\b", one) else plain for one, plain in zip(some, blind(some), strict=True)]

    found = find_text_subgroups(biased, texts, protected=["published"], depth=1)
    own = [one for one in found.effects if one.found and one.under is None]
    assert [one.rules for one in own] == [{"religion": ("sikh",)}]
    assert -0.5 < own[0].low < own[0].gap < own[0].high < -0.3
    observed = [one for one in found.findings if one.found and one.under is None]
    assert [one.rules for one in observed] == [{"religion": ("sikh",)}]
