"""Functions as models, and models that answer differently each time."""

import numpy as np
import pandas as pd
import pytest
from applicants import CODES, FRAME, GRANTED, NAMES, PEOPLE, WORDS, pipeline, schema
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import evenhand
from evenhand.core.time_limit import TimeLimit
from evenhand.errors import ModelError
from evenhand.mitigation.training.blind import BlindModel
from evenhand.models import favourable_score, load_model, predict_labels
from evenhand.models.additive.network import network_from_dense
from evenhand.models.blackbox.base import LoadRequest
from evenhand.models.blackbox.function import FunctionModel, remember_answers, wrap_function
from evenhand.models.importing import import_object
from evenhand.models.noise import CHECKED, FreshScorer, ask_again, check_noise, majority, repeat_questions
from evenhand.models.thresholds import ThresholdScorer
from evenhand.schema import Schema
from evenhand.schema.thresholds import Threshold
from serving import serving
from support import small_schema

INCOME = PEOPLE[:, 1]


def share(frame):
    return frame["income"] / 100


@pytest.mark.parametrize(
    "function",
    [
        share,
        lambda frame: share(frame).to_numpy()[:, None],
        lambda frame: share(frame).to_list(),
        lambda frame: np.stack([1 - share(frame), share(frame)], axis=1),
        lambda frame: pd.DataFrame({"no": 1 - share(frame), "yes": share(frame)}),
        lambda frame: share(frame).astype("float32"),
    ],
)
def test_scores(function):
    scorer = load_model(function, WORDS, like=FRAME, name="share of income")
    assert isinstance(scorer, FunctionModel)
    assert (scorer.form, scorer.label_only, scorer.name) == ("frame", False, "share of income")
    np.testing.assert_allclose(favourable_score(scorer, PEOPLE), INCOME / 100, atol=1e-7)
    np.testing.assert_array_equal(scorer.predict(PEOPLE) == 1, INCOME > 50)
    np.testing.assert_allclose(scorer.scores(PEOPLE).sum(axis=1), 1)


@pytest.mark.parametrize(
    ("function", "values", "best"),
    [
        (lambda frame: np.where(frame["income"] > 50, "yes", "no"), ("no", "yes"), "yes"),
        (lambda frame: frame["income"] > 50, ("no", "yes"), "yes"),
        (lambda frame: [bool(income > 50) for income in frame["income"]], ("no", "yes"), "yes"),
        (lambda frame: (frame["income"] > 50).astype(int), ("no", "yes"), "yes"),
        (lambda frame: (frame["income"] > 50).astype(float), ("no", "yes"), "yes"),
        (lambda frame: frame["income"] > 50, ("yes", "no"), "yes"),
        (lambda frame: (frame["income"] > 50).astype(int), (0, 1), 1),
        (lambda frame: (frame["income"] <= 50).astype(int), (0, 1), 0),
        (lambda frame: frame["income"] <= 50, (False, True), False),
        (lambda frame: np.where(frame["income"] > 50, 1, 2), (1, 2), 1),
        (lambda frame: np.where(frame["income"] > 50, "1", "2"), (1, 2), 1),
    ],
)
def test_labels(function, values, best):
    scorer = load_model(function, schema(values=values, favourable=best))
    assert scorer.label_only
    assert scorer.classes == values
    np.testing.assert_array_equal(scorer.predict(PEOPLE) == scorer.favourable, INCOME > 50)
    np.testing.assert_array_equal(scorer.scores(PEOPLE), np.eye(2)[scorer.predict(PEOPLE)])


def test_three_labels():
    described = schema(values=("no", "wait", "yes"))
    scorer = load_model(lambda frame: np.where(frame["income"] > 50, "yes", "wait"), described)
    np.testing.assert_array_equal(scorer.predict(PEOPLE), np.where(INCOME > 50, 2, 1))
    with pytest.raises(ModelError, match=r"\(3 labels\), got one score"):
        load_model(share, described)


def test_an_array_function_gets_the_encoded_inputs():
    weights = np.arange(6) / 10

    def linear(x):
        assert type(x) is np.ndarray
        return 1 / (1 + np.exp(-(x @ weights)))

    scorer = load_model(linear, CODES)
    assert scorer.form == "numbers"
    np.testing.assert_array_equal(scorer.scores(PEOPLE)[:, 1], linear(CODES.inputs(PEOPLE)))


def test_a_tensor_is_a_reply():
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    scale = torch.nn.Parameter(torch.tensor(0.01, dtype=torch.float64))
    scorer = load_model(lambda frame: scale * torch.tensor(frame["income"].to_numpy()), WORDS)
    np.testing.assert_allclose(favourable_score(scorer, PEOPLE), INCOME / 100)


def test_predict_proba_by_itself_keeps_the_order_of_its_classes():
    model = pipeline(LogisticRegression(), labels=np.where(GRANTED, "approved", "denied"))
    described = schema(values=("denied", "approved"), favourable="approved")
    scorer = load_model(model.predict_proba, described)
    np.testing.assert_array_equal(favourable_score(scorer, PEOPLE), model.predict_proba(FRAME)[:, 0])
    assert load_model(model.predict, described).classes == ("denied", "approved")


def test_an_object_with_predict_alone_is_asked_by_it():
    class Model:
        def predict(self, frame):
            return frame["income"] > 50

    scorer = load_model(Model(), WORDS)
    assert scorer.name == "Model"
    np.testing.assert_array_equal(scorer.predict(PEOPLE), INCOME > 50)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda frame: frame["salary"], "KeyError: 'salary'"),
        (lambda frame: 0.5, "a single value"),
        (lambda frame: frame["income"].head(3), r"shape \(3,\)"),
        (lambda frame: frame["income"], "probability, a logit or a score"),
        (lambda frame: frame["income"] * np.nan, "nan"),
        (lambda frame: frame["sex"], "'Female', which is not one of the labels 'no', 'yes'|'Male', which is not"),
        (lambda frame: [None] * len(frame), "None, which is not one of the labels"),
        (lambda frame: np.ones((len(frame), 3)) / 3, r"expected \(32, 2\)"),
        (lambda frame: [[1.0], [2.0, 3.0]], "not an array"),
        (lambda frame: {"yes": 1}, "a single value"),
        (lambda frame: np.where(frame["income"] > 50, 0.7, np.inf), "inf"),
    ],
)
def test_what_is_no_reply_is_refused(function, message):
    with pytest.raises(ModelError, match=message):
        load_model(function, WORDS)


def test_columns_named_after_labels_are_read_by_their_names():
    def reply(frame, *names):
        yes = frame["a"] / 9
        return pd.DataFrame({"yes": yes, "no": 1 - yes})[list(names)]

    frame = pd.DataFrame({"a": [0, 2, 8, 9]})
    people = small_schema(target="t", a=(0, 9)).with_protected(["a"])
    for names in (["yes", "no"], ["no", "yes"]):
        scorer = load_model(lambda frame, names=names: reply(frame, *names), people)
        assert scorer.predict(frame.to_numpy(dtype=float)).tolist() == [0, 0, 1, 1]
    with pytest.raises(ModelError, match="'no', which is the unfavourable label"):
        load_model(lambda frame: reply(frame, "no"), people)


def test_one_score_is_refused_where_it_could_mean_either_label():
    recidivism = schema(values=(0, 1), favourable=0)
    with pytest.raises(ModelError, match="no true labels confirm it"):
        load_model(share, recidivism)
    both = load_model(lambda frame: np.stack([share(frame), 1 - share(frame)], axis=1), recidivism)
    np.testing.assert_allclose(favourable_score(both, PEOPLE), INCOME / 100)


def test_bins_are_compared_with_nothing():
    described = WORDS.model_dump(mode="json")
    described["attributes"][1] = {"name": "income", "kind": "ordinal", "edges": [0, 50, 100]}
    scorer = load_model(lambda frame: frame["income"] > 60, Schema.parse(described), like=FRAME)
    assert scorer.predict(np.array([[40.0, 1.0, 0.0, 0.0], [40.0, 0.0, 0.0, 0.0]])).tolist() == [1, 0]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("code", "source", "message"),
    [
        ("", "lender_absent:score", "there is no module 'lender_absent'"),
        ("def score(frame): pass", "lender:scores", "no 'scores' in lender\n  -> available: score"),
        ("1/0", "lender_broken:score", "importing lender_broken fails: ZeroDivisionError"),
        ("raise SystemExit('usage')", "lender_leaving:score", "importing lender_leaving fails: SystemExit: usage"),
        ("import no_such_library", "lender_needing:score", "fails: ModuleNotFoundError: No module named 'no_such_lib"),
        ("score = 3", "lender:score", "a int is not a model"),
        ("score = lambda frame: None", "lender:score", "lender:score: queried with a data frame"),
    ],
)
def test_imports_that_fail_say_why(here, code, source, message):
    (here / f"{source.partition(':')[0]}.py").write_text(code) if code else None
    with pytest.raises(ModelError) as caught:
        load_model(source, WORDS)
    assert message in str(caught.value)


def test_interrupts_are_no_model_errors():
    def function(frame):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wrap_function(function, LoadRequest(WORDS))


def takes_arrays(asked):
    """The favourable label where the first number is large; a frame has no such key."""
    return np.where(asked[:, 0] > 3, 1, 0)


def test_a_model_that_is_asked_with_a_bare_array_says_so():
    people = pd.DataFrame({"skill": np.arange(200) % 10, "female": np.arange(200) // 10 % 2})
    hired = (people["skill"] > 4).astype(int).rename("hired")
    about = {"y": hired, "protected": ["female"]}
    said = "queried with an array of numbers"
    audited = evenhand.audit(takes_arrays, people, **about, searched=0, samples=200)
    found = evenhand.search(takes_arrays, people, **about, budget=200)
    for caution in (audited.model.caution, audited.summary(), found.caution, found.summary()):
        assert said in " ".join(caution.split())
    assert any(said in note for note in evenhand.find_subgroups(takes_arrays, people, **about).notes)
    asked_with_frames = evenhand.search(lambda frame: (frame["skill"] > 3).astype(int), people, **about, budget=200)
    assert asked_with_frames.caution == ""


def write(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    return folder


def test_imports_from_the_current_directory(here):
    write(here, "rule_a", "def predict(frame):\n    import helper_a\n    return helper_a.VALUE\n")
    write(here, "helper_a", "VALUE = 7\n")
    assert import_object("rule_a:predict")(None) == 7


def test_rejects_a_second_module_of_the_same_name(here):
    for value in (1, 2):
        write(here / str(value), "rule_b", f"def predict(frame):\n    return {value}\n")
    assert import_object("rule_b:predict", here / "1")(None) == 1
    with pytest.raises(ModelError, match="another module 'rule_b' is already imported"):
        import_object("rule_b:predict", here / "2")
    assert import_object("rule_b:predict", here / "1")(None) == 1


def test_imports_an_installed_module(here):
    assert callable(import_object("json:dumps"))


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
    check = check_noise(load_model(coin(), WORDS), np.repeat(PEOPLE, 50, axis=0), limit=TimeLimit(0.0))
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
    options = {"output": "probability", "threshold": threshold, "searched": 100}
    score = lambda rows: fitted.predict_proba(rows)[:, 1]  # noqa: E731
    audit = evenhand.audit(score, FRAME, target="granted", protected=["sex"], **options)
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
