"""Confusion of labels, samples of a classifier, and the studio."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from genai_reference import read_config
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenhand.errors import DataError, OptionError
from evenhand.genai import (
    ConfusionConfig,
    ConfusionMatrix,
    Enforcer,
    GenerationConfig,
    measure_confusion,
    read_sequences,
)
from evenhand.genai.assessment.check import check_configuration
from evenhand.genai.backends import pictures
from evenhand.genai.backends.generator import parse_instruction
from evenhand.genai.backends.studio import GROUPS, Studio, StudioPixels
from evenhand.genai.classifiers.confusion import ConfusionResult, count_confusion, read_sample, specification_success
from evenhand.genai.enforcement.instructions import InstructionWriter
from evenhand.stats import Observed, Unknown
from support import scaled, shared


def _sample() -> ConfusionMatrix:
    pairs = [
        *[("child", "child")] * 18,
        *[("child", None)] * 2,
        *[("adult", "adult")] * 60,
        *[("adult", "child")] * 6,
        *[(None, "adult")] * 4,
    ]
    true, said = zip(*pairs, strict=True)
    return count_confusion(true, said, ["child", "adult", "elderly"])


def test_counts_and_shares_by_hand() -> None:
    sample = _sample()
    assert sample.counts == ((18, 0, 0, 2), (6, 60, 0, 0), (0, 0, 0, 0), (0, 4, 0, 0))
    assert sample.items == 90
    right, found = sample.precision("child"), sample.recall("child")
    assert isinstance(right, Observed)
    assert isinstance(found, Observed)
    assert (right.value, right.n) == (18 / 24, 24)
    assert (found.value, found.n) == (18 / 20, 20)
    assert sample.precision("elderly") == Unknown(reason="no item was labelled 'elderly'")


def test_the_interval_is_the_exact_one_shared_out_among_the_values() -> None:
    right = _sample().precision("child")
    assert isinstance(right, Observed)
    tail = 0.05 / 3 / 2
    assert stats.binom.sf(17, 24, right.low) == pytest.approx(tail, rel=1e-6)
    assert stats.binom.cdf(18, 24, right.high) == pytest.approx(tail, rel=1e-6)


def test_a_label_that_is_often_wrong_is_not_called_a_guarantee() -> None:
    good = count_confusion(["a"] * 500 + ["b"] * 20, ["a"] * 500 + ["b"] * 10 + [None] * 10, ["a", "b"])
    a, b = good.deadline_successes({"a": 5, "b": 7})
    assert a.guaranteed  # 500 of 500: the lower end is (.05 / 2 / 2) ** (1 / 500) = .9913
    assert a.true_deadline == 5
    assert "is guaranteed" in a.statement()
    assert not b.guaranteed  # never wrong in ten, which is not many
    child, elderly = _sample().deadline_successes({"child": 5, "elderly": 9})
    assert isinstance(child.right, Observed)
    times = next(m for m in range(1, 100) if (1 - child.right.low) ** m <= 0.01)
    assert child.true_deadline == 5 * times
    assert elderly.true_deadline is None
    assert not elderly.guaranteed


def test_true_deadlines_hold_as_often_as_said_when_labels_err_independently() -> None:
    random = np.random.default_rng(4)
    rate, deadline = 0.7, 6
    labels = np.where(random.random(400) < rate, "a", "b")
    sample = count_confusion([str(one) for one in labels], ["a"] * 400, ["a", "b"])
    (worth,) = sample.deadline_successes({"a": deadline})
    assert worth.true_deadline is not None
    # The worst stream that keeps the deadline: said once every six items, and true at the rate of the sample.
    said = np.arange(60_000) % deadline == deadline - 1
    shown = said & (random.random(60_000) < rate)
    windows = shown[: 60_000 // worth.true_deadline * worth.true_deadline].reshape(-1, worth.true_deadline)
    assert windows.any(axis=1).mean() >= 0.99
    assert shown.reshape(-1, deadline).any(axis=1).mean() < 0.9  # the deadline itself is not kept as often


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"true": [], "said": []}, DataError, "no labelled items"),
        ({"true": ["a"], "said": []}, DataError, "1 true values and 0 labels"),
        ({"true": ["c"], "said": ["a"]}, DataError, "'c' is not a value"),
        ({"true": ["a"], "said": ["asian"]}, DataError, "'asian' is not a value"),
        ({"true": ["a"], "said": ["a"], "values": ["a", "a"]}, OptionError, "values must be different names"),
        ({"true": ["a"], "said": ["a"], "confidence": 1.0}, OptionError, "between 0 and 1, got 1.0"),
    ],
)
def test_samples_that_cannot_be_counted_are_refused(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        count_confusion(**{"values": ["a", "b"], **given})


GENDER = ("female", "male")
AGE = ("young", "old")


def described(**more):
    return {
        "conditions": [{"name": "asked"}],
        "groups": {"gender": list(GENDER), "age": list(AGE)},
        "specifications": [
            {"condition": "asked", "group": "gender", "repeated": 6},
            {"condition": "asked", "paired": ["gender", "age"], "repeated": 20},
        ],
        **more,
    }


def gender(right=500, wrong=0):
    """Of the items said to be female so many are, and so many are not; those said to be male all are."""
    return count_confusion(
        ["female"] * right + ["male"] * (wrong + 500), ["female"] * (right + wrong) + ["male"] * 500, GENDER
    )


def age(right=500, wrong=0):
    return count_confusion(
        ["young"] * right + ["old"] * (wrong + 500), ["young"] * (right + wrong) + ["old"] * 500, AGE
    )


def test_a_sample_is_read_to_the_letter(tmp_path):
    file = tmp_path / "sample.csv"
    file.write_text("who,true,said\na,female,female\na,male,female\na,none,male\na,male,\na,,male\nb,male,none\n")
    sample, unlabelled = read_sample(file, ConfusionConfig(values=GENDER))
    assert sample.counts == ((1, 0, 0), (1, 0, 2), (0, 1, 0))
    assert unlabelled == 1
    only, unlabelled = read_sample(file, ConfusionConfig(conditions={"who": "b"}))
    assert (only.values, only.items, unlabelled) == (("male",), 1, 0)
    assert read_sample(file, ConfusionConfig())[0].values == ("female", "male")
    with pytest.raises(DataError, match="'female' is not a value") as refused:
        read_sample(file, ConfusionConfig(values=("woman", "male")))
    assert refused.value.location == "sample.csv"
    with pytest.raises(DataError, match="no item is labelled"):
        read_sample(file, ConfusionConfig(conditions={"who": "c"}))
    with pytest.raises(DataError, match="no column 'truth'"):
        read_sample(file, ConfusionConfig(true="truth"))


@pytest.mark.parametrize(
    ("true", "said", "message"),
    [
        (["female", "male"], ["Female", "male"], "'Female' in the column 'said' .* did you mean 'female'"),
        (["female", "Female"], ["female", "male"], "'female' in the column 'true' .* did you mean 'Female'"),
        (["female", "male"], ["None", "male"], "did you mean 'none'"),
        (["female", "male"], ["woman", "man"], "no label in the column 'said' is a value: man, woman"),
        (["female", "NA"], ["female", "male"], "'NA' is not a value"),
        (["female", "male", "Total"], ["female", "male", "2"], "row 3 seems to total the others"),
    ],
)
def test_labels_that_are_no_values_are_refused(true, said, message):
    with pytest.raises(DataError, match=message):
        read_sample(pd.DataFrame({"true": true, "said": said}), ConfusionConfig())
    with pytest.raises(OptionError, match="'said' twice"):
        read_sample(pd.DataFrame({"true": true, "said": said}), ConfusionConfig(true="said"))


def test_words_for_unknown_need_not_appear_and_conditions_have_one_spelling():
    frame = pd.DataFrame({"sex": ["f", "m", "unknown"] * 4, "asked": ["nurse", "Nurse", "clerk"] * 4})
    (recorded,) = read_sequences(frame.assign(code=pd.array([1, 2, None] * 4, "Int64")), ["sex", "code"])
    assert recorded.values == {"sex": ("f", "m"), "code": ("1", "2")}
    assert recorded.labels["code"][:3] == ("1", "2", None)
    with pytest.raises(DataError, match="did you mean 'Nurse'"):
        read_sequences(frame, ["sex"], conditions={"asked": "nurse"})
    assert len(read_sequences(frame, ["sex"], conditions={"asked": "clerk"})[0]) == 4


def test_a_configuration_names_samples_beside_it(tmp_path):
    (tmp_path / "gender.csv").write_text("true,said\n" + "female,female\n" * 200 + "male,male\n" * 200)
    (tmp_path / "genai.yaml").write_text(
        "conditions: [{name: asked}]\n"
        "specifications: [{condition: asked, group: gender, values: [female, male], repeated: 6}]\n"
        "samples: {gender: gender.csv}\n"
    )
    configuration = GenerationConfig.read(tmp_path / "genai.yaml")
    (found,) = specification_success(configuration)
    assert found.guaranteed is True
    assert [one.right.n for one in found.values if isinstance(one.right, Observed)] == [200, 200]
    (tmp_path / "gender.csv").unlink()
    with pytest.raises(DataError, match=r"gender\.csv"):
        Enforcer(configuration).guarantee()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"samples": {"size": "x.csv"}}, "no group 'size'"),
        ({"tolerated": {"labels": 1.0}}, "got 1.0"),
        ({"tolerated": {"misses": 0}}, "got 0"),
        ({"tolerated": {"label": 0.1}}, "no entry 'label'"),
        ({"tolerated": {"requests": 0}}, "got 0"),
    ],
)
def test_entries_that_make_no_sense_are_refused(more, said):
    with pytest.raises(OptionError, match=said):
        GenerationConfig.read(described(**more))


def test_without_a_sample_labels_are_taken_as_right():
    several = specification_success(GenerationConfig.read(described()))
    assert [(one.samples, one.missing, one.guaranteed) for one in several] == [
        ((), ("gender",), None),
        ((), ("gender", "age"), None),
    ]
    assert "labels of gender and age are assumed to be right" in several[1].statement()


def test_the_errors_of_groups_add_up():
    configuration = GenerationConfig.read(described())
    samples = {"gender": gender(490, 10), "age": age(480, 20)}
    alone, both = specification_success(configuration, samples)
    assert both.samples == ("gender", "age")
    of_gender = samples["gender"].model_copy(update={"confidence": 0.975}).precision("female")
    of_age = samples["age"].model_copy(update={"confidence": 0.975}).precision("young")
    right = both.values[0].right
    assert both.values[0].value == "female + young"
    assert isinstance(of_gender, Observed)
    assert isinstance(of_age, Observed)
    assert isinstance(right, Observed)
    assert right.value == pytest.approx(1 - 0.02 - 0.04)
    assert right.low == pytest.approx(of_gender.low + of_age.low - 1)
    assert right.low < of_gender.low
    assert (right.n, right.confidence) == (500, 0.95)
    assert both.guaranteed is False
    assert [one.guaranteed for one in both.values] == [False, False, False, True]  # male + old: never wrong
    assert alone.guaranteed is True


@settings(max_examples=scaled(60), deadline=None)
@given(counts=st.tuples(*[st.integers(0, 60)] * 4).filter(lambda counts: sum(counts) > 0))
def test_added_errors_are_never_less_than_the_true_ones(counts):
    """However the errors of two groups go together: in both labels, in one of them, in none."""
    both, first, second, neither = counts
    n = sum(counts)
    genders = ["male"] * (both + first) + ["female"] * (second + neither)
    ages = ["old"] * both + ["young"] * first + ["old"] * second + ["young"] * neither
    samples = {
        "gender": count_confusion(genders, ["female"] * n, GENDER),
        "age": count_confusion(ages, ["young"] * n, AGE),
    }
    _, found = specification_success(GenerationConfig.read(described()), samples)
    right = found.values[0].right
    assert isinstance(right, Observed)
    assert right.value <= neither / n + 1e-12
    assert right.low <= right.value <= right.high
    if not both:
        assert right.value == pytest.approx(max(0.0, neither / n))


def test_a_group_without_a_sample_never_makes_a_guarantee():
    configuration = GenerationConfig.read(described())
    assert [one.guaranteed for one in specification_success(configuration, {"gender": gender()})] == [True, None]
    _, both = specification_success(configuration, {"gender": gender(400, 100)})
    assert both.guaranteed is False
    assert "'female + young' and 'female + old'" in both.statement()
    assert "the labels of age are assumed to be right" in both.statement()


def test_a_value_that_no_label_said_is_not_guaranteed():
    sample = count_confusion(["female"] * 300, ["female"] * 300, GENDER)
    alone, both = specification_success(GenerationConfig.read(described()), {"gender": sample, "age": age()})
    assert isinstance(alone.values[1].right, Unknown)
    assert alone.guaranteed is False
    assert isinstance(both.values[2].right, Unknown)


def test_what_is_tolerated_can_be_set():
    samples = {"gender": gender(450, 50)}
    for labels, guaranteed in ((0.05, False), (0.2, True)):
        configuration = GenerationConfig.read(described(tolerated={"labels": labels}))
        assert specification_success(configuration, samples)[0].guaranteed is guaranteed


def test_an_enforcer_calls_no_deadline_guaranteed_whose_labels_err():
    enforcer = Enforcer(GenerationConfig.read(described()))
    assert "the labels of gender are assumed to be right" in enforcer.guarantee()
    said = enforcer.guarantee({"gender": gender(450, 50)})
    assert "NOT guaranteed for what items show: labels 'female' may be wrong more than 5% of the time" in said
    assert "90.0% of 500 items with this label show it" in said


def test_a_check_of_what_cannot_be_kept_says_nothing_of_settings():
    configuration = read_config({"g": ["a", "b", "c"]}, {"group": "g", "repeated": 2})
    found = check_configuration(configuration)
    assert not found.feasible
    assert found.settings == found.smallest == ()


def test_the_result_of_a_sample_travels_as_json(tmp_path):
    file = tmp_path / "sample.csv"
    file.write_text("true,said\n" + "a,a\n" * 30 + "b,a\n" * 2 + "b,b\n" * 9 + ",b\n")
    found = measure_confusion(file, repeated=[4, 7])
    assert ConfusionResult.from_json(found.to_json()) == found
    assert (found.items, found.unlabelled) == (41, 1)
    assert [one.deadline for one in found.worth] == [4, 7]
    frame = found.to_frame()
    wrong = frame[(frame["true"] == "b") & (frame["said"] == "a")]
    assert wrong["items"].tolist() == [2]
    assert wrong["share"].tolist() == [2 / 11]
    assert "1 without a true label, excluded" in found.summary()
    assert found._repr_html_().count("<svg") == 2  # wide, and for narrow screens


def test_a_real_classifier_on_real_pictures():
    file = shared("data", "genai", "sequences.csv")
    found = measure_confusion(
        file, true="label_gender", said="clf_gender", conditions={"label_suspect": "0"}, repeated=6
    )
    assert found.sample.counts == ((229, 9, 7), (17, 311, 36), (0, 0, 0))
    assert found.unlabelled == 358
    assert [one.guaranteed for one in found.worth] == [False, False]
    assert [one.true_deadline for one in found.worth] == [18, 12]
    # Labels that are shifted by one picture are not labels: the sample shows it.
    suspect = measure_confusion(
        file, true="label_gender", said="clf_gender", conditions={"label_suspect": "1"}, repeated=6
    )
    assert suspect.sample.counts == ((0, 8, 0), (9, 9, 0), (0, 0, 0))
    assert suspect.worth[0].true_deadline is None


def test_the_same_seed_draws_the_same_pictures_and_another_does_not() -> None:
    first, again, other = (Studio(seed=seed) for seed in (1, 1, 2))
    pictures = [first.generate("a person").data for _ in range(5)]
    assert pictures == [again.generate("a person").data for _ in range(5)]
    assert pictures != [other.generate("a person").data for _ in range(5)]
    assert len(set(pictures)) == 5


def skins(studio: Studio, prompt: str) -> Counter[str | None]:
    return Counter(StudioPixels().classify(studio.generate(prompt))["skin"] for _ in range(1000))


def test_the_bias_is_drawn() -> None:
    shown = skins(Studio({"skin": {"light": 9, "dark": 1}}, seed=5), "a person")
    assert set(shown) == {"light", "dark"}
    assert 70 < shown["dark"] < 130


def test_instructions_are_obeyed_as_often_as_said() -> None:
    prompt = InstructionWriter()("a business leader", {"skin": ("dark",)})
    shown = skins(Studio({"skin": {"light": 1}}, obeys=0.8, seed=6), prompt)
    assert 760 < shown["dark"] < 840
    assert shown["light"] == 1000 - shown["dark"]


def test_what_a_prompt_asks_for_is_read_as_a_clause_or_as_whole_words() -> None:
    assert parse_instruction("a leader (showing: age elderly, gender woman or man)", GROUPS) == {
        "age": ("elderly",),
        "gender": ("woman", "man"),
    }
    assert parse_instruction("Please show an ELDERLY woman.", GROUPS) == {"age": ("elderly",), "gender": ("woman",)}
    assert parse_instruction("a woman, showing: gender man", GROUPS) == {"gender": ("man",)}
    assert parse_instruction("adulthood in childish, darkened womanly human terms", GROUPS) == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bias": {"hat": {"yes": 1}}}, "no group 'hat'"),
        ({"bias": {"age": {"old": 1}}}, "there is no age 'old'"),
        ({"bias": {"age": {"child": -1, "adult": 2}}}, "the weights of age must be"),
        ({"bias": {"age": {}}}, "the weights of age must be"),
        ({"obeys": 1.2}, "obeys must be between 0 and 1"),
        ({"unrecognised": float("nan")}, "unrecognised must be between 0 and 1"),
    ],
)
def test_what_the_studio_cannot_draw_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Studio(**given)


def test_pixels_survive_a_png_and_damage_is_said() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
    data = pictures.write_png(pixels)
    assert np.array_equal(pictures.read_png(data), pixels)
    for broken in (b"", data[:40], data[:50] + bytes([data[50] ^ 1]) + data[51:], data[:-30], b"GIF89a" + data):
        with pytest.raises(DataError, match="PNG"):
            pictures.read_png(broken)
