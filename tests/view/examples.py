"""Audits made by hand: one like Adult with everything in it, one with as little as an audit can have."""

import itertools
import math

from evenhand.auditing import AuditResult, SkippedAnalysis
from evenhand.auditing.result import DataCard, ModelCard
from evenhand.certification import AttributeSlice, Certificate, Counterexample, ProgressPoint, Subregion
from evenhand.certification.certificate.result import Estimate
from evenhand.core.reading import OutcomeReading, TableReading
from evenhand.groups import Breakdown, Gap, Group, GroupMetrics
from evenhand.groups.config import SMALL
from evenhand.individual import FlipRate, IndividualResult, Profile
from evenhand.individual.result import Assignment
from evenhand.schema import Attribute, Schema, Target
from evenhand.stats import Estimated, Observed, Quantity, Unknown
from evenhand.subgroups import Finding, SubgroupResult
from evenhand.subgroups.result import AttributeCells, RefusedRuleSet
from support import small_schema

SIZES = {"Amer-Indian-Eskimo": (48, 101), "Asian-Pac-Islander": (141, 291), "Black": (686, 718)}
SIZES |= {"Other": (21, 55), "White": (2394, 5314)}
"""Race -> how many women and men, of 9,769 people in all."""

SELECTED = {"Female": 0.083, "Male": 0.268}
FACTOR = {"Amer-Indian-Eskimo": 0.48, "Asian-Pac-Islander": 1.08, "Black": 0.52, "Other": 0.4, "White": 1.06}

WORK = ("Federal-gov", "Local-gov", "Never-worked", "Private", "Self-emp-inc", "Self-emp-not-inc")
MARRIED = ("Divorced", "Married-civ-spouse", "Never-married")
SCHEMA = Schema(
    target=Target(name="income", favourable=">50K", values=("<=50K", ">50K")),
    attributes=(
        Attribute(name="age", kind="integer", lower=17, upper=90),
        Attribute(name="workclass", kind="categorical", values=WORK, missing="keep"),
        Attribute(name="education", kind="ordinal", values=("HS-grad", "Some-college", "Bachelors", "Masters")),
        Attribute(name="marital-status", kind="categorical", values=MARRIED),
        Attribute(name="occupation", kind="categorical", values=("Adm-clerical", "Exec-managerial", "Sales")),
        Attribute(name="race", kind="categorical", values=tuple(SIZES), protected=True),
        Attribute(name="sex", kind="categorical", values=("Female", "Male"), protected=True),
        Attribute(name="capital-gain", kind="real", lower=0, upper=99999),
        Attribute(name="hours-per-week", kind="integer", lower=1, upper=99),
    ),
    missing_markers=("?",),
)


def observed(k: int, n: int, spread: float = 1.96) -> Quantity:
    """Roughly what a rate of k in n looks like (a Wilson interval), or unknown of nobody."""
    if n == 0:
        return Unknown(reason="nobody in this group")
    p, z2 = k / n, spread * spread
    middle, half = (p + z2 / 2 / n) / (1 + z2 / n), spread / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / 4 / n / n)
    return between(p, max(0, middle - half), min(1, middle + half), n, "Wilson")


def between(value: float, low: float, high: float, n: int, method: str = "Newcombe (hybrid score)") -> Quantity:
    return Observed(value=value, n=n, low=low, high=high, confidence=0.95, method=method)


def made_group(values: dict[str, str], size: int, **metrics: Quantity) -> Group:
    return Group(values=values, size=size, small=size < SMALL, metrics=metrics)


def group(values: dict[str, str], size: int, rate: float) -> Group:
    positives = round(size * max(0.0, min(1.0, 0.8 * rate + 0.05)))
    nobody = Unknown(reason="nobody in this group has the favourable true label")
    return made_group(
        values,
        size,
        selection_rate=observed(round(size * rate), size),
        base_rate=observed(positives, size),
        true_positive_rate=observed(round(positives * (0.45 + rate / 2)), positives) if positives else nobody,
        false_positive_rate=observed(round((size - positives) * rate / 4), size - positives),
        accuracy=observed(round(size * (0.94 - rate / 3)), size),
        precision=observed(round(size * rate * 0.71), round(size * rate)),
        mean_score=between(rate + 0.013, rate, rate + 0.03, size, "empirical Bernstein"),
        calibration_gap=between(*(end - rate / 5 for end in (0.03, 0.01, 0.05)), size, "percentile bootstrap"),
    )


def gaps(groups: list[Group]) -> tuple[Gap, ...]:
    shown = [one for one in groups if not one.small]
    found = []
    for name, metric in (
        ("demographic_parity_difference", "selection_rate"),
        ("demographic_parity_ratio", "selection_rate"),
        ("equal_opportunity_difference", "true_positive_rate"),
        ("equalized_odds_difference", "true_positive_rate"),
        ("calibration_difference", "calibration_gap"),
        ("accuracy_difference", "accuracy"),
    ):
        rated = [(one.metrics[metric].value, one) for one in shown if one.metrics[metric].kind == "observed"]
        high, low = max(rated, key=lambda pair: pair[0]), min(rated, key=lambda pair: pair[0])
        n = high[1].size + low[1].size
        if name == "demographic_parity_ratio":
            value = low[0] / high[0]
            quantity = between(value, value * 0.9, value * 1.1, n, "ratio of proportions (hybrid score)")
        else:
            value = high[0] - low[0]
            quantity = between(value, max(-1.0, value - 0.017), min(1.0, value + 0.018), n)
        found.append(Gap(name=name, metric=metric, value=quantity, best=high[1].label, worst=low[1].label))
    return tuple(found)


def breakdown(by: tuple[str, ...], groups: list[Group]) -> Breakdown:
    return Breakdown(by=by, groups=tuple(groups), gaps=gaps(groups))


def groups() -> GroupMetrics:
    sexes = [
        group({"sex": sex}, sum(sizes[i] for sizes in SIZES.values()), SELECTED[sex])
        for i, sex in enumerate(("Female", "Male"))
    ]
    races = [group({"race": race}, sum(sizes), 0.205 * FACTOR[race]) for race, sizes in SIZES.items()]
    both = [
        group({"race": race, "sex": sex}, SIZES[race][i], SELECTED[sex] * FACTOR[race])
        for race, (i, sex) in itertools.product(SIZES, enumerate(("Female", "Male")))
    ]
    calibration = [
        made_group(
            {"sex": sex},
            n,
            mean_score=between(tenth / 10 + 0.048, tenth / 10 + 0.04, tenth / 10 + 0.06, n, "Student's t"),
            base_rate=observed(round(n * (tenth / 10 + 0.05) ** power), n),
        )
        for sex, most, power in (("Female", 2300, 1.05), ("Male", 2500, 0.9))
        for tenth, n in ((i, max(12, most // (1 + i * i))) for i in range(10))
    ]
    return GroupMetrics(
        seed=0,
        seconds=0.8,
        people=9769,
        favourable=">50K",
        everyone=made_group(
            {},
            9769,
            selection_rate=observed(2013, 9769),
            base_rate=observed(2341, 9769),
            true_positive_rate=observed(1377, 2341),
            false_positive_rate=observed(636, 7428),
            accuracy=observed(8169, 9769),
            precision=observed(1377, 2013),
            mean_score=between(0.2412, 0.2352, 0.2473, 9769, "empirical Bernstein"),
            calibration_gap=between(0.0016, -0.0061, 0.0093, 9769, "percentile bootstrap"),
            auc=between(0.8914, 0.8844, 0.8981, 9769, "DeLong"),
        ),
        breakdowns=(breakdown(("race",), races), breakdown(("sex",), sexes), breakdown(("race", "sex"), both)),
        calibration=(Breakdown(by=("sex",), groups=tuple(calibration), gaps=()),),
    )


INDEPENDENT = "independent attributes, each as in the data"


def estimated(value: float, low: float, high: float, n: int = 20_000) -> Quantity:
    how = {"population": INDEPENDENT, "method": "Clopper-Pearson (exact)"}
    return Estimated(value=value, low=low, high=high, confidence=0.95, n=n, **how)


def rates() -> tuple[FlipRate, ...]:
    found = []
    for protected, flips, wider in (
        (("race",), 98, (0.0131, 0.0116, 0.0148)),
        (("sex",), 236, (0.0287, 0.0264, 0.0311)),
        (("race", "sex"), 342, (0.0405, 0.0378, 0.0433)),
    ):
        for over, population, rate, count, n in (
            ("data", "the people in the data", observed(flips, 9769), flips, 9769),
            ("population", INDEPENDENT, estimated(*wider), round(20_000 * wider[0]), 20_000),
        ):
            shared = {"over": over, "population": population, "protected": protected}
            found.append(FlipRate(rate=rate, flips=count, n=n, queries=n * 10, **shared))
    return tuple(found)


REST = {"marital-status": "Married-civ-spouse", "occupation": "Exec-managerial"}
REST |= {"capital-gain": "0", "hours-per-week": "45"}


def profile(
    age: int, education: str, worse: dict[str, str], better: dict[str, str], gap: float, *, real: bool
) -> Profile:
    return Profile(
        unprotected={"age": str(age), "workclass": "Private", "education": education, **REST},
        worse=Assignment(values=worse, label="<=50K", score=0.5 - gap / 2),
        better=Assignment(values=better, label=">50K", score=0.5 + gap / 2),
        gap=gap,
        real=real,
    )


def individual() -> IndividualResult:
    sex = ({"sex": "Female"}, {"sex": "Male"})
    race = ({"race": "Amer-Indian-Eskimo"}, {"race": "White"})
    both = (race[0] | sex[0], race[1] | sex[1])
    people = ((38, "Bachelors"), (51, "HS-grad"), (44, "Masters"), (29, "Some-college"))
    return IndividualResult(
        seed=0,
        seconds=3.4,
        rates=rates(),
        examples=tuple(
            profile(age, education, *pair, gap=width - 0.04 * i, real=i < 3)
            for pair, width in ((race, 0.24), (sex, 0.31), (both, 0.52))
            for i, (age, education) in enumerate(people)
        ),
    )


MIDDLE_AGED = {"age": "36 to 47", "education": "Bachelors, Masters"}


def progress_point(i: int, certified: float, falsified: float) -> ProgressPoint:
    shares = {"certified": certified * (1 - 0.7**i), "falsified": falsified * (1 - 0.8**i)}
    return ProgressPoint(seconds=0.1 * 1.32**i, boxes=int(60 * 1.4**i), **shares)


def attribute_slice(attribute: str, values: str, mass: float, unfair: float, undecided: float) -> AttributeSlice:
    estimate = Estimate(unfair=unfair, low=0.8 * unfair, high=1.3 * unfair, confidence=0.99, n=4000)
    return AttributeSlice(attribute=attribute, values=values, mass=mass, estimate=estimate, undecided=undecided)


def certificate(protected: tuple[str, ...], certified: float, falsified: float, unfair: float) -> Certificate:
    pair = {"sex": ("Female", "Male"), "race": ("Black", "White")}
    undecided = max(0.0, 1 - certified - falsified)
    return Certificate(
        seed=0,
        seconds=17.2,
        certified=certified,
        falsified=falsified,
        undecided=undecided,
        estimate=Estimate(unfair=unfair, low=unfair - 0.0021, high=unfair + 0.0023, confidence=0.99, n=20_000),
        counterexamples=(
            Counterexample(
                unprotected={"age": "41", "workclass": "Private", "education": "Bachelors", "hours-per-week": "50"},
                first={name: pair[name][0] for name in protected},
                second={name: pair[name][1] for name in protected},
                first_label="<=50K",
                second_label=">50K",
            ),
        ),
        boxes=18_432,
        cpu_seconds=16.9,
        method="interval",
        population=INDEPENDENT,
        stopped_by="time",
        protected=protected,
        history=(
            *(progress_point(i, certified, falsified) for i in range(18)),
            ProgressPoint(seconds=17.2, boxes=18_432, certified=certified, falsified=falsified),
        ),
        regions=(
            Subregion(where=MIDDLE_AGED, mass=0.081, falsified=0.0031, undecided=0.0117),
            Subregion(where={"capital-gain": "3103 to 7688"}, mass=0.021, falsified=0.0012, undecided=0.0084),
            Subregion(where={"age": "48 to 61", "workclass": "Private"}, mass=0.13, falsified=0.0009, undecided=0.0061),
        ),
        slices=tuple(
            attribute_slice(attribute, values, 1 / len(ranges), share * unfair, share * undecided)
            for attribute, ranges in (
                ("age", {"17 to 35": 0.4, "36 to 53": 1.8, "54 to 71": 1.1, "72 to 90": 0.7}),
                ("workclass", {"Private": 1.4, "Self-emp-not-inc": 0.9, "State-gov": 0.7}),
            )
            for values, share in ranges.items()
        ),
    )


def finding(rules: dict[str, tuple[str, ...]], size: int, rate: float, **more: object) -> Finding:
    """A subgroup of the 9,769 people, of whom 20.6 % are selected."""
    rest = 9769 - size
    rest_rate = (2013 - round(rate * size)) / rest
    gap = rate - rest_rate
    return Finding(
        **{
            "rules": rules,
            "words": ", ".join(f"{name} {' or '.join(values)}" for name, values in rules.items()),
            "size": size,
            "rest": rest,
            "positives": round(rate * size),
            "rest_positives": 2013 - round(rate * size),
            "rate": rate,
            "rest_rate": rest_rate,
            "gap": gap,
            "low": gap - 0.031,
            "high": gap + 0.033,
            "plain_low": gap - 0.02,
            "plain_high": gap + 0.021,
            "z": 40 * gap,
            "adjusted_p": 0.000999,
            "found": True,
        }
        | more
    )


NEAR, FEW = {"low": -0.01, "high": 0.081}, {"race": ("Other",), "sex": ("Female",)}
TOO_FEW = "only 21 people in the subgroup, fewer than 30"


def subgroups(**more: object) -> SubgroupResult:
    """Two subgroups on their own, one of them explaining another; one that is not told from chance; two judged."""
    return SubgroupResult(
        **{
            "seed": 0,
            "seconds": 0.3,
            "method": "exact",
            "measure": "favourable",
            "control": "max-t",
            "confidence": 0.95,
            "critical": 2.91,
            "margin": 0.05,
            "support": 0.05,
            "min_size": 30,
            "people": 9769,
            "rate": 2013 / 9769,
            "rule_sets": 92,
            "tested": 61,
            "found": 3,
            "attributes": (
                AttributeCells(name="race", cells=tuple(SIZES), ordered=False),
                AttributeCells(name="sex", cells=("Female", "Male"), ordered=False),
            ),
            "findings": (
                finding({"sex": ("Female",)}, 3290, 0.083, explains=1),
                finding({"race": ("Black", "White"), "sex": ("Female",)}, 3080, 0.079, under=0, others=2),
                finding({"sex": ("Male",)}, 6479, 0.268),
                finding({"race": ("Black",)}, 1404, 0.19, found=False, adjusted_p=0.41),
            ),
            "judged": (
                finding({"race": ("Asian-Pac-Islander",)}, 432, 0.24, found=False, adjusted_p=0.37, **NEAR),
                RefusedRuleSet(rules=FEW, words="race Other, sex Female", size=21, rest=9748, reason=TOO_FEW),
            ),
        }
        | more
    )


LABELS = {"classes": ("<=50K", ">50K"), "favourable": ">50K"}
VERSIONS = {"python": "3.11.9", "evenhand": "0.1.0"}
TIME_UP = "the time limit of 60 s was used up"
NO_NETWORK = "an HTTP endpoint answers questions, but its network cannot be seen"


def full() -> AuditResult:
    """An audit with something in every part."""
    return AuditResult(
        seed=0,
        seconds=41.7,
        model=ModelCard(name="AC-1.npz", type="AdditiveNetwork", label_only=False, white_box=True, **LABELS),
        data=DataCard(
            name="adult.csv",
            people=9769,
            dropped=412,
            fingerprint="5f2a8c1e" * 8,
            counts={
                "race": {race: sum(sizes) for race, sizes in SIZES.items()},
                "sex": {sex: sum(sizes[i] for sizes in SIZES.values()) for i, sex in enumerate(("Female", "Male"))},
            },
            base_rate=0.2396,
        ),
        table_reading=TableReading(
            rows=10181,
            used=9769,
            left_out={"without a value of work": 412},
            true_label=OutcomeReading(column="income", favourable=(">50K",), unfavourable=("<=50K",)),
        ),
        described=SCHEMA,
        protected=("race", "sex"),
        groups=groups(),
        subgroups=subgroups(),
        individual=individual(),
        certificates=(
            certificate(("race",), 0.97786, 0.00417, 0.0127),
            certificate(("sex",), 0.9611, 0.0063, 0.0281),
        ),
        not_run=(SkippedAnalysis(what="certification for race x sex", reason=f"{TIME_UP}: give it more"),),
        settings={"time_limit": 60.0, "population": "data", "confidence": 0.95, "samples": 20000, "seed": 0},
        versions={**VERSIONS, "numpy": "2.1.0", "scipy": "1.14.0", "scikit-learn": "1.6.0"},
        flip_rate=342 / 9769,
    )


def minimal() -> AuditResult:
    """A label-only black box, few people, a group of nobody known, nothing proved, interrupted."""
    tiny = [group({"gender": "f"}, 12, 0.25), group({"gender": "m"}, 25, 0.4), group({"gender": "x"}, 0, 0.0)]
    schema = small_schema(grade=(0, 20), gender="f m x *")
    return AuditResult(
        seed=7,
        seconds=0.4,
        model=ModelCard(
            name="http://localhost/score",
            type="HttpScorer",
            classes=("no", "yes"),
            favourable="yes",
            label_only=True,
            white_box=False,
            why_not=NO_NETWORK,
        ),
        data=DataCard(
            name="people.csv",
            people=37,
            dropped=0,
            fingerprint="00ff" * 16,
            counts={"gender": {"f": 12, "m": 25}},
            base_rate=0.4,
        ),
        described=schema,
        protected=("gender",),
        groups=GroupMetrics(
            seed=7,
            seconds=0.0,
            people=37,
            favourable="yes",
            everyone=made_group(
                {}, 37, selection_rate=observed(13, 37), precision=Unknown(reason="nobody is selected")
            ),
            breakdowns=(Breakdown(by=("gender",), groups=tuple(tiny), gaps=()),),
        ),
        individual=IndividualResult(seed=7, seconds=0.1, rates=(), examples=(), interrupted=True),
        certificates=(),
        not_run=(
            SkippedAnalysis(what="certification", reason=NO_NETWORK),
            SkippedAnalysis(what="the rest of the audit", reason="it was interrupted; what is here was found before"),
        ),
        settings={"time_limit": 60.0, "population": "data", "confidence": 0.95, "samples": 20000, "seed": 7},
        versions=VERSIONS,
        flip_rate=None,
        interrupted=True,
    )
