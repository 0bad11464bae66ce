"""Trees: certificates against asking everybody, bounds against every point of a box, real models of every library."""

import dataclasses
import itertools
import signal

import numpy as np
import pytest
from cases import everybody, integer
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from evenhand import certification, datasets, models
from evenhand.certification.bounds.trees.engine import TreeEngine
from evenhand.certification.bounds.trees.leaves import SCALE_BITS, leaf_table_of
from evenhand.certification.bounds.trees.lists import tree_workspace_for
from evenhand.certification.bounds.trees.question import tree_query_of
from evenhand.certification.bounds.trees.search import SETTLED, enter_part
from evenhand.certification.bounds.trees.tables import group_assignments
from evenhand.certification.bounds.trees.tails import MAX_GROUPS, TAILS
from evenhand.certification.bounds.trees.variance import describe_leaves, pair_variances, prove_variance, relate_kinds
from evenhand.certification.query.enumeration import enumerate_domain
from evenhand.certification.query.outcomes import FAIR, UNFAIR
from evenhand.core.kernels import compile_kernel
from evenhand.models.additive.cells import ListedCell, cell_array, plain_inputs
from evenhand.models.readers.sklearn_trees import read_sklearn_trees
from evenhand.models.trees.ensemble import build_ensemble
from evenhand.models.trees.nodes import DecisionTree, collect_nodes
from evenhand.models.white_box import extract_white_box
from evenhand.population import ProductPopulation, product_of_marginals
from evenhand.population.independent import Marginal
from evenhand.schema import Schema, encode
from support import scaled

SEEDS = st.integers(0, 2**32 - 1)


def described(attributes, labels=("no", "yes")):
    target = {"name": "decision", "favourable": labels[1], "values": list(labels)}
    return Schema.parse({"target": target, "attributes": attributes})


AGE = integer("age", 0, 9)
SEX = {"name": "sex", "kind": "categorical", "values": ["F", "M"], "protected": True}


def tree(nodes, output=0):
    """A tree from (feature, threshold, left, right) for inner nodes and numbers for leaves."""
    inner = [isinstance(node, tuple) for node in nodes]
    rows = [node if isinstance(node, tuple) else (0, 0.0, -1, -1) for node in nodes]
    return DecisionTree(
        output=output,
        feature=np.array([row[0] for row in rows]),
        threshold=np.array([row[1] for row in rows], dtype=float),
        left=np.array([row[2] for row in rows]),
        right=np.array([row[3] for row in rows]),
        default_left=np.zeros(len(nodes), dtype=bool),
        values=np.array([[0.0] if inside else [node] for node, inside in zip(nodes, inner, strict=True)]),
    )


def boosted(grown, first=AGE, **options):
    """A model of two labels over another attribute and sex, whose trees are added up."""
    shared = {"base": np.zeros(1), "link": "logistic", "answers": [0, 1], "location": "t"}
    return build_ensemble(described([first, SEX]), grown, **shared | options)


def by_hand():
    """From five years on, women get -1 and men +1; below, everybody gets -1."""
    return boosted([tree([(0, 4.0, 1, 2), -1.0, (1, 0.0, 3, 4), -1.0, 1.0])])


@pytest.mark.parametrize("enumeration", [True, False])
def test_by_hand(enumeration):
    model = by_hand()
    found = certification.certify(model, enumeration=enumeration, jobs=1)
    assert (found.certified, found.falsified) == pytest.approx((0.5, 0.5), abs=1e-9)
    assert found.undecided < 1e-9
    assert found.method == ("enumeration" if enumeration else "trees")
    assert found.stopped_by == "done"
    ages = {int(example.unprotected["age"]) for example in found.counterexamples}
    assert ages
    assert ages <= {5, 6, 7, 8, 9}
    assert sum(region.falsified for region in found.regions) == pytest.approx(0.5)
    adults = certification.certify(model, where=["age >= 3"], enumeration=enumeration, jobs=1)
    assert adults.falsified == pytest.approx(5 / 7, abs=1e-9)


def test_whatever_nobody_protected_is_asked_about_is_fair():
    assert certification.certify(boosted([tree([(0, 4.0, 1, 2), -1.0, 1.0])])).certified == 1.0


def random_tree(rng, schema, width, output, whole):
    """A random tree over a schema's inputs, with thresholds and sets of categories that split them."""
    spans = [(a.first, a.last, a.kind, a.encoding) for a in schema.attributes for _ in range(a.width)]
    feature, threshold, left, right, values, sets = [], [], [], [], [], {}

    def grow(depth):
        me = len(feature)
        number = rng.integers(-2, 3, width) if whole else rng.normal(size=width)
        feature.append(0), threshold.append(0.0), left.append(-1), right.append(-1), values.append(number)
        if depth and rng.random() < 0.85:
            column = int(rng.integers(len(spans)))
            first, last, kind, encoding = spans[column]
            feature[me] = column
            if kind == "categorical" and encoding == "code" and rng.random() < 0.6:
                sets[me] = np.flatnonzero(rng.random(int(last) + 1) < 0.5)
            else:
                threshold[me] = 0.5 if encoding == "one-hot" else rng.uniform(first - 0.5, last + 0.5)
            left[me] = grow(depth - 1)
            right[me] = grow(depth - 1)
        return me

    grow(int(rng.integers(1, 5)))
    links = (np.array(feature), np.array(threshold), np.array(left), np.array(right))
    values = np.array(values, dtype=float)
    return DecisionTree(output, *links, rng.random(len(feature)) < 0.5, values, left_categories=sets)


def random_model(seed, largest=6):
    """A small ensemble over mixed finite attributes, with two or three labels, and a population."""
    rng = np.random.default_rng(seed)
    attributes = []
    for i in range(int(rng.integers(1, 4))):
        kind = rng.choice(["categorical", "one-hot", "ordinal", "integer"])
        size = int(rng.integers(2, 6))
        if kind == "integer":
            low = int(rng.integers(-3, 3))
            attributes.append(integer(f"a{i}", low, low + size))
        else:
            entry = {"name": f"a{i}", "kind": "ordinal" if kind == "ordinal" else "categorical"}
            entry["values"] = [f"v{k}" for k in range(size)]
            attributes.append(entry | ({"encoding": "one-hot"} if kind == "one-hot" else {}))
    protected = {"name": "p", "kind": "categorical", "values": [f"p{k}" for k in range(int(rng.integers(2, 4)))]}
    attributes.insert(int(rng.integers(len(attributes) + 1)), protected | {"protected": True})
    labels = ("no", "yes", "later")[: int(rng.choice([2, 2, 3]))]
    schema = described(attributes, labels)
    whole = bool(rng.integers(2))
    trees = int(rng.integers(1, largest + 1))
    averaged = rng.random() < 0.4
    outputs = len(labels) if averaged or len(labels) > 2 else 1
    grown = [
        random_tree(rng, schema, outputs if averaged else 1, 0 if averaged else t % outputs, whole)
        for t in range(trees * (1 if averaged else outputs))
    ]
    link = "frequency" if averaged else "softmax" if outputs > 1 else "logistic"
    base = np.zeros(outputs) if averaged else rng.normal(size=outputs) * bool(rng.integers(2))
    shared = {"base": base, "link": link, "answers": list(range(len(labels))), "location": "random"}
    model = build_ensemble(schema, grown, divisor=float(trees) if averaged else 1.0, **shared)
    model = dataclasses.replace(model, single=bool(rng.integers(2)))
    population = None
    if rng.random() < 0.5:
        masses = [rng.integers(0, 4, a.size) + np.eye(a.size)[0] for a in schema.attributes]
        population = ProductPopulation(
            "some", schema, tuple(Marginal(a, m / m.sum()) for a, m in zip(schema.attributes, masses, strict=True))
        )
    return model, population


def true_shares(model, population):
    """Mass treated fairly, unfairly, and too close to tell, by asking about everyone."""
    query = tree_query_of(model, population=population)

    def is_close(rows):
        return (np.abs(query.margins(rows)) <= query.slack).any(axis=1) & (query.slack > 0).any()

    _, mass, labels = everybody(model, population)
    close = everybody(model, population, is_close)[2].any(axis=0)
    fair = float(mass[(labels == labels[0]).all(axis=0)].sum())
    return fair, 1 - fair, float(mass[close].sum())


@given(SEEDS)
@settings(max_examples=scaled(150), deadline=None)
def test_run_to_the_end_it_is_what_everybody_would_say(seed):
    model, population = random_model(seed)
    fair, unfair, close = true_shares(model, population)
    for options in ({"enumeration": False}, {"enumeration": False, "max_boxes": 7}, {}):
        found = certification.certify(model, population=population, jobs=1, samples=200, **options)
        assert found.certified <= fair + 1e-9
        assert found.falsified <= unfair + 1e-9
        assert found.certified + found.falsified + found.undecided == pytest.approx(1)
        if "max_boxes" not in options:
            assert found.undecided <= close + 1e-9
            assert found.stopped_by == "done"
        assert (len(found.counterexamples) == 0) or unfair > 0
        assert not found.counterexamples or all(c.first_label != c.second_label for c in found.counterexamples)


def proved_in_rounds(query, points, tails, recording, rng):
    """Prove step by step, and yield the proved fair and unfair mass after each step."""
    engine = TreeEngine(query, 1, recording=recording)
    engine._points, engine._tails = points, tails
    boxes, fair, unfair = engine.root(), 0.0, 0.0
    while len(boxes):
        able = boxes.divisible & (boxes.open > 1e-13)
        if not able.any():
            break
        threshold = float(boxes.open[able].max()) / rng.choice([1.5, 8.0])
        chosen = able & (boxes.open > threshold)
        parts, totals = engine.expand(boxes[chosen], threshold, float(rng.choice([5, 1e9])))
        fair, unfair = fair + totals[0], unfair + totals[1]
        boxes = type(boxes).concatenate([boxes[~chosen], parts])
        if recording:
            settled = boxes.state == SETTLED
            fair, unfair = fair + boxes.known[settled, 1].sum(), unfair + boxes.known[settled, 2].sum()
            boxes = boxes[~settled]
        yield fair + boxes.known[:, 1].sum(), unfair + boxes.known[:, 2].sum()


@given(SEEDS)
@settings(max_examples=scaled(100), deadline=None)
def test_never_proves_more_than_enumeration_and_in_the_end_as_much(seed):
    model, population = random_model(seed, largest=12)
    rng = np.random.default_rng(seed)
    protected = ["p", "a0"] if rng.random() < 0.4 else ["p"]
    query = tree_query_of(model, protected, population, least=int(rng.choice([2, 2, 3])))
    if len(model.base) < 3 and rng.random() < 0.3:
        limit = float(rng.choice([0.0, rng.exponential(), 1e9]))
        query = tree_query_of(model, protected, population, limit=limit)
    if not query.cells or query.constant:
        return
    truth, mass = enumerate_domain(query), query.point_masses()
    mass = mass / mass.sum()
    fair, unfair = mass[truth == FAIR].sum(), mass[truth == UNFAIR].sum()
    for points, tails, recording in ((1.0, TAILS, False), (12.0, TAILS[:0], False), (1e4, TAILS, True)):
        tails = tails if len(query.base) == 1 and query.demanded is None else TAILS[:0]
        proved = (0.0, 0.0)
        for proved in proved_in_rounds(query, points, tails, recording, rng):
            # Identical leaves are decided even within rounding, where enumeration is not.
            assert proved[0] <= 1 - unfair + 1e-9
            assert proved[1] <= 1 - fair + 1e-9
        assert proved[0] >= fair - 1e-9
        assert proved[1] >= unfair - 1e-9


@compile_kernel(nogil=True, error_model="numpy")
def look_at_box(leaves, work, box, found):
    work.inner[:] = box
    if enter_part(leaves, work, 1, False):
        count, groups = work.length[1], group_assignments(leaves, work, 1)
        found[0], found[1] = groups, prove_variance(leaves, work, 1, groups)
        axes = describe_leaves(leaves, work, 1)
        if relate_kinds(leaves, work, axes):
            found[2], found[3] = pair_variances(work, axes, count, groups)


@given(SEEDS)
@settings(max_examples=scaled(100), deadline=None)
def test_variances_and_what_they_prove(seed):
    model, population = random_model(seed, largest=30)
    query = tree_query_of(model, ["p", "a0"] if seed % 3 == 0 else ["p"], population)
    if not query.cells or query.constant or len(query.base) > 1:
        return
    leaves, found = leaf_table_of(query), np.zeros(4)
    box = np.array([[0, cells.count - 1] for cells in query.cells]).T
    if seed % 2:
        box = np.sort(np.random.default_rng(seed).integers(0, box[1] + 1, box.shape), axis=0)
    points = np.array(list(itertools.product(*(range(cells.count) for cells in query.cells))))
    inside = ((points >= box[0]) & (points <= box[1])).all(axis=1)
    truth, mass, points = enumerate_domain(query)[inside], query.point_masses()[inside], points[inside]
    if not mass.any():
        return
    look_at_box(leaves, work := tree_workspace_for(leaves), box, found)
    mass = mass / mass.sum()
    assert found[1] <= mass[truth != UNFAIR].sum() + 1e-9
    entries = query.entries(points)
    members = work.member[: int(found[0])]
    numbers = np.array([query.margins(query.individuals(entries, p))[:, 0] for p in members]).reshape(-1, len(points))
    if not len(numbers) or len(numbers) > MAX_GROUPS or query.slack[0] == 0:
        return  # nothing to compare, no variance is computed, or the leaves are replaced by their signs
    scale = 2.0 ** (SCALE_BITS - np.ceil(np.log2(query.sizes[0])))
    mean = numbers.mean(axis=0)
    effects = [
        (np.bincount(column, mass * (mean - mass @ mean)) ** 2 / np.maximum(np.bincount(column, mass), 1e-300)).sum()
        for column in points.T
    ]
    differences = (mass * (numbers - mean) ** 2).sum() - ((mass * (numbers - mean)).sum(axis=1) ** 2).sum()
    expected = np.array([mass @ (mean - mass @ mean) ** 2 - sum(effects), differences])
    assert found[2:] / scale**2 == pytest.approx(expected, abs=1e-9 * (1 + (numbers**2).max()))


def test_a_deep_tree_over_more_cells_than_leaves_are_paired():
    points = np.array([[age, sex] for age in range(6000) for sex in (0, 1)])
    grown = DecisionTreeClassifier().fit(points, np.random.default_rng(0).random(12_000) < 0.2)
    model = read_sklearn_trees(grown, described([integer("age", 0, 5999), SEX], labels=(False, True)))
    found = certification.certify(model, enumeration=False, jobs=1)
    alike = (grown.predict(points[::2]) == grown.predict(points[1::2])).mean()
    assert (found.certified, found.falsified) == pytest.approx((alike, 1 - alike))


@pytest.mark.parametrize(("fixed", "share"), [(1.0, 0.0), (3.0, 1.0)])
def test_tests_of_constant_columns_are_evaluated(fixed, share):
    # Up to 2 the sex decides, and above nothing does.
    grown = tree([(2, 2.0, 1, 2), (1, 0.0, 3, 4), 1.0, -1.0, 1.0])
    model = boosted([tree([1.0])])
    cells = cell_array([*plain_inputs(model.schema), ListedCell(None, np.array([fixed]))])
    nodes = collect_nodes([grown], inputs=3, outputs=1, location="t")
    model = dataclasses.replace(model, nodes=nodes, columns=cells)
    assert whole_proof(tree_query_of(model)) == pytest.approx((share, 1 - share), abs=1e-9)


@pytest.mark.parametrize("size", [0.0, 1e-312, 1e-260, 1e145])
def test_proves_nothing_false_of_tiny_and_huge_leaves(size):
    # The numbers of the sexes differ by twice the size, although most trees say the opposite.
    grown = [tree([(1, 0.0, 1, 2), size * low, -size * low]) for low in (3.0, -1.0, -1.0)]
    model = boosted(grown)
    decided = size > 1e-300
    assert whole_proof(tree_query_of(model, limit=3 * size)) == (float(decided or size == 0), 0.0)
    assert whole_proof(tree_query_of(model, limit=size)) == (float(size == 0), float(decided))


@pytest.mark.parametrize("size", [1e-312, 1e-12])
def test_leaves_below_the_error_of_a_sigmoid_decide_nothing(size):
    model = boosted([tree([(1, 0.0, 1, 2), -size, size])])
    assert whole_proof(tree_query_of(dataclasses.replace(model, single=True))) == (0.0, 0.0)


def whole_proof(query):
    """Prove the whole domain as one box, and return its fair and unfair shares."""
    engine = TreeEngine(query, 1)
    parts, totals = engine.expand(engine.root(), 2.0)
    return totals[0] + parts.known[:, 1].sum(), totals[1] + parts.known[:, 2].sum()


def real_data(name):
    loaded = datasets.load_dataset(name)
    people = encode(loaded.schema.with_protected(["sex"]), loaded.frame, location=name)
    whole = ~np.isnan(people.individuals).any(axis=1)
    return people, people.schema.inputs(people.individuals[whole])[:3000], people.labels[whole][:3000]


LIBRARIES = {
    "xgboost": ("xgboost", "XGBClassifier", {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}),
    "lightgbm": ("lightgbm", "LGBMClassifier", {"n_estimators": 8, "num_leaves": 7, "n_jobs": 1, "verbose": -1}),
    "forest": ("sklearn.ensemble", "RandomForestClassifier", {"n_estimators": 8, "max_depth": 4}),
    "extra": ("sklearn.ensemble", "ExtraTreesClassifier", {"n_estimators": 8, "max_depth": 4}),
    "boosting": ("sklearn.ensemble", "GradientBoostingClassifier", {"n_estimators": 8, "max_depth": 3}),
    "histogram": ("sklearn.ensemble", "HistGradientBoostingClassifier", {"max_iter": 8, "max_depth": 3}),
}


def fitted(kind, inputs, labels):
    library, name, options = LIBRARIES[kind]
    found = pytest.importorskip(library, reason=f"needs {library}")
    return getattr(found, name)(**options, random_state=0).fit(inputs, labels)


@pytest.mark.parametrize("kind", LIBRARIES)
def test_real_models(kind):
    people, inputs, labels = real_data("german")
    model = fitted(kind, inputs, labels)
    box = extract_white_box(models.load_model(model, people.schema))
    for population in (None, product_of_marginals(people)):
        found = certification.certify(
            box, population=population, max_boxes=3000, jobs=1, samples=4000, counterexamples=20
        )
        assert found.certified + found.falsified > 0.2
        source = product_of_marginals(people) if population is not None else None
        drawn = source.sample(20_000, np.random.default_rng(3)) if source else _uniform(people.schema, 20_000)
        column = people.schema.position("sex")
        answers = []
        for value in range(people.schema["sex"].size):
            drawn[:, column] = value
            answers.append(model.predict(people.schema.inputs(drawn)))
        unfair = float((np.stack(answers) != answers[0]).any(axis=0).mean())
        margin = 5 * np.sqrt(0.25 / 20_000)
        assert found.falsified <= unfair + margin
        assert found.certified <= 1 - unfair + margin
        assert found.estimate.low - margin <= unfair <= found.estimate.high + margin
        _verify(found.counterexamples, model, people.schema)
        certified = [moment.certified + moment.falsified for moment in found.history]
        assert certified == sorted(certified) or max(certified) == pytest.approx(certified[-1], abs=1e-3)


def _uniform(schema, n):
    rng = np.random.default_rng(4)
    return np.stack([rng.integers(a.first, a.last + 1, n).astype(float) for a in schema.attributes], axis=1)


def _verify(examples, model, schema):
    """Every counterexample, asked of the library itself."""
    for example in examples:
        pair = []
        for protected in (example.first, example.second):
            row = [_entry(schema[name], (example.unprotected | protected)[name]) for name in schema.names]
            pair.append(model.predict(schema.inputs(np.array([row])))[0])
        assert pair[0] != pair[1]


def _entry(attribute, text):
    return [str(v) for v in attribute.values].index(text) if attribute.values else float(text)


def test_several_labels_and_thresholds():
    people, inputs, labels = real_data("german")
    model = extract_white_box(models.load_model(fitted("boosting", inputs, labels), people.schema))
    for threshold in (0.3, 0.7):
        found = certification.certify(model, threshold=threshold, max_boxes=2000, jobs=1)
        assert found.threshold == threshold
        assert found.certified > 0.2


def test_behind_preprocessing():
    sklearn = pytest.importorskip("sklearn", reason="needs scikit-learn")
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    assert sklearn
    loaded = datasets.load_dataset("german")
    schema = loaded.schema.with_protected(["sex"])
    people = encode(schema, loaded.frame, location="german")
    words = [a.name for a in schema.attributes if a.is_discrete]
    numbers = [a.name for a in schema.attributes if not a.is_discrete]
    pipeline = make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), words), (StandardScaler(), numbers)),
        GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0),
    )
    frame = loaded.frame[list(schema.names)]
    pipeline.fit(frame, loaded.frame[schema.target.name])
    scorer = models.load_model(pipeline, schema, like=loaded.frame)
    box = extract_white_box(scorer)
    assert np.array_equal(box.predict(people.individuals), scorer.predict(people.individuals))
    found = certification.certify(box, max_boxes=3000, jobs=1)
    assert found.method == "trees"
    assert found.certified + found.falsified > 0.5


def test_one_thread_and_two_reach_a_target():
    people, inputs, labels = real_data("german")
    model = extract_white_box(models.load_model(fitted("boosting", inputs, labels), people.schema))
    one, two = (certification.certify(model, target_undecided=0.1, jobs=jobs) for jobs in (1, 2))
    assert min(1 - one.undecided, 1 - two.undecided) >= 0.9


def test_real_numbers_weigh_what_lies_between_thresholds():
    score = {"name": "score", "kind": "real", "lower": -1, "upper": 3}
    grown = tree([(0, 0.0, 1, 2), -1.0, (1, 0.0, 3, 4), (0, 2.0, 5, 6), 1.0, -1.0, 1.0])
    # Between 0 and 2 only the sex decides; above, everybody gets +1, and below, -1.
    model = boosted([grown], first=score)
    for enumeration in (True, False):
        found = certification.certify(model, enumeration=enumeration, jobs=1)
        assert (found.certified, found.falsified) == pytest.approx((0.5, 0.5), abs=1e-9)
        assert all(0 <= float(c.unprotected["score"]) <= 2 for c in found.counterexamples)
    narrower = certification.certify(model, where=["1 <= score < 3"], jobs=1)
    assert narrower.falsified == pytest.approx(0.5, abs=1e-9)


def test_an_interrupt_keeps_what_is_proved(interruptible):
    people, inputs, labels = real_data("german")
    model = extract_white_box(models.load_model(fitted("forest", inputs, labels), people.schema))

    def impatient(what, share):
        if what.startswith("proving") and share > 0.1:
            signal.raise_signal(signal.SIGINT)

    found = certification.certify(model, enumeration=False, jobs=1, progress=impatient, samples=500)
    assert found.stopped_by == "interrupt"
    assert found.certified + found.falsified > 0.05
    assert found.undecided > 0
