"""Subgroups of texts, swapped: the same texts with other words, by hand, by brute force, and on bias templates."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import COLOURS, PETS, chance

from evenhand.datasets.identity.lists import categories_named
from evenhand.subgroups.text.analysis import find_text_subgroups
from support import scaled, shared

decide = chance(0.4)


def test_by_hand():
    """Blue is disliked wherever it is put; of the others the odd texts are liked."""
    texts = [f"a {('red', 'green')[i % 3 > 0]} thing {i}" for i in range(40)] + ["nothing"]
    asked = []

    def model(some):
        asked.extend(some)
        return ["no" if "blue" in one or int(one.split()[-1]) % 2 == 0 else "yes" for one in some]

    result = find_text_subgroups(
        lambda some: ["no" if one == "nothing" else model([one])[0] for one in some], texts, protected=[COLOURS]
    )
    effects = {one.words: one for one in result.effects}
    blue = effects["colour blue"]
    assert (blue.size, blue.rest, blue.clusters) == (40, 80, 40)
    assert (blue.rate, blue.rest_rate, blue.gap) == (0, 0.5, -0.5)
    assert blue.found
    assert blue.under is None
    assert effects["colour red"].gap == pytest.approx(0.25)  # better than green and blue together, only for the blue
    assert effects["colour red"].under == effects["colour green"].under == 0
    # The texts themselves once more, for the model's noise.
    assert (len(asked), len(set(asked))) == (4 * 40, 3 * 40)
    assert result.queries == 162
    assert "of texts rewritten to mention others 50.0 %" in result.sentence(blue)


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
def test_against_brute_force(frames, least):
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
    assert "mean score" in scores.sentence(scores.effects[0])


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
    result = find_text_subgroups(decide, texts, protected=[PETS], swaps=50)
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
