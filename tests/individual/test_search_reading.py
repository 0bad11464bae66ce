"""Results of a search: gaps, favoured values, saved tests and tables."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from evenhand.cli.options import write_table
from evenhand.errors import OptionError
from evenhand.individual import search
from evenhand.individual.search.result import SearchResult
from evenhand.schema import Attribute, Schema, Target, encode
from evenhand.view.charts.search import draw_gaps
from evenhand.view.drawing.theme import to_svg
from support import draw_frame

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
    frame = draw_frame(rng, n, grade=(0, 20), sex="f m", region="north south west")
    frame["savings"] = np.where(rng.random(n) < 0.5, 0.0, rng.integers(0, 1000, n))
    return encode(SCHEMA, frame)


@pytest.fixture(scope="module")
def found(people):
    return search.search(prefers_men, people, method="random", seeds=60, local=20, samples=500, most_examples=500)


def test_everything_found_is_in_the_south(found):
    assert found.profiles > 5
    assert {example.unprotected["region"] for example in found.examples} == {"south"}
    assert sum(found.gaps) == found.profiles
    assert found.favoured == {"sex m": found.profiles}
    gaps = [example.gap for example in found.examples]
    assert gaps == sorted(gaps, reverse=True)


def test_without_data_and_without_findings():
    result = search.search(prefers_men, SCHEMA, method="random", seeds=100, samples=100)
    assert result.profiles > 0
    none = search.search(lambda frame: frame["grade"] / 20, SCHEMA, method="random", seeds=10, samples=10)
    assert (none.gaps, none.favoured) == ((), {})
    assert draw_gaps(none)["description"] == "Score gaps of the profiles found."


def test_it_travels_as_json_and_draws(found):
    again = SearchResult.from_json(found.to_json())
    assert again == found
    assert "table" not in json.loads(found.to_json())
    assert len(again.to_frame()) == len(found.examples)
    for result in (found, again):
        assert to_svg(draw_gaps(result), name="gaps").startswith("<svg")
        result.plot()


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


def test_what_cannot_be_saved(found, tmp_path):
    with pytest.raises(OptionError, match="read from JSON"):
        search.save_tests(SearchResult.from_json(found.to_json()), tmp_path / "test_x.py")
    with pytest.raises(OptionError, match="cannot be written"):
        search.save_tests(found, tmp_path / "absent" / "test_x.py")


def test_a_table_reads_back(found, tmp_path):
    write_table(found.to_frame(), tmp_path / "pairs.csv")
    frame = pd.read_csv(tmp_path / "pairs.csv")
    assert len(frame) == found.profiles
    assert set(frame["region"]) == {"south"}
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    write_table(found.to_frame(), tmp_path / "pairs.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "pairs.parquet"), frame, check_dtype=False)
