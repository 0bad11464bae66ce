"""What people read of a search: distances, kinds, severity, attributes that matter; each against a slow definition."""

import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import models
from evenhand.errors import OptionError
from evenhand.individual import search
from evenhand.individual.search.distance import GowerDistance, k_medoids
from evenhand.individual.search.reading import cut_ranges
from evenhand.individual.search.result import SearchResult
from evenhand.individual.search.save import replay_profiles
from evenhand.schema import Attribute, Schema, Target, encode
from evenhand.view.charts.search import draw_attributes, draw_gaps
from evenhand.view.drawing.theme import to_svg
from support import scaled

SCHEMA = Schema(
    target=Target(name="hired", favourable="yes", values=("no", "yes")),
    attributes=(
        Attribute(name="grade", kind="integer", lower=0, upper=20),
        Attribute(name="sex", kind="categorical", values=("f", "m"), protected=True),
        Attribute(name="region", kind="categorical", values=("north", "south", "west")),
        Attribute(name="savings", kind="real", lower=0, upper=1000),
    ),
)


def prefers_men(frame):
    """Grade decides; in the south, and only there, men get three points more."""
    bonus = 3 * ((frame["sex"] == "m") & (frame["region"] == "south"))
    return 1 / (1 + np.exp(-(frame["grade"] + bonus - 10.5)))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "grade": rng.integers(0, 21, n),
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["north", "south", "west"], n),
            "savings": np.where(rng.random(n) < 0.5, 0.0, rng.integers(0, 1000, n)),
        }
    )
    return encode(SCHEMA, frame)


@pytest.fixture(scope="module")
def found(people):
    return search.search(prefers_men, people, method="random", seeds=60, local=20, samples=500, most_examples=500)


ATTRIBUTES = tuple(attribute for attribute in SCHEMA.attributes if attribute.name != "sex")
ROWS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 2), st.integers(0, 1000)).map(lambda row: tuple(map(float, row))),
    min_size=1,
    max_size=12,
)


@given(ROWS, ROWS)
def test_gower_by_definition(rows, others):
    got = GowerDistance(ATTRIBUTES).between(np.array(rows), np.array(others))
    for (i, one), (j, two) in itertools.product(enumerate(rows), enumerate(others)):
        expected = (abs(one[0] - two[0]) / 20 + (one[1] != two[1]) + abs(one[2] - two[2]) / 1000) / 3
        assert got[i, j] == pytest.approx(expected, abs=1e-6)
    distance, which = GowerDistance(ATTRIBUTES).nearest(np.array(rows), np.array(others))
    assert np.array_equal(distance, got.min(axis=1))
    assert np.array_equal(which, got.argmin(axis=1))


@settings(max_examples=scaled(50))
@given(ROWS, st.integers(1, 4))
def test_medoids_are_no_worse_than_one_and_settled(rows, most):
    distances = GowerDistance(ATTRIBUTES).between(np.array(rows), np.array(rows))
    medoids = k_medoids(distances, most)
    assert len(set(medoids.tolist())) == len(medoids) <= most
    assert distances[medoids].min(axis=0).sum() <= distances.sum(axis=1).min() + 1e-5
    if most == 1:
        assert distances[medoids[0]].sum() == pytest.approx(distances.sum(axis=1).min(), abs=1e-5)


def test_medoids_find_planted_groups():
    rng = np.random.default_rng(1)
    grade = np.concatenate([rng.integers(0, 3, 40), rng.integers(17, 20, 25), rng.integers(9, 11, 10)])
    rows = np.stack([grade, np.repeat([0, 1, 2], [40, 25, 10]), np.full(75, 5.0)], axis=1)
    medoids = k_medoids(GowerDistance(ATTRIBUTES).between(rows, rows), 6)
    assert rows[medoids, 1].tolist() == [0, 1, 2]


def test_everything_found_is_in_the_south(found):
    assert found.profiles > 5
    first = found.reading.attributes[0]
    assert {example.unprotected["region"] for example in found.examples} == {"south"}
    region = next(one for one in found.reading.attributes if one.name == "region")
    assert region.sensitive == 1  # north and west are decided alike
    data = next(share.data for share in region.shares if share.value == "south")
    assert region.differs == pytest.approx(1 - data)
    savings = next(one for one in found.reading.attributes if one.name == "savings")
    assert savings.sensitive == 0
    assert first.name in ("region", "grade")
    assert all(sum(share.found for share in one.shares) == pytest.approx(1) for one in found.reading.attributes)
    assert all(kind.common["region"] == "south" for kind in found.reading.kinds)
    assert sum(kind.size for kind in found.reading.kinds) == found.profiles == sum(found.reading.gaps)
    assert len(found.representatives) == len(found.reading.kinds)


def test_severity_by_definition(found, people):
    severities = [example.severity for example in found.examples]
    assert severities == sorted(severities, reverse=True)
    real = people.individuals[:, [0, 2, 3]]
    for example in found.examples:
        grade, savings = float(example.unprotected["grade"]), float(example.unprotected["savings"])
        apart = np.abs(real[:, 0] - grade) / 20 + (real[:, 1] != 1) + np.abs(real[:, 2] - savings) / 1000
        assert example.distance == pytest.approx(apart.min() / 3, abs=1e-4)
        assert example.severity == pytest.approx(example.gap * (1 - example.distance), abs=1e-4)
        assert (example.changes == {}) == (example.distance == 0)


def test_without_data_and_without_findings():
    result = search.search(prefers_men, SCHEMA, method="random", seeds=100, samples=100)
    assert result.reading.distance is None
    assert all(share.data is None for one in result.reading.attributes for share in one.shares)
    assert draw_attributes(result).description
    none = search.search(lambda frame: frame["grade"] / 20, SCHEMA, method="random", seeds=10, samples=10)
    assert none.reading is None
    assert none.representatives == ()
    assert draw_gaps(none)["description"] == "Score gaps of the profiles found."
    assert draw_attributes(none).description == "No profiles were found."


def test_the_model_is_not_asked_beyond_the_budget(people):
    asked = []

    def counting(frame):
        asked.append(len(frame))
        return prefers_men(frame)

    scorer = models.load_model(counting, people.schema, like=people.frame)
    asked.clear()
    result = search.search(scorer, people, method="random", budget=400, samples=0)
    assert all(one.sensitive is None for one in result.reading.attributes)
    # Scores and labels of the search are asked for separately, and each profile once more at the end.
    assert sum(asked) <= 2 * 400 + 2 * result.profiles


def test_it_travels_as_json_and_draws(found):
    again = SearchResult.from_json(found.to_json())
    assert again == found
    for result in (found, again):
        assert "region: south has 100 % of the profiles" in draw_attributes(result).description
        assert to_svg(draw_gaps(result), name="gaps").startswith("<svg")
        result.plot()


@pytest.mark.parametrize("seed", range(5))
def test_ranges_tile_the_domain(seed):
    rng = np.random.default_rng(seed)
    for attribute in (
        Attribute(name="a", kind="integer", lower=-5, upper=80),
        Attribute(name="b", kind="integer", lower=0, upper=3),
        Attribute(name="c", kind="real", lower=0, upper=1),
    ):
        entries = attribute.first + (attribute.last - attribute.first) * rng.random(200) ** 3
        entries = np.floor(entries) if attribute.kind == "integer" else entries
        entries[: rng.integers(0, 150)] = attribute.first
        edges, names = cut_ranges(attribute, entries)
        assert len(edges) == len(names) + 1
        assert (np.diff(edges) > 0).all()
        assert np.histogram(np.append(entries, attribute.last), edges)[0].sum() == 201
        assert len(names) <= 11


def run_tests(path, model, folder):
    done = subprocess.run(
        [sys.executable, str(path), model, "-q", "-p", "no:cacheprovider", "-p", "no:randomly"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.full
def test_saved_tests_fail_on_the_same_model_and_pass_on_a_constant_one(found, tmp_path):
    (tmp_path / "hiring.py").write_text(
        "import numpy as np\n\n"
        "def same(frame):\n"
        "    bonus = 3 * ((frame['sex'] == 'm') & (frame['region'] == 'south'))\n"
        "    return 1 / (1 + np.exp(-(frame['grade'] + bonus - 10.5)))\n\n"
        "def constant(frame):\n"
        "    return ['no'] * len(frame)\n"
    )
    path = tmp_path / "test_again.py"
    count = search.save_tests(found, path, most=7)
    assert count == 7
    code, said = run_tests(path, "hiring:same", tmp_path)
    assert (code, "7 failed" in said) == (1, True), said
    code, said = run_tests(path, "hiring:constant", tmp_path)
    assert (code, "7 passed" in said) == (0, True), said


def test_replay_asks_about_exactly_these_people(found):
    order = np.lexsort((-found.table.gap, ~found.table.profiles.valid))[:20]
    frame = found.table.to_frame().iloc[order][["grade", "region", "savings"]]
    said = replay_profiles(prefers_men, json.loads(SCHEMA.model_dump_json()), frame.to_dict("records"), ["sex"])
    assert all(set(one) == {"sex=f", "sex=m"} for one in said)
    assert all(one["sex=f"] == "no" and one["sex=m"] == "yes" for one in said)


def test_what_cannot_be_saved(found, tmp_path):
    with pytest.raises(OptionError, match="read from JSON"):
        search.save_tests(SearchResult.from_json(found.to_json()), tmp_path / "test_x.py")
    with pytest.raises(OptionError, match="cannot be written"):
        search.save_tests(found, tmp_path / "absent" / "test_x.py")
    with pytest.raises(OptionError, match="must end in"):
        search.save_table(found.to_frame(), tmp_path / "pairs.xls")


def test_a_table_reads_back(found, tmp_path):
    search.save_table(found.to_frame(), tmp_path / "pairs.csv")
    frame = pd.read_csv(tmp_path / "pairs.csv")
    assert len(frame) == found.profiles
    assert set(frame["region"]) == {"south"}
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    search.save_table(found.to_frame(), tmp_path / "pairs.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "pairs.parquet"), frame, check_dtype=False)
