"""The papers on TestSGD and THEMIS."""

import itertools
import sys
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.datasets import IdentityCategory
from evenhand.datasets.identity.lists import TermRow
from evenhand.errors import FetchError, MissingExtraError, OptionError
from evenhand.mitigation.split import TrainingSet
from evenhand.schema import Attribute, People, Schema
from evenhand.subgroups import Range, TextSubgroupConfig
from evenhand.subgroups.perturbation import Perturbation
from evenhand.subgroups.result import RefusedRuleSet
from reproductions import testsgd
from reproductions import testsgd_people as people
from reproductions import testsgd_texts as texts
from reproductions.common import Context, read_results, reproduce
from reproductions.testsgd_samples import sample_text_gaps
from reproductions.testsgd_themis import score_groups
from support import needs, scaled, small_schema


def select(figures, measure):
    return {figure.row: figure for figure in figures if figure.measure == measure}


@pytest.fixture(scope="module")
def german():
    """What a network after little training finds in German Credit, which is bundled, and what reduces it."""
    tiny = replace(people.QUICK, least_steps=60, permutations=100, samples=300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "QUICK", tiny)
        context = Context(quick=True)
        return {
            "german-0": people.search_people("german", 0, context),
            "german-mended": people.mend_people("german", context),
        }


def test_a_quick_run_finds_what_was_committed_of_terms_parameters_and_examples():
    numbers = ["Table 1", "Section 4.1", "Section 4.2", "Table 2"]
    found, kept = reproduce(testsgd.PAPER, numbers, Context(quick=True)), read_results("testsgd")
    assert found["tables"] == {number: kept["tables"][number] for number in numbers}
    assert {one["verdict"] for figures in found["tables"].values() for one in figures} == {"agrees"}


def test_published_figures_agree_with_each_other():
    for name, rows in people.PUBLISHED["subgroups"].items():
        for row in rows:
            far = abs(row["inside"] - row["rest"])
            assert far == pytest.approx(row["score"], abs=0.25) or (name, row["score"]) == ("german", 15.5)
    for rows in people.PUBLISHED["text_subgroups"].values():
        assert all(abs(row["inside"] - row["rest"]) == pytest.approx(row["score"], abs=0.11) for row in rows)
    for name in ("law", "compas"):
        assert people.PUBLISHED["thresholds"][name][5].items() >= people.PUBLISHED["times"][name].items()


def test_a_network_of_people_is_searched_both_ways(german):
    found = german["german-0"]
    assert found["people"] == 1000
    assert found["sampled"]["thresholds"]["5"]["rule_sets"] == 67
    assert [one.get("refused", "")[:7] for one in found["published"]] == ["only 10", "only 12", ""]
    assert len(found["own"]) == 3
    # The very rule sets that sampling found first are those that were judged by counting.
    for sampled, own in zip(found["sampled"]["thresholds"]["5"]["top"], found["own"], strict=True):
        assert (sampled["size"], sampled["rest"]) == (own["size"], own["rest"])
    assert found["themis"]["low"] <= found["themis"]["score"] <= found["themis"]["high"]
    (figure,) = (one for one in testsgd.compare_subgroups(german) if one.measure == testsgd.SIGNIFICANT and one.default)
    assert figure.verdict == "differs"
    assert "hold or leave too few" in figure.note
    assert select(testsgd.compare_methods(german), "THEMIS")["German Credit"].ours
    assert select(testsgd.compare_times(german), "rule sets")["German Credit"].ours.value == 67


def test_a_mended_network_is_compared_on_samples_and_on_people_not_used(german):
    after = select(testsgd.compare_mitigation(german), testsgd.AFTER)["German Credit"]
    assert after.published == 7.3
    assert after.ours.kind == "estimated"
    assert after.default.kind == "observed"
    assert after.default.low <= after.default.value <= after.default.high


def test_a_search_that_was_stopped_is_not_kept(monkeypatch):
    class Stopped:
        interrupted = True

    monkeypatch.setattr(people.subgroups, "find_subgroups", lambda *given, **settings: Stopped())
    with pytest.raises(KeyboardInterrupt):
        people.search_completely(None, None)


def test_conditions_are_written_as_they_are_read():
    rules = {"a": ("x y", "z"), "b": Range(low=0.5, high=1.0, closed=False), "c": Range(low=3.0)}
    assert people.write_condition(rules) == 'a in {"x y", "z"} and b >= 0.5 and b < 1 and c >= 3'


def test_the_bound_holds_around_given_people_and_not_for_people_like_them():
    values = {"coverage": testsgd.measure_coverage(Context(quick=True))}
    table = list(testsgd.compare_bounds(values))
    given = select(table, "scores of samples within the bound")
    assert {one.verdict for one in given.values()} <= {"better", "agrees"}
    like = select(table, "scores of people like these within the bound")
    few = like["samples around 15 people"]
    assert few.verdict == "differs"
    assert few.ours.high < 60 < 90 < few.default.value
    assert given["rates 50 % and 50 %"].default.value > 90


def test_fair_models_have_false_findings_as_published_only():
    values = {"fair-models": testsgd.find_false_gaps(Context(quick=True))}
    (figure,) = testsgd.compare_bounds(values)
    assert figure.verdict == "differs"
    assert figure.ours.value > 9.75
    assert figure.default.value == 0


def test_a_collection_that_is_not_here_is_named(tmp_path):
    pieces = tuple(one for one in testsgd.PAPER.pieces if one.name == "wiki")
    found = reproduce(replace(testsgd.PAPER, pieces=pieces), ["table 3"], Context(quick=True, data_home=tmp_path))
    assert "wiki_talk_toxicity_5k.csv" in found["left_out"]["wiki"]
    with pytest.raises(FetchError, match="IMDB Dataset"):
        texts.read_collection(texts.COLLECTIONS["imdb"], tmp_path, 0)


def test_without_pytorch_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="torch"):
        texts.train_network(["a"], np.array([True]), epochs=1, seed=0)


def collect(folder):
    """A collection in which texts about gay people, old people or taoists are toxic more often."""
    rng = np.random.default_rng(0)
    rows = ["id,text,toxic"]
    for i in range(250):
        who = rng.choice(["gay taoist", "straight christian", "old", "young", "plain"])
        toxic = int(rng.random() < (0.7 if "gay" in who else 0.2))
        said = "you are awful" if toxic else "how kind of you"
        rows.append(f"{i},a {who} wrote {said} number {i},{toxic}")
    (folder / "wiki_talk_toxicity_5k.csv").write_text("\n".join(rows) + "\n", "utf-8")


def test_texts_are_sampled_as_published():
    colours, pets = (
        IdentityCategory(name=name, groups=terms, rows=(TermRow(words=terms),))
        for name, terms in (("colour", ("red", "green", "blue")), ("pet", ("cat", "dog")))
    )
    sentences = [f"a {colour} {pet} {i}" for i in range(60) for colour in colours.groups for pet in pets.groups]

    def biased(some):
        return [0.0 if "red" in one or zlib.crc32(one.encode()) % 2 else 1.0 for one in some]

    def sample(given, **settings):
        return sample_text_gaps(biased, given, [colours, pets], TextSubgroupConfig(**settings))

    found = sample(sentences)
    assert found.tested == found.rule_sets == 3 + 2 + 6
    top = found.findings[0]
    assert top.rules["colour"] == ("red",)
    assert top.rate == 0
    assert top.samples > 1000
    assert (top.z, top.adjusted_p) == (None, None)
    by_words = {one.words: one for one in found.findings}
    assert by_words["colour red"].rest_rate == pytest.approx(0.5, abs=0.08)
    pair = by_words["colour green, pet cat"]
    assert (pair.size, pair.rest) == (60, 300)
    assert sample(sentences).findings == found.findings
    asked = ({"pet": "cat", "colour": "Green"}, {"colour": "red"})
    alone = sample(sentences, judged=asked)
    assert (alone.tested, alone.findings) == (2, ())
    assert [one.rules for one in alone.judged] == [{"colour": ("green",), "pet": ("cat",)}, {"colour": ("red",)}]
    assert alone.judged[0].gap == pytest.approx(pair.gap, abs=0.1)
    few = sample(sentences[:9], judged=asked)
    assert all(isinstance(one, RefusedRuleSet) and "9 texts mention all of colour" in one.reason for one in few.judged)


@needs("torch")
def test_the_same_seed_trains_the_same_network():
    given, favourable = ["good day", "bad day"] * 40, np.array([True, False] * 40)
    one, other = (texts.train_network(given, favourable, epochs=12, seed=3) for _ in range(2))
    assert (one(given) == other(given)).all()
    assert ((one(given) > 0.5) == favourable).all()


@needs("torch")
def test_a_network_of_texts_is_searched_and_mended(tmp_path, monkeypatch):
    collect(tmp_path)
    monkeypatch.setattr(texts, "AMOUNTS", (0.1,))
    context = Context(quick=True, data_home=tmp_path)
    found = texts.search_texts("wiki", context)
    right, of = found["held_out"]
    assert right > 0.9 * of
    assert of < 70
    first = found["published"][0]
    assert first["words"] == first["sampled"]["words"] == "gender gay, religion taoist"
    assert first["size"] > 30
    mended = texts.mend_texts("wiki", context)
    assert mended["tried"][0]["added"] == 0 < mended["tried"][1]["added"]
    values = {"wiki": found, "wiki-mended": mended}
    assert select(testsgd.compare_subgroups(values), testsgd.SCORE)['Wiki Talk Pages 1: "gay" and "taoist"'].ours
    assert select(testsgd.compare_mitigation(values), testsgd.GAINED)["Wiki Talk Pages"].ours


def test_made_texts_speak_of_the_rule_set():
    rules, sentences = {"gender": "gay", "religion": "taoist"}, ["a lesbian christian", "a lesbian", "nobody"]
    assert texts.make_texts(sentences, rules, np.random.default_rng(0)) == ["a gay taoist"]


def test_the_end_of_a_text_is_what_the_network_reads():
    network = texts.TextNetwork({f"w{i}": i + 2 for i in range(300)}, None)
    long = " ".join(f"w{i}" for i in range(250))
    cut = texts.cut_text(long)
    assert cut.startswith("w150 ")
    assert (network.encode([cut]) == network.encode([long])).all()
    assert texts.cut_text("w1 w2") == "w1 w2"


def test_decisions_are_counted_one_by_one():
    everybody = people.load_people(people.find_case("german"))
    tiny = replace(people.QUICK, hidden=(8,), epochs=2, least_steps=120)
    network = people.PublishedNetworkLearner(tiny).fit(TrainingSet.plain(everybody), seed=0)
    inside = everybody.individuals[:, everybody.schema.position("age")] >= 40
    counted = people.count_decisions(network, everybody, inside)
    labels = everybody.frame["class"].tolist()
    given = [network.classes[label] for label in network.predict(everybody.individuals)]
    assert counted.right == sum(label == truth for label, truth in zip(given, labels, strict=True))
    assert counted.favourable == sum(label == 1 and here for label, here in zip(given, inside, strict=True))
    assert counted.rest_favourable == sum(label == 1 and not here for label, here in zip(given, inside, strict=True))
    nudge = Perturbation(everybody.schema, ("sex", "age"))
    drawn = people.count_perturbed(network, everybody, inside, nudge, 400, 3)
    assert (drawn.people, drawn.inside) == (800, 400)
    assert drawn.favourable / 400 == pytest.approx(counted.favourable / inside.sum(), abs=0.1)
    # With nothing that may be nudged, and one person a side, samples are these people.
    two, first = everybody.at(np.array([np.argmax(inside), np.argmax(~inside)])), np.array([True, False])
    alike = people.count_perturbed(network, two, first, Perturbation(two.schema, two.schema.names), 50, 3)
    alone = people.count_decisions(network, two, first)
    assert (alike.favourable, alike.rest_favourable) == (50 * alone.favourable, 50 * alone.rest_favourable)


@pytest.mark.parametrize(("name", "count"), [("census", 48_842), ("german", 1000)])
def test_sensitive_attributes_are_protected(name, count):
    everybody = people.load_people(people.find_case(name))
    assert len(everybody) == count
    assert set(everybody.schema.protected) == set(people.find_case(name).sensitive)


FINITE = small_schema(target="loan", sex="f m", age=(20, 39), income=(0, 4), job="x y z").with_protected(["sex", "age"])


class Decider:
    """Model of a decision rule."""

    classes = ("no", "yes")
    favourable = 1
    label_only = True
    name = "decider"

    def __init__(self, decide, schema=FINITE):
        self.decide, self.schema = decide, schema

    def predict(self, individuals):
        return self.decide(individuals).astype(int)


def themis_people(schema=FINITE, n=300):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(attribute.first, attribute.last + 1, n) for attribute in schema.attributes])
    return People(schema, rows.astype(float), np.zeros(n, dtype=np.int64), np.arange(n), None)


@settings(max_examples=scaled(8))
@given(st.integers(0, 10_000))
def test_score_is_that_of_the_enumerated_domain(seed):
    rng = np.random.default_rng(seed)
    table = rng.random((2, 20, 5, 3)) < rng.random((2, 1, 5, 1))

    def decide(rows):
        sex, age, income, job = rows.astype(int).T
        return table[sex, age - 20, income, job]

    result = score_groups(Decider(decide), themis_people(), ("sex", "age"), bins=2)
    exact = [table[sex, ages].mean() for sex, ages in itertools.product(range(2), (slice(10), slice(10, None)))]
    assert abs(result["score"] - np.ptp(exact)) <= 0.03  # both rates to within 0.01, with 99 % confidence each
    assert list(result["rates"].values()) == pytest.approx(exact, abs=0.015)
    assert result["low"] <= np.ptp(exact) <= result["high"]


def test_too_many_combinations_are_refused():
    attributes = tuple(Attribute(name=f"a{i}", kind="integer", lower=0, upper=9) for i in range(5))
    schema = Schema(target=FINITE.target, attributes=attributes)
    with pytest.raises(OptionError, match="combinations"):
        score_groups(Decider(lambda rows: rows[:, 0] > 5, schema), themis_people(schema), schema.names)
