"""A result of every kind that has charts, its names as long as those of real data, and the drawings of them all."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache

import examples
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand
import language_audits
from evenhand import shields
from evenhand.auditing import AuditResult
from evenhand.checker import CertificateCheck
from evenhand.core import Document, Result
from evenhand.core.document import Block, Figure, Fold, SubjectCard
from evenhand.genai import ConfusionMatrix, RecordedSequence, assess_sequences, simulate_requests
from evenhand.genai.assessment.prompts import estimate_prompt_bias
from evenhand.genai.classifiers.confusion import ConfusionResult
from evenhand.individual.flips import FlipRate
from evenhand.individual.search import search
from evenhand.individual.search.texts import TextSearchResult
from evenhand.llm.comparison import pair_audits
from evenhand.llm.estimates import AnswerTable
from evenhand.mitigation import CandidateResult, MitigationResult, find_alternatives, refute_alternatives
from evenhand.mitigation.candidate import Trial
from evenhand.mitigation.result import Change, ComparisonLine, SplitSizes
from evenhand.models import Subject
from evenhand.monitoring import Monitor
from evenhand.schema import encode
from evenhand.schema.people import ColumnRoles
from evenhand.shields import FairnessProperty, Inputs, ShieldPlan, compare_shields, inspect_policy, simulate_shield
from evenhand.stats import Proved

SUBJECT = SubjectCard("model", "people.csv", 9769, "income", ">50K", label_only=False)
DATA = {"adult": "race", "compas": "sex", "german": "age"}
CLASSIFIERS = ("ERM", "DiffDP", "HSIC", "LAFTR", "PR")


def collect_figures(blocks: Sequence[Block]) -> Iterator[Figure]:
    """Yield the figures of a document, those in folded parts too."""
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Fold):
            yield from collect_figures(block.blocks)


@cache
def pictured(name: str) -> Result:
    """Return one of these results."""
    return PICTURED[name][0]()


def document(name: str) -> Document:
    """Return what a page shows of one of these results."""
    result = pictured(name)
    if name in ("search", "subgroups"):
        return result.document(SUBJECT)
    return result.document(".") if name == "assessment" else result.document()


def shield(kind: str = "finite") -> ShieldPlan:
    inputs = Inputs(("Asian-Pac-Islander", "Amer-Indian-Eskimo"), (0.3, 0.7), (0.35, 0.6))
    return ShieldPlan(FairnessProperty("demographic_parity", Fraction("0.15")), inputs, 24, kind=kind)


def change(value: float, half: float) -> Change:
    return Change(value=value, low=value - half, high=value + half, confidence=0.998, p=0.004, n=900, method="Tango")


def line(part, of, words, before, after, verdict, half=0.03, **more) -> ComparisonLine:
    seen = (
        (lambda value: Proved(value=value, how="linear"))
        if part == "proof"
        else (lambda value: examples.observed(round(900 * value), 900))
    )
    given = {"name": of, "of": of, "better_if": "down", "change": change(after - before, half), "note": ""}
    return ComparisonLine(
        part=part, words=words, before=seen(before), after=seen(after), verdict=verdict, **(given | more)
    )


def mitigation() -> MitigationResult:
    subgroup = "the gap of marital-status Married-civ-spouse or Married-AF-spouse, race Amer-Indian-Eskimo, sex Female"
    lines = (
        line("performance", "", "accuracy", 0.85, 0.846, "within noise", name="accuracy", better_if="up"),
        line("performance", "", "area under the ROC curve", 0.904, 0.901, "not comparable", change=None),
        line("asked", "sex", "decisions that flip with race and sex", 0.12, 0.01, "better"),
        line("asked", "worst", subgroup, 0.3, 0.08, "better"),
        line("groups", "race", "selection rates by race and marital-status: highest minus lowest", 0.1, 0.2, "worse"),
        line("individuals", "sex", "decisions that flip with sex, in the simulated population", 0.11, 0.01, "better"),
        line("proof", "sex", "certified fair whatever sex says", 0.9, 0.95, "more is proved", change=None),
    )
    trials = tuple(
        Trial(
            setting="instances added",
            value=value,
            accuracy=0.85 - value / 1e5,
            harms=(0.1 / (1 + value), 0.2),
            chosen=value == 1000,
        )
        for value in (0, 50, 100, 250, 500, 1000, 2500)
    )
    methods = ("retrain", "logit-pairing", "blind")
    return MitigationResult(
        model="income.pkl",
        data="people.csv",
        favourable=">50K",
        people=SplitSizes(train=2700, validation=900, test=900),
        harms=(lines[2].words, subgroup),
        sources=("search.json",),
        confidence=0.95,
        accuracy_loss=0.01,
        chosen="retrain",
        seed=7,
        seconds=83.0,
        candidates=tuple(
            CandidateResult(
                method=method,
                words=f"{method}, with a penalty",
                lines=lines,
                trials=trials if method == "retrain" else (),
            )
            for method in methods
        ),
    )


def profiles() -> Result:
    rng = np.random.default_rng(0)
    values = {
        one.name: rng.choice(one.values, 200) if one.values else rng.integers(one.lower, one.upper, 200)
        for one in examples.SCHEMA.attributes
    }
    people = encode(examples.SCHEMA, pd.DataFrame(values))
    return search(
        lambda frame: 1 / (1 + np.exp(40 - frame["age"] - 9 * (frame["sex"] == "Male"))),
        people,
        method="random",
        seeds=80,
        samples=200,
    )


def texts() -> TextSearchResult:
    rates = tuple(
        FlipRate(
            over="data",
            population="the texts",
            protected=(name,),
            rate=examples.observed(flips, 400),
            flips=flips,
            n=400,
            without=500,
        )
        for name, flips in (("sexual_orientation", 171), ("race_and_ethnicity", 60), ("gender", 8))
    )
    return TextSearchResult(
        seed=0,
        seconds=1.0,
        classes=("clean", "toxic"),
        favourable="clean",
        label_only=False,
        rates=rates,
        profiles=200,
        queries=4000,
        examples=(),
    )


GROUPS = {"gender presentation": ("woman", "man", "non-binary person"), "age": ("young adult", "elderly")}


def assessment() -> Result:
    """Three recorded sequences, long and short, and what two prompts show."""
    rng = np.random.default_rng(1)
    labels = {
        name: tuple(rng.choice(values, 120, p=np.array([8, 3, 1][: len(values)]) / sum([8, 3, 1][: len(values)])))
        for name, values in GROUPS.items()
    }
    names = ("a photograph of the leader of a large company", "stable-diffusion-xl, seed 2", "3")
    found = [RecordedSequence(name, labels, GROUPS, (None,) * 120) for name in names]
    prompts = ("a photograph of the leader of a large company in Frankfurt", "a nurse")
    answered = {
        prompt: [{name: labels[name][i] for name in GROUPS} for i in range(start, 120, 2)]
        for start, prompt in enumerate(prompts)
    }
    assessed = assess_sequences(found, repeated={"gender presentation": 6, "age": 4}, source="pictures")
    return assessed.model_copy(update={"prompts": estimate_prompt_bias(answered, GROUPS)})


def confusion() -> ConfusionResult:
    values = ("woman", "man", "non-binary person", "child", "elderly person")
    counts = tuple(tuple(912 if i == k else 3 * i + k for k in range(6)) for i in range(6))
    sample = ConfusionMatrix(values=values, counts=counts, confidence=0.95)
    return ConfusionResult(
        seed=0,
        seconds=1.0,
        source="sample.csv",
        conditions={},
        items=sample.items,
        unlabelled=0,
        sample=sample,
        right={value: sample.precision(value) for value in values},
        tolerated=0.05,
        worth=(),
        found={value: sample.recall(value) for value in values},
    )


def policies() -> Result:
    values = ("child", "young adult", "elderly", "unpublished", "none of these at all")
    described = {
        "conditions": [{"name": "leader", "share": 0.8}],
        "specifications": [
            {"condition": "leader", "group": "age", "values": list(values), "repeated": [6, 8, 10, 12, 16]}
        ],
        "simulation": {"generator": {"age": [0.2] * 5}, "retries": 0},
    }
    return simulate_requests(described, requests=400)


def check() -> CertificateCheck:
    return CertificateCheck(
        seed=0,
        seconds=1.0,
        verdict="confirmed",
        model="AC-1.npz",
        protected=("race", "sex"),
        certified=0.97786,
        falsified=0.0127,
        undecided=0.00417,
        boxes=4000,
        checked=4000,
        confidence=0.95,
    )


def scored(n: int = 400) -> pd.DataFrame:
    """Return people with a group of long name, a score, the true label, and a premium."""
    rng = np.random.default_rng(5)
    sex = rng.choice(["Amer-Indian-Eskimo", "Asian-Pac-Islander"], n)
    score = np.clip(rng.normal(0.5 + 0.1 * (sex == "Asian-Pac-Islander"), 0.15), 0, 1)
    return pd.DataFrame({"sex": sex, "score": score, "good": rng.random(n) < score, "premium": 300 + 900 * score})


def audited(predicted: object, **settings: object) -> AuditResult:
    """Audit decisions, or scores if there are none, about these people."""
    frame = scored()
    return evenhand.audit_predictions(
        predicted,
        y_true=frame["good"].astype(int),
        sensitive_features=frame[["sex"]],
        favourable=1,
        time_limit=60.0,
        **settings,
    )


def thresholds() -> Result:
    return audited(None, y_score=scored()["score"], threshold=0.5, thresholds=True)


def comparison() -> Result:
    frame = scored()
    scores = [frame["score"] + shift * (frame["sex"] == "Amer-Indian-Eskimo") for shift in (0.0, 0.1)]
    return evenhand.compare(*(audited((score > 0.5).astype(int), keep_decisions=True) for score in scores))


def premiums() -> Result:
    frame = scored()
    return evenhand.audit_predictions(frame["premium"], sensitive_features=frame[["sex"]], time_limit=60.0)


def grades(kind: str) -> Result:
    rng = np.random.default_rng(0)
    names = ["not recommended", "priority", "recommended", "special priority"]
    race = rng.choice(["White", "Black", "Asian-Pac-Islander"], 900, p=[0.7, 0.28, 0.02])
    true = rng.choice(names, 900)
    given = np.where(rng.random(900) < 0.7, true, np.where(race == "Black", names[0], names[2]))
    order = {"order": names} if kind == "ordinal" else {}
    return evenhand.audit_predictions(given, sensitive_features={"race": race}, y_true=true, kind=kind, **order)


def rankings() -> Result:
    frame = scored(900)
    return evenhand.audit_rankings(
        rank_by=frame["score"],
        query=np.arange(900) // 15,
        relevance=frame["good"],
        sensitive_features=frame[["sex"]],
        at=(1, 3, 5, 10),
    )


def language_change() -> Result:
    groups = (language_audits.outcome(language_audits.MAN, 0.4), language_audits.outcome(language_audits.BLACK, 0.35))
    values = np.random.default_rng(3).random((2, 40, 2, 6)) < 0.5
    audits = [
        language_audits.audit(
            comparisons=(language_audits.gap(language_audits.MAN, language_audits.BLACK, 0.062, 0.041),),
            groups=groups,
            table=AnswerTable(
                value.astype(float), np.zeros_like(value), np.broadcast_to(np.arange(6), value.shape), (6, 6)
            ),
        )
        for value in values
    ]
    return pair_audits(*audits, 0.95)


def trained(frame: pd.DataFrame) -> Subject:
    """Return a logistic regression on its training data, with the label in the last column."""
    encoder = make_column_transformer((OneHotEncoder(), ["race"]), remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression()).fit(frame[frame.columns[:-1]], frame["income"])
    return Subject(model, ColumnRoles("income", ["race"], ">50K").read(frame))


def alternatives() -> Result:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"grade": rng.integers(0, 21, 800), "race": rng.choice(["Black", "Asian-Pac-Islander"], 800)})
    merit = frame["grade"] + 3 * (frame["race"] == "Black") + rng.normal(0, 2.5, 800)
    frame["income"] = np.where(merit > 12, "<=50K", ">50K")
    return find_alternatives(trained(frame), against="gap", methods=("thresholds",)).result


def refutation() -> Result:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"grade": rng.integers(0, 21, 800), "race": rng.choice(["Black", "Asian-Pac-Islander"], 800)})
    frame["hours"] = np.where(frame["race"] == "Black", rng.integers(10, 50, 800), rng.integers(20, 60, 800))
    merit = frame["grade"] + frame["hours"] / 4 + rng.normal(0, 4, 800)
    frame["income"] = np.where(merit > 20, ">50K", "<=50K")
    features = ["grade >= 8", "grade >= 14", "hours >= 25", "hours >= 40"]
    return refute_alternatives(trained(frame), features=features, accuracy=0.72)


def monitored() -> Result:
    rng = np.random.default_rng(7)
    names = rng.choice(["White", "Black", "Asian-Pac-Islander"], 6000, p=[0.6, 0.3, 0.1])
    made = rng.random(6000) < np.where((names == "Black") & (np.arange(6000) > 2000), 0.2, 0.4)
    monitor = Monitor(
        {
            "groups": {"by": ["race"]},
            "watch": [{"gap": "selection_rate", "tolerance": 0.02}, {"ratio": "selection_rate", "tolerance": 0.8}],
            "seed": 0,
        }
    )
    monitor.add({"race": name, "decision": int(one)} for name, one in zip(names, made, strict=True))
    return monitor.result()


PICTURED: dict[str, tuple[Callable[[], Result], set[str]]] = {
    "audit": (
        examples.full,
        {"overview", "group rates", "calibration", "flip rates", "proved shares", "shares by attribute"}
        | {"subgroup gaps"},
    ),
    "check": (check, {"checked shares"}),
    "thresholds": (thresholds, {"overview", "group rates", "calibration", "threshold curves", "subgroup gaps"}),
    "comparison": (comparison, {"changes"}),
    "rankings": (rankings, {"selection over places"}),
    "premiums": (premiums, {"overview", "subgroup gaps"}),
    "labels": (lambda: grades("labels"), {"label shares", "confusion by group"}),
    "grades": (lambda: grades("ordinal"), {"label shares", "confusion by group"}),
    "mitigation": (mitigation, {"candidates", "before and after"}),
    "subgroups": (examples.subgroups, {"subgroup gaps"}),
    "search": (profiles, {"gaps of profiles"}),
    "texts": (texts, {"flip rates of texts"}),
    "assessment": (assessment, {"appearances", "coverage", "items", "prompts"}),
    "confusion": (confusion, {"counts of labels"}),
    "policies": (policies, {"longest gaps", "costs of policies"}),
    "inspection": (
        lambda: inspect_policy(shields.synthesize(shield())),
        {"interventions over time", "actions by counters"},
    ),
    "simulation": (
        lambda: simulate_shield(shield("static-fair"), runs=100, periods=3),
        {"bias over time", "bias at the end"},
    ),
    "kinds": (lambda: compare_shields([shield(), shield("dynamic")], runs=100), {"bias by kind of shield"}),
    "language model": (language_audits.audit, {"language gaps", "causes of flips"}),
    "language change": (language_change, {"language changes"}),
    "alternatives": (alternatives, {"alternatives"}),
    "monitor": (monitored, {"course of a gap"}),
}
"""Name -> how the result is made, and the drawings that its document names."""
