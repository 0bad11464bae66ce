"""How a table was read: it is in every result's JSON, and on every first screen, page and notebook."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import evenhand
from evenhand.core.reading import OutcomeReading, TableReading
from evenhand.dossier import DossierConfig, compile_dossier, write_card
from evenhand.groups import DecisionRoles
from evenhand.mitigation import find_alternatives, refute_alternatives
from evenhand.models import Subject
from evenhand.monitoring import Monitor
from evenhand.schema import encode
from evenhand.schema.people import ColumnRoles
from evenhand.view import render_fragment, render_page
from fake_chat import RecordingChat
from support import small_schema

ROWS = 240
SCHEMA = small_schema(
    skill={"kind": "integer", "lower": 0, "upper": 9, "missing": "drop"},
    sex="F M *",
    race={"kind": "categorical", "values": ["A", "B"], "unknown": ["NA", "Refused"], "missing": "keep"},
)
LABEL = OutcomeReading(column="hired", favourable=("yes",), unfavourable=("no",))


def applicants():
    """Four rows without a skill; race is unknown in five rows, one of them without a skill."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "skill": rng.integers(0, 10, ROWS).astype(float),
            "sex": np.tile(["F", "M"], ROWS // 2),
            "race": np.repeat(["A", "B"], ROWS // 2).astype(object),
        }
    )
    people["hired"] = np.where(people["skill"] > 4, "yes", "no")
    people["premium"] = rng.normal(100, 10, ROWS).round(2)
    people.loc[:3, "skill"] = np.nan
    people.loc[3:4, "race"] = "NA"
    people.loc[5:6, "race"] = "Refused"
    people.loc[7, "race"] = None
    return people


def decide(frame):
    return np.where(frame["skill"] - 2 * (frame["sex"] == "F") > 3, "yes", "no")


def subject():
    return Subject(decide, ColumnRoles(schema=SCHEMA).read(applicants()))


FROM_MODEL = {
    "audit": lambda: evenhand.audit(decide, applicants(), schema=SCHEMA, budget=5000),
    "search": lambda: evenhand.search(decide, applicants(), schema=SCHEMA, budget=400),
    "subgroups": lambda: evenhand.find_subgroups(decide, applicants(), schema=SCHEMA, protected=["sex"]),
    "alternatives": lambda: find_alternatives(subject(), methods=("thresholds",)).result,
    "refutation": lambda: refute_alternatives(subject(), features=["skill > 4"]),
}


def require_everywhere(result):
    """Check that how each table was read is in the JSON, and on every rendering."""
    document = result.document()
    lines = [reading.describe() for reading in result.readings.values()]
    assert lines
    assert type(result).from_json(result.to_json()).readings == result.readings
    for line in lines:
        assert line in result.summary().split("\n\n")[0]  # above the first block
        assert line in "".join(document.opening_lines)
    for rendered in (render_page(document), render_fragment(document), result.to_markdown()):
        assert f"{result.readings[next(iter(result.readings))].rows:,} rows: " in rendered.replace("\u00a0", " ")


@pytest.mark.parametrize("name", FROM_MODEL)
def test_results_about_a_model_say_how_people_were_read(name):
    result = FROM_MODEL[name]()
    assert result.table_reading == TableReading(
        rows=ROWS,
        used=ROWS - 4,
        left_out={"without a value of skill": 4},
        true_label=LABEL,
        unknown={"race": {"Refused": 2, "": 1, "NA": 1}},
    )
    require_everywhere(result)


def test_parts_of_an_audit_do_not_repeat_it():
    text = FROM_MODEL["audit"]().to_json()
    assert text.count('"table_reading"') == 1


@pytest.mark.parametrize("name", ["certify", "mitigate"])
def test_results_about_fitted_models_say_how_people_were_read(name):
    people = applicants().dropna(subset="skill")[["skill", "sex", "hired"]]
    people["sex"] = (people["sex"] == "F").astype(int)
    model = LogisticRegression().fit(people[["skill", "sex"]], people["hired"])
    settings = {"target": "hired", "favourable": "yes", "protected": ["sex"]}
    if name == "certify":
        result = evenhand.certify(model, people, **settings)
    else:
        methods = {"methods": ["blind"], "certify_effort": 0}
        result = evenhand.mitigate(model, people, **settings, **methods).result
    assert result.table_reading == TableReading(rows=ROWS - 4, used=ROWS - 4, true_label=LABEL)
    require_everywhere(result)


def test_decisions_say_which_rows_have_none():
    people = applicants()
    people["truth"] = people["hired"]
    people.loc[:9, "hired"] = None
    people.loc[20:25, "truth"] = None
    roles = {"y_pred": "hired", "y_true": "truth", "sensitive_features": ["sex", "race"], "favourable": "yes"}
    result = evenhand.audit_predictions(data=people, schema=SCHEMA, **roles)
    reading = result.table_reading
    assert (reading.rows, reading.used, reading.unlabelled) == (ROWS, ROWS - 10, 6)
    assert reading.left_out == {"without a decision": 10}
    assert reading.decision == LABEL
    assert reading.true_label.column == "truth"
    assert reading.true_label.favourable == ("yes",)
    require_everywhere(result)


def test_rows_that_are_counted_are_read_the_same():
    import polars as pl

    people = applicants()
    people.loc[:9, "hired"] = None
    roles = DecisionRoles("hired", ["sex", "race"], favourable="yes", schema=SCHEMA)
    columns = ["hired", "sex", "race"]
    lazy = pl.from_pandas(people[columns]).lazy()
    assert roles.read(lazy).people.reading == roles.read(people[columns]).people.reading


def test_a_threshold_is_the_favourable_decision():
    people = applicants()
    result = evenhand.audit_predictions(data=people, y_score="premium", threshold=100, sensitive_features=["sex"])
    assert result.table_reading.decision == OutcomeReading(column="premium", favourable=("100 or more",))
    require_everywhere(result)


def test_numbers_and_labels_say_what_is_favourable():
    people = applicants()
    numbers = evenhand.audit_predictions(data=people, y_pred="premium", favourable="lower", sensitive_features=["sex"])
    assert numbers.table_reading.decision == OutcomeReading(column="premium", favourable=("lower",))
    require_everywhere(numbers)
    labels = evenhand.audit_predictions(data=people, y_pred="race", kind="labels", sensitive_features=["sex"])
    assert labels.table_reading.decision == OutcomeReading(column="race")
    require_everywhere(labels)


def test_rankings_say_which_candidates_have_no_place():
    people = applicants()
    place = np.r_[[np.nan] * 5, np.arange(1, ROWS - 4)]
    result = evenhand.audit_rankings(place, sensitive_features=people[["sex"]])
    assert result.table_reading == TableReading(rows=ROWS, used=ROWS - 5, left_out={"without a rank": 5})
    require_everywhere(result)


def test_a_comparison_says_it_of_both_tables():
    people = applicants()
    settings = {"y_pred": "hired", "favourable": "yes", "sensitive_features": ["sex"]}
    audits = [evenhand.audit_predictions(data=rows, **settings) for rows in (people, people[:200])]
    result = evenhand.compare(*audits)
    assert {name: reading.rows for name, reading in result.readings.items()} == {"Before": ROWS, "After": 200}
    require_everywhere(result)


def test_test_data_are_read_by_themselves():
    tested = ColumnRoles(schema=SCHEMA).read(applicants()[:100])
    result = find_alternatives(subject(), methods=("thresholds",), test=tested).result
    assert {name: reading.rows for name, reading in result.readings.items()} == {"": ROWS, "Test data": 100}
    require_everywhere(result)


def test_a_dossier_and_cards_say_it():
    people = applicants()
    people.loc[:9, "hired"] = None
    config = DossierConfig.model_validate(
        {
            "outcome": {"column": "hired", "selected": ["yes"]},
            "attributes": {"sex": {"column": "sex"}, "race": {"column": "race"}},
            "unknown": ["NA", "Refused"],
        }
    )
    result = compile_dossier(people, config)
    assert (result.table_reading.rows, result.table_reading.used) == (ROWS, ROWS - 10)
    assert result.table_reading.left_out == {"without an outcome": 10}
    require_everywhere(result)
    audit = FROM_MODEL["audit"]()
    assert audit.table_reading.describe() in write_card(audit).replace("\\", "")


def test_a_monitor_says_which_events_it_reads():
    monitor = Monitor(
        {
            "groups": {"by": ["sex"], "values": {"sex": ["F", "M"]}},
            "watch": [{"gap": "selection_rate", "tolerance": 0.02}],
            "fields": {"favourable": "hire"},
        }
    )
    monitor.add({"sex": sex, "decision": "hire"} for sex in ["F", "M"] * 20)
    result = monitor.result(skipped=3)
    assert result.table_reading == TableReading(
        rows=43,
        used=40,
        left_out={"not readable": 3},
        decision=OutcomeReading(column="decision", favourable=("hire",)),
    )
    require_everywhere(result)


def test_a_language_model_says_which_rows_are_templates():
    entries = {"prompt": "{{ person.name }}: {{ text }} Invite?", "people": {"names": "bertrand-mullainathan"}}
    entries["answers"] = {"choices": ["yes", "no"], "favourable": "yes"}
    with RecordingChat(0.5) as chat:
        entries["service"] = {"url": chat.url, "model": "fake"}
        texts = ["A clerk.", "A cook.", "A nurse."]
        result = evenhand.audit_language_model(entries, texts, sweeps=2, findings=0, templates=2)
    assert result.table_reading == TableReading(rows=3, used=2, left_out={"not drawn as templates": 1})
    require_everywhere(result)


CELLS = st.sampled_from(["A", "B", "NA", "Refused", " NA ", None])


@given(st.lists(st.tuples(st.sampled_from(["F", None]), CELLS), min_size=1, max_size=30))
def test_rows_and_unknown_values_add_up(cells):
    frame = pd.DataFrame(cells, columns=["sex", "race"], dtype=object)
    sex = {"kind": "categorical", "values": ["F"], "missing": "drop"}
    race = {"kind": "categorical", "values": ["A", "B"], "unknown": ["NA", "Refused"]}
    kept = [race for sex, race in cells if sex is not None]
    if not kept:
        return
    people = encode(small_schema(sex=sex, race=race), frame)
    reading = people.reading
    assert reading.rows == len(cells) == reading.used + sum(reading.left_out.values())
    assert reading.used == len(kept) == len(people)
    expected = [race.strip() if race else "" for race in kept if race not in ("A", "B")]
    assert reading.unknown["race"] == {word: expected.count(word) for word in set(expected)}
    assert sum(reading.unknown["race"].values()) == people.count_unknown()["race"]
    assert people.at(np.arange(1)).reading == reading
