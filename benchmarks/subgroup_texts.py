"""The texts of the benchmark of subgroups, a model trained on them, and what was published about such texts.

Times and findings are those of Zhang and others (TestSGD, 2023), Tables 4 and 5, about the full collections of which
these texts are a part.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evenhand.errors import LimitError
from evenhand.subgroups import text
from evenhand.subgroups.result import Finding
from subgroup_cases import SHARED, Published


@dataclass(frozen=True)
class TextSource:
    """One collection of texts.

    Attributes:
        searched: files and their columns of texts, in which subgroups are searched.
        trained: the file whose texts the model is trained on, by a half of it.
        label: its column of labels.
        favourable: the value that is favourable; any other is not.
        seconds, rule_sets: published time, and rule sets tested in it; None where nothing was published.
        findings: published rule sets as categories and terms, with published rates.
        same_label: whether the label of these rates is our favourable one.
    """

    searched: tuple[tuple[str, str], ...]
    trained: str
    label: str
    favourable: Any
    seconds: float | None
    rule_sets: int | None
    findings: tuple[tuple[dict[str, str], Published], ...]
    same_label: bool = True


def finding(inside: float, rest: float, **terms: str) -> tuple[dict[str, str], Published]:
    """A published finding about terms."""
    return terms, Published(" and ".join(f"{term!r}" for term in terms.values()), inside, rest)


TEXTS = {
    "wiki": TextSource(
        (("wiki_talk_toxicity_5k.csv.xz", "text"), ("wiki_talk_cat_large.csv.xz", "text")),
        "wiki_talk_toxicity_5k.csv.xz", "toxic", 0, 34982.28, 732,
        (
            finding(0.130, 0.065, gender="gay", religion="taoist"),
            finding(0.129, 0.075, gender="gay", religion="protestant"),
            finding(0.125, 0.074, gender="gay", race="african american"),
        ),
        same_label=False,
    ),
    "reviews": TextSource(
        (("imdb_25k.csv.xz", "text"),), "imdb_25k.csv.xz", "label", 1, 69125.16, 876,
        (
            finding(0.560, 0.494, race="european", age="young"),
            finding(0.591, 0.526, race="white", age="older"),
            finding(0.075, 0.140, gender="lgbtq"),
        ),
    ),
    "tweets": TextSource(
        (("davidson_tweets_25k.csv.xz", "tweet"),), "davidson_tweets_25k.csv.xz",
        "label_0hate_1offensive_2neither", 2, None, None, (),
    ),
}  # fmt: skip


@dataclass
class TimedTexts:
    """A model of texts that keeps count of the seconds it takes."""

    model: Any
    wall: float = 0.0
    cpu: float = 0.0
    asked: int = 0

    def __call__(self, texts: list[str]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        scores = self.model.predict_proba(texts)[:, 1]
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu
        self.asked += len(texts)
        return scores


def trained(source: TextSource) -> tuple[Any, float] | None:
    """A bag of words with a logistic regression, and its accuracy on the other half; None where the data is absent."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    path = SHARED / "data" / "text" / source.trained
    if not path.exists():
        return None
    table = pd.read_csv(path)
    column = dict(source.searched)[source.trained]
    texts = table[column].astype(str).to_numpy()
    labels = (table[source.label] == source.favourable).to_numpy(int)
    order = np.random.default_rng(0).permutation(len(table))
    half = len(table) // 2
    model = make_pipeline(
        TfidfVectorizer(max_features=20_000, sublinear_tf=True),
        LogisticRegression(max_iter=300, class_weight="balanced"),
    )
    model.fit(texts[order[:half]], labels[order[:half]])
    accuracy = float((model.predict(texts[order[half:]]) == labels[order[half:]]).mean())
    return model, accuracy


def everything(source: TextSource) -> list[str]:
    """The texts that are searched."""
    folder = SHARED / "data" / "text"
    return [
        str(each)
        for file, column in source.searched
        if (folder / file).exists()
        for each in pd.read_csv(folder / file)[column].fillna("")
    ]


def search(model: Any, texts: list[str], **options: Any) -> tuple[text.TextSubgroupResult, dict[str, float]]:
    """One search among the published terms, and its seconds: of the model, and of everything else."""
    asked = TimedTexts(model)
    wall, cpu = time.perf_counter(), time.process_time()
    result = text.find_text_subgroups(asked, texts, protected=["published"], by="term", compared="all", **options)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return result, {
        "model_wall": asked.wall,
        "model_cpu": asked.cpu,
        "after_wall": wall - asked.wall,
        "after_cpu": cpu - asked.cpu,
        "wall": wall,
        "cpu": cpu,
        "asked": asked.asked,
    }


def judged(name: str, source: TextSource, model: Any, texts: list[str]) -> list[dict[str, Any]]:
    """The published findings, by the real texts that hold their terms and by what our model does with those."""
    if not source.findings:
        return []
    result, _ = search(model, texts, swaps=0, judged=tuple(terms for terms, _ in source.findings))
    rows = []
    for rank, ((_, published), own) in enumerate(zip(source.findings, result.judged, strict=True), start=1):
        row = {
            "data": name,
            "rank": rank,
            "rules": published.rules,
            "published_inside": published.inside,
            "published_rest": published.rest,
            "same_label": source.same_label,
            "size": own.size,
            "rest": own.rest,
        }
        if isinstance(own, Finding):
            kept = ("words", "rate", "rest_rate", "gap", "low", "high", "adjusted_p", "found")
            row |= {"verdict": "stands out" if own.found else "does not stand out"}
            row |= {key: getattr(own, key) for key in kept}
        else:
            row |= {"verdict": "refused", "reason": own.reason}
        rows.append(row)
    return rows


def speed(name: str, source: TextSource, model: Any, accuracy: float, texts: list[str], cap: float) -> dict[str, Any]:
    """Our search beside the published figures and the published method, in the shape of a row about people."""
    result, seconds = search(model, texts, swaps=0)
    own: dict[str, Any] | None = None
    try:
        again, its = search(model, texts, method="sampled", time_limit=cap)
        own = its | {"tested": again.tested, "interrupted": again.interrupted, "found": again.found}
    except LimitError:
        pass  # not one rule set in that time
    top = result.findings[0] if result.findings else None
    kept = ("words", "size", "rest", "rate", "rest_rate", "gap", "low", "high", "adjusted_p", "found")
    return {
        "data": name,
        "people": len(texts),
        "accuracy": accuracy,
        "favourable": result.rate,
        **seconds,
        "rule_sets": result.rule_sets,
        "tested": result.tested,
        "found": result.found,
        "critical": result.critical,
        "top": {key: getattr(top, key) for key in kept} if top else None,
        "published_seconds": source.seconds,
        "published_rule_sets": source.rule_sets,
        "sampled": own,
    }
