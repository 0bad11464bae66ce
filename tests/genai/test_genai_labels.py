"""What deadlines are worth under labelled samples: files read, groups combined, and who calls what guaranteed."""

from __future__ import annotations

import pytest
from genai_reference import read_config
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import DataError, OptionError
from evenhand.genai import ConfusionConfig, Enforcer, GenerationConfig, measure_confusion
from evenhand.genai.assessment.check import check_configuration
from evenhand.genai.classifiers.confusion import ConfusionResult, count_confusion, read_sample, specification_success
from evenhand.stats import Observed, Unknown
from support import scaled, shared

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


# ---- files


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


# ---- what deadlines are worth


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


# ---- a check, and a sample by itself


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
