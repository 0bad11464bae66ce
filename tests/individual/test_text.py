"""Texts: identity terms are swapped as a person would, and what flips is what a model decides differently."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.datasets.identity.lists import categories_named, category_names, read_categories
from evenhand.datasets.identity.swapping import TermSwapper
from evenhand.errors import DataError, LimitError, ModelError, OptionError, TrustError
from evenhand.individual import search
from support import shared

GENDER = TermSwapper(categories_named("gender")[0])
RELIGION = TermSwapper(categories_named("religion")[0])


@pytest.mark.parametrize("name", category_names())
def test_every_list_is_well_formed(name):
    one = categories_named(name)[0]
    for row in one.rows:
        assert sum(word is not None for word in row.words) >= 2


def swapped(swapper, sentence, group):
    (slot,) = swapper.slots(sentence)
    return slot.of(group)


@pytest.mark.parametrize(
    ("female", "male"),
    [
        ("She told her mother that he saw her there.", "He told his father that she saw him there."),
        ("I saw her and gave her book back; it was hers.", "I saw him and gave his book back; it was his."),
        ("A WOMAN and an actress", "A MAN and an actor"),
        ("My mother-in-law's sister hurt herself", "My father-in-law's brother hurt himself"),
        ("an heiress, a woman, a lady", "an heiress, a man, a gentleman"),
    ],
)
def test_gender_both_ways(female, male):
    assert swapped(GENDER, female, "male") == male
    assert swapped(GENDER, male, "female") == female


@pytest.mark.parametrize(
    ("sentence", "group", "expected"),
    [
        ("He is an atheist.", "Muslim", "He is a Muslim."),
        ("He is a Muslim.", "Jewish", "He is a Jew."),
        ("a Muslim neighbour", "Jewish", "a Jewish neighbour"),
        ("the muslims pray", "Jewish", "the jews pray"),
        ("MUSLIMS pray", "Hindu", "HINDUS pray"),
        ("An atheist came", "Christian", "A Christian came"),
        ("they read the guru granth sahib", "Christian", "they read the bible"),
    ],
)
def test_words_of_the_same_form(sentence, group, expected):
    assert swapped(RELIGION, sentence, group) == expected


def test_words_within_words_and_colours_of_things_stay():
    assert GENDER.slots("The manager's hermit showed mannerisms, then sheds.") == []
    assert TermSwapper(categories_named("race")[0]).slots("The white house and a black car") == []
    (slot,) = TermSwapper(categories_named("race")[0]).slots("The Asian neighbour of black people")[:1]
    assert slot.of("white") == "The white neighbour of black people"


def test_a_group_without_the_word_is_left_out():
    (slot,) = RELIGION.slots("The rabbi came")
    assert "atheist" not in slot.swapped
    assert slot.of("Muslim") == "The imam came"


PLAIN = [row.words for row in categories_named("gender")[0].rows[4:] if row.where == "anywhere"]
ONE_WAY = {word for words in PLAIN for word in words if sum(word in other for other in PLAIN) > 1}


@given(st.lists(st.sampled_from([word for words in PLAIN for word in words if not set(words) & ONE_WAY]), min_size=1))
def test_swapping_twice_gives_the_text_back(words):
    sentence = " and then ".join(words)
    (slot,) = GENDER.slots(sentence)
    other = "male" if slot.group == "female" else "female"
    there = slot.of(other)
    assert there != sentence
    assert all(found.of(slot.group) == sentence or found.of(other) == sentence for found in GENDER.slots(there))


def longer_is_better(texts):
    """By hand: the longer text gets the higher score, so women (two letters more) are better off."""
    return [min(1.0, len(one) / 40) for one in texts]


TEXTS = ["The man came home late again", "nobody", "the woman", "The man came home late again", "A king"]


def test_findings_by_hand():
    asked = []

    def model(texts):
        asked.extend(texts)
        return [0.9 if "woman" in one else 0.2 for one in texts]

    result = search.search_texts(model, TEXTS, protected=["gender"])
    (count,) = result.rates
    assert (count.flips, count.n, count.without) == (3, 4, 1)  # the king is not a woman either way
    assert result.profiles == 2
    assert count.repeats.repeated == count.flips
    # Once more for its noise, and both sides of the flips again.
    assert result.queries == len(asked) == 2 * len(set(asked)) + count.repeats.queries
    assert (result.noise.people, result.noise.changed, count.noise) == (6, 0, None)
    assert "nobody" not in asked
    first = result.examples[0]
    assert (first.worse.group, first.better.group) == ("male", "female")
    assert (first.worse.label, first.better.label) == ("no", "yes")
    assert first.gap == pytest.approx(0.7)
    assert first.template == "The {man|woman} came home late again"
    assert first.row == 0
    assert search.TextSearchResult.from_json(result.to_json()) == result
    assert len(result.to_frame()) == len(result.examples) == 2
    assert result.plot().to_dict()["description"].endswith("gender: 75.0 % (observed).")


def test_labels_alone_and_a_model_that_says_one_thing():
    result = search.search_texts(
        lambda texts: ["bad" if "women" in one else "good" for one in texts], ["women", "two men"]
    )
    assert result.label_only
    assert result.favourable == "good"
    assert {one.better.label for one in result.examples} == {"good"}
    constant = search.search_texts(lambda texts: ["good"] * len(texts), ["women", "two men"], protected=["gender"])
    assert constant.profiles == 0
    assert constant.examples == ()


def test_more_than_two_labels():
    def model(texts):
        return np.array([[0.1, 0.2, 0.7] if "she" in one else [0.5, 0.3, 0.2] for one in texts])

    result = search.search_texts(model, ["here she is"], protected=["gender"], labels=["c", "b", "a"], favourable="a")
    assert result.examples[0].gap == pytest.approx(0.5)
    assert result.examples[0].worse.label == "c"


def test_a_list_of_ones_own(tmp_path):
    path = tmp_path / "team.yaml"
    path.write_text("groups: [reds, blues]\nrows:\n  - [the red team, the blue team]\n")
    [own] = read_categories(path)
    result = search.search_texts(
        lambda texts: [float("red" in one) for one in texts], ["I like the red team"], protected=[own]
    )
    assert result.rates[0].protected == ("team",)
    assert result.examples[0].template == "I like {the blue team|the red team}"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("groups: [a]\nrows: [[x]]", "two groups"),
        ("groups: [a, b]\nrows: [[x]]", "2 words in each row"),
        ("groups: [a, b]\nrows: [[x, y], [y, z]]", "'y' is a word of b and of a"),
        ("[1, 2]", "groups: and rows:"),
        ("groups: [a, b]\nrows: [[x, '']]", "empty"),
        ("groups: [", "valid YAML"),
    ],
)
def test_bad_lists(tmp_path, content, complaint):
    path = tmp_path / "own.yaml"
    path.write_text(content)
    with pytest.raises(DataError, match=re.escape(complaint)):
        read_categories(path)


def test_limits_and_interrupts():
    texts = [f"he {i}" for i in range(6000)]
    config = search.TextSearchConfig(budget=100, examples=3)
    score = lambda batch: [float("she" in one) for one in batch]  # noqa: E731
    result = search.search_texts(score, texts, protected=["gender"], config=config)
    assert 60 <= result.queries <= 100  # some are reserved for asking about flips again
    assert result.noise.people == 2  # two of the texts, anywhere, were asked about twice
    assert result.rates[0].n == result.rates[0].repeats.repeated == 10
    assert len(result.examples) == 3
    calls = []

    def impatient(batch):
        calls.append(len(batch))
        if len(calls) == 8 + 2:  # after those that are asked about twice
            raise KeyboardInterrupt
        return [float("she" in one) for one in batch]

    stopped = search.search_texts(impatient, texts, protected=["gender"])
    assert stopped.interrupted
    assert 0 < stopped.rates[0].flips == stopped.rates[0].n < 6000

    def never(batch):
        raise KeyboardInterrupt

    with pytest.raises(LimitError):
        search.search_texts(never, texts, protected=["gender"])


@pytest.mark.parametrize(
    ("model", "texts", "error", "complaint"),
    [
        (len, ["he"], ModelError, "shape"),
        (lambda texts: 1 / 0, ["he"], ModelError, "ZeroDivisionError"),
        (lambda texts: [7.5] * len(texts), ["he"], ModelError, "probability, a logit or a score"),
        (longer_is_better, ["nobody here"], DataError, "has a term of"),
        (longer_is_better, [], DataError, "no texts"),
        (longer_is_better, ["he", None], DataError, "row 2"),
        (longer_is_better, "he", DataError, "got a single text"),
        (3, ["he"], ModelError, "not a text model"),
        ("absent.skops", ["he"], ModelError, "no such file"),
        ("model.onnx", ["he"], ModelError, "not a text model"),
        ("no_such_module:f", ["he"], ModelError, "no_such_module"),
    ],
)
def test_bad_input(model, texts, error, complaint):
    with pytest.raises(error, match=re.escape(complaint)):
        search.search_texts(model, texts, protected=["gender"])


def test_unknown_category():
    with pytest.raises(OptionError, match="'hair'"):
        search.search_texts(longer_is_better, ["he"], protected=["hair"])


def trained(texts, labels):
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(CountVectorizer(min_df=2), LogisticRegression(max_iter=500, class_weight="balanced")).fit(
        texts, labels
    )


def test_a_pipeline_in_a_file(tmp_path):
    import joblib

    path = tmp_path / "model.joblib"
    joblib.dump(trained(["good man", "good boy", "bad woman", "bad girl"] * 2, ["in", "in", "out", "out"] * 2), path)
    with pytest.raises(TrustError):
        search.search_texts(path, ["the man"], protected=["gender"])
    result = search.search_texts(path, ["the man"], protected=["gender"], favourable="in", trust=True)
    assert result.classes == ("in", "out")
    assert result.examples[0].better.group == "male"


def test_a_toxicity_model_on_templates():
    frame = pd.read_csv(shared("data", "text", "bias_madlibs_77k.csv.xz"))
    comments = pd.read_csv(shared("data", "text", "wiki_talk_toxicity_5k.csv.xz"))
    model = trained(comments["text"].astype(str).tolist(), comments["toxic"].tolist())
    sample = frame.sample(600, random_state=0)["Text"].tolist()
    result = search.search_texts(model, sample, favourable=0)
    counts = {rate.protected[0]: rate for rate in result.rates}
    assert counts["religion"].n > 30
    assert result.profiles > 10
    for one in result.examples:  # each holds when asked again
        first, second = model.predict([one.worse.text, one.better.text]).tolist()
        assert (str(first), str(second)) == (one.worse.label, one.better.label)
        assert first != second


class NoisyModel:
    """Likes a text with a probability, anew each time it is asked."""

    def __init__(self, chance, seed=0):
        self.chance, self.rng, self.asked = chance, np.random.default_rng(seed), 0

    def __call__(self, texts):
        self.asked += len(texts)
        return ["yes" if self.rng.random() < self.chance(one) else "no" for one in texts]


SENTENCES = [f"{who} came home late on day {i}" for i in range(400) for who in ("The man", "The woman")]


def test_noise_of_a_model_of_texts_is_no_finding():
    """A fair coin flips half of all pairs, and disagrees with itself as often."""
    model = NoisyModel(lambda one: 0.5, 1)
    result = search.search_texts(model, SENTENCES, protected=["gender"])
    (count,) = result.rates
    assert result.noise.noisy
    assert result.queries == model.asked
    assert count.rate.value < 0.02
    assert count.repeats.differed - count.repeats.repeated == count.repeats.noise
    assert result.document().blocks[0].tone == "caution"
    assert search.TextSearchResult.from_json(result.to_json()) == result


def test_a_bias_behind_the_noise_of_a_model_of_texts():
    """Probabilities p = 0.9 and q = 0.3: single answers differ with p(1-q)+q(1-p) = 0.66, but not all repeat."""
    model = NoisyModel(lambda one: 0.3 if "woman" in one else 0.9)
    (count,) = search.search_texts(model, SENTENCES, protected=["gender"]).rates
    assert 0.2 < count.rate.value < 0.66


@pytest.mark.parametrize("budget", [100, 1400])
def test_noise_of_texts_within_a_budget(budget):
    model = NoisyModel(lambda one: 0.5)
    result = search.search_texts(model, SENTENCES, protected=["gender"], budget=budget)
    assert result.queries == model.asked <= budget
    assert result.noise.people == budget // 40
