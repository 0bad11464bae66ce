"""Verbs: their arguments, and how every result says that a table was read."""

import doctest

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand
from evenhand import api
from evenhand.auditing.config import AuditConfig, DecisionAuditConfig
from evenhand.certification.config import CertifyConfig
from evenhand.core.reading import OutcomeReading, TableReading
from evenhand.dossier import DossierConfig, compile_dossier, write_card
from evenhand.errors import EvenhandError, OptionError, SchemaError
from evenhand.groups import DecisionRoles
from evenhand.groups.rankings.config import RankingConfig
from evenhand.individual.search.config import SearchConfig
from evenhand.llm.config import LanguageModelConfig
from evenhand.mitigation import find_alternatives, refute_alternatives
from evenhand.mitigation.config import MitigationConfig
from evenhand.models import Subject
from evenhand.monitoring import Monitor
from evenhand.schema import encode
from evenhand.schema.people import ColumnRoles
from evenhand.shields.spec.configuration import ShieldConfig
from evenhand.subgroups.config import NumberSubgroupConfig, SubgroupConfig
from evenhand.view import render_fragment, render_page
from fake_chat import RecordingChat
from support import small_schema

EXAMPLES = [test for test in doctest.DocTestFinder().find(api) if test.examples]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_of_every_verb_runs(example):
    assert doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(example).failed == 0


def test_every_verb_has_an_example_and_is_on_the_package():
    assert {example.name.rpartition(".")[2] for example in EXAMPLES} == set(api.__all__)
    assert all(getattr(evenhand, name) is getattr(api, name) for name in api.__all__)


def messy(n=200):
    """People with missing numbers and missing words, and their labels."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "age": rng.integers(18, 70, n).astype(float),
            "sex": rng.choice(["F", "M"], n),
            "city": rng.choice(["a", "b", None], n),
            "skill": rng.normal(size=n),
        }
    )
    people.loc[::17, "age"] = np.nan
    hired = np.where(people["skill"] + (people["sex"] == "M") > 0.3, "yes", "no")
    return people, pd.Series(hired, name="hired")


@pytest.fixture(scope="module")
def model():
    people, hired = messy()
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "city"]), (SimpleImputer(), ["age", "skill"])
    )
    return make_pipeline(columns, LogisticRegression(max_iter=500)).fit(people, hired.to_numpy())


def test_labels_may_stand_beside_the_data_or_in_it(model):
    people, hired = messy()
    beside = evenhand.search(model, people, hired, protected=["sex"], budget=400)
    within = evenhand.search(
        model, people.assign(hired=hired.to_numpy()), target="hired", protected=["sex"], budget=400
    )
    assert beside.profiles == within.profiles > 0
    frame = beside.to_frame()
    pd.testing.assert_frame_equal(frame, within.to_frame())
    listed = evenhand.search(model, people, list(hired), target="hired", protected=["sex"], budget=400)
    pd.testing.assert_frame_equal(frame, listed.to_frame())


def test_the_callers_frame_is_left_as_it_was(model):
    people, hired = messy()
    before = people.copy()
    evenhand.find_subgroups(model, people, hired, protected=["sex"], permutations=100)
    pd.testing.assert_frame_equal(people, before)


def test_a_function_is_asked_with_frames_of_the_callers_kind():
    people, hired = messy()
    kinds = set()

    def decide(frame):
        kinds.add(type(frame))
        return (frame["skill"].to_numpy() > 0).astype(int)

    found = evenhand.search(
        decide, pl.from_pandas(people), (hired == "yes").to_numpy().astype(int), protected=["sex"], budget=100
    )
    assert found.profiles == 0
    assert kinds == {pl.DataFrame}


def test_a_table_may_be_a_file(model, tmp_path):
    people, hired = messy()
    people.assign(hired=hired.to_numpy()).to_csv(tmp_path / "people.csv", index=False)
    found = evenhand.find_subgroups(model, tmp_path / "people.csv", target="hired", protected=["sex"])
    assert found.people == 200


def test_subgroups_take_numbers_that_cannot_be_varied(model):
    people, hired = messy()
    found = evenhand.find_subgroups(model, people, hired, protected=["skill", "sex"])
    assert {cells.name for cells in found.attributes} == {"skill", "sex"}


@pytest.mark.parametrize("name", ["age", None])
def test_labels_beside_the_data_may_bear_the_name_of_a_column_that_holds_something_else(name):
    people, hired = messy()
    people = people.rename(columns={} if name else {"age": "label"})
    result = evenhand.search(
        lambda frame: frame["sex"] == "M", people, hired.rename(name), protected=["sex"], budget=99
    )
    assert result.profiles > 0


def with_labels(people):
    return {"target": "hired", "data": people.assign(hired=messy()[1].to_numpy())}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda people: {"y": None, "target": "hire"}, r"expected a column of the data as `target=`, got 'hire'"),
        (lambda people: {"target": "hird", "y": None, "data": people.assign(hired=1)}, "did you mean 'hired'"),
        (lambda people: {"y": None}, "got neither target= nor y="),
        (lambda people: {"protected": None}, r"at least one protected attribute, got none(?s:.*)`protected=NAME`"),
        (lambda people: {"protected": "sex"}, r"protected=\['sex'\]"),
        (lambda people: {"protected": people["sex"]}, r"distinct names as `protected=`(?s:.*)protected=\['sex'\]"),
        (lambda people: {"protected": people["age"]}, r"got a Series of 200 values\n  -> protected=\['age'\]"),
        (lambda people: {"protected": 3}, r"got 3\n  -> name the columns: protected=\['sex'\]"),
        (lambda people: {"data": people.to_dict("list")}, r"got dict\n  -> pandas.DataFrame\(data\)"),
        (lambda people: {"data": LogisticRegression()}, "pass the model first, then the data"),
        (lambda people: {"protected": ["gender"]}, r"`protected=`, got 'gender'(?s:.*)age, sex, city, skill"),
        (lambda people: {**with_labels(people), "y": None, "protected": ["hired"]}, "got the target 'hired'"),
        (lambda people: with_labels(people), "got both y= and the column 'hired'"),
        (lambda people: {**with_labels(people), "target": None}, "got both y= and the column 'hired'"),
        (lambda people: {"data": people.iloc[:0], "y": []}, "without rows"),
        (lambda people: {"data": people.to_numpy()}, r"expected a data frame, got ndarray of shape \(200, 4\)"),
        (lambda people: {"data": None}, "expected a data frame, got none"),
        (lambda people: {"y": ["yes", "no"]}, "got 200 in `data=`, 2 in `y=`"),
        (lambda people: {"y": "hired"}, "target='hired'"),
        (lambda people: {"y": messy()[1][::-1]}, "the index of `data=` differs from the index of `y=`: row 1 is"),
        (
            lambda people: {"sample_weight": pd.Series(1, people.index + 1)},
            "labelled 0 in the former and 1 in the latter",
        ),
        (lambda people: {"y": ["yes"] * 200}, "only one class"),
        (lambda people: {"y": [None] + ["yes", "no"] * 99 + ["no"]}, "row 1: expected a label"),
        (lambda people: {"y": ["ja", "nein"] * 100}, "favourable="),
        (lambda people: {"data": people.assign(notes=[{}] * 200)}, "'notes' holds dict values"),
        (lambda people: {"data": people.assign(day=pd.Timestamp("2020-01-01"))}, "'day' holds dates or times"),
        (
            lambda people: {"data": people.assign(key=[f"p{i}" for i in range(200)])},
            "different values in 200 rows, an identifier",
        ),
        (lambda people: {"data": people.assign(skill=np.inf)}, "'skill' has numbers that are not finite: inf"),
        (
            lambda people: {"data": people.rename(columns={"age": 0})},
            "expected text as column names in `data=`",
        ),
        (lambda people: {"data": pd.concat([people, people[["age"]]], axis=1)}, "distinct column names"),
        (lambda people: {"protected": ["skill"]}, "'skill' is a protected number with fractions: cut into ranges"),
        (lambda people: {"data": people.drop(columns="city")}, "fitted on a column 'city'"),
    ],
)
def test_what_cannot_be_used_is_one_clear_error(model, change, expected):
    people, hired = messy()
    arguments = {"data": people, "y": hired, "protected": ["sex"], **change(people)}
    with pytest.raises(evenhand.EvenhandError, match=expected):
        evenhand.audit(model, **arguments, time_limit=1)


@pytest.mark.parametrize("spelling", ["favourable", "favorable"])
def test_the_favourable_label_is_a_number_however_it_is_written(model, spelling):
    people, hired = messy()
    labels = (hired == "yes").astype(float)

    def rule(frame):
        return (frame["skill"] > 0).astype(float)

    for value in (1, "1", 1.0, "1.0"):
        result = evenhand.find_subgroups(rule, people, labels, protected=["sex"], **{spelling: value})
        assert result.people == 200
    reversed_ = evenhand.find_subgroups(rule, people, labels, protected=["sex"], **{spelling: 0})
    assert reversed_.people == 200


def test_a_shield_is_given_by_a_file_or_by_entries(tmp_path):
    (tmp_path / "shield.yaml").write_text(
        "property: demographic_parity\nkappa: '0.2'\nhorizon: 10\n"
        "groups: {a: {rate: 0.5, accept: 0.3}, b: {rate: 0.5, accept: 0.6}}\n"
    )
    policy = evenhand.synthesize_shield(tmp_path / "shield.yaml")
    changed = evenhand.synthesize_shield(
        {"property": "demographic_parity", "kappa": "0.2", "horizon": 10},
        groups={"a": {"rate": 0.5, "accept": 0.3}, "b": {"rate": 0.5, "accept": 0.6}},
    )
    assert policy.expected_cost == changed.expected_cost > 0
    with pytest.raises(evenhand.EvenhandError, match="expected either a file or entries"):
        evenhand.synthesize_shield(tmp_path / "shield.yaml", horizon=3)


def test_groups_of_a_generator_are_a_list():
    with pytest.raises(evenhand.EvenhandError, match=r"groups=\['gender'\]"):
        evenhand.assess_generator(pd.DataFrame({"gender": ["a", "b"]}), "gender")


def test_certify_takes_the_same_arguments_without_data_as_with():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"skill": rng.integers(0, 10, 200), "female": rng.integers(0, 2, 200)})
    hired = np.where(people["skill"] - 2 * people["female"] > 3, "yes", "no")
    model = LogisticRegression().fit(people, hired)
    with_data = evenhand.certify(model, people, hired, protected=["female"], favourable="yes", seed=3)
    schema = ColumnRoles("hired", ["female"], "yes").read(people.assign(hired=hired)).schema
    first = evenhand.certify(model, schema=schema, seed=3)
    assert (first.certified, first.falsified) == (with_data.certified, with_data.falsified)
    named = evenhand.certify(model, schema=schema, seed=3, favorable="no", model_name="mine", trust=True)
    assert named.certified == first.certified
    by_people = evenhand.certify(model, people, hired, protected=["female"], population="data", max_boxes=2_000)
    assert by_people.population != first.population
    with pytest.raises(SchemaError, match="maybe"):
        evenhand.certify(model, schema=schema, favourable="maybe")
    with pytest.raises(OptionError, match="data"):
        evenhand.certify(model, y=hired, schema=schema)


@pytest.mark.parametrize("argument", [{"encoding": "latin-1"}, {"sheet": "people"}])
def test_arguments_about_files_are_refused_for_data_frames(model, argument):
    people, hired = messy()
    for verb in (evenhand.audit, evenhand.search, evenhand.find_subgroups, evenhand.certify, evenhand.mitigate):
        with pytest.raises(OptionError, match=next(iter(argument))):
            verb(model, people, hired, protected=["sex"], **argument)


RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"skill": RNG.integers(0, 10, 200), "sex": RNG.choice(["f", "m"], 200)})
HIRED = (PEOPLE["skill"] > 4).astype(int)
TABLE = PEOPLE.assign(hired=HIRED)
SEX = {"sex": PEOPLE["sex"]}


def arguments_model(frame):
    return (frame["skill"] - 2 * (frame["sex"] == "f") > 3).astype(int)


CALLS = {
    "model and data exchanged": lambda: evenhand.audit(PEOPLE, arguments_model, HIRED, protected=["sex"]),
    "target is a Series": lambda: evenhand.audit(arguments_model, PEOPLE, target=HIRED, protected=["sex"]),
    "protected twice": lambda: evenhand.audit(arguments_model, PEOPLE, HIRED, protected=["sex", "sex"]),
    "protected is ignored": lambda: evenhand.audit(
        arguments_model, TABLE, target="hired", protected=["sex"], ignore=["sex"]
    ),
    "no model": lambda: evenhand.audit(None, PEOPLE, HIRED, protected=["sex"]),
    "too many positional arguments": lambda: evenhand.audit(arguments_model, PEOPLE, HIRED, "sex"),
    "show_people is text": lambda: evenhand.search(arguments_model, PEOPLE, HIRED, protected=["sex"], show_people="no"),
    "search: too many": lambda: evenhand.search(arguments_model, PEOPLE, HIRED, "hired"),
    "search: budget is text": lambda: evenhand.search(arguments_model, PEOPLE, HIRED, protected=["sex"], budget="300"),
    "search: no arguments": lambda: evenhand.search(),
    "subgroups: attributes twice": lambda: evenhand.find_subgroups(
        arguments_model, TABLE, target="hired", protected=["sex"], attributes=["skill"]
    ),
    "certify: a function": lambda: evenhand.certify(arguments_model, PEOPLE, HIRED, protected=["sex"]),
    "mitigate: findings are numbers": lambda: evenhand.mitigate(
        arguments_model, TABLE, target="hired", protected=["sex"], findings=[3]
    ),
    "compare: numbers": lambda: evenhand.compare(1, 2),
    "compare: frames": lambda: evenhand.compare(TABLE, TABLE),
    "compare: None": lambda: evenhand.compare(None, None),
    "rankings: two positional": lambda: evenhand.audit_rankings(np.arange(1, 201), SEX),
    "rankings: rank twice": lambda: evenhand.audit_rankings(
        rank=np.arange(1, 201), rank_by=np.arange(200), sensitive_features=SEX
    ),
    "predictions: features are a set": lambda: evenhand.audit_predictions(HIRED, sensitive_features={"sex"}),
    "shield: a number": lambda: evenhand.synthesize_shield(3),
    "shield: a frame": lambda: evenhand.synthesize_shield(TABLE),
    "shield: two positional": lambda: evenhand.synthesize_shield("a", "b"),
    "generator: no groups": lambda: evenhand.assess_generator(TABLE),
    "language model: a number": lambda: evenhand.audit_language_model(3, TABLE),
    "language model: a frame": lambda: evenhand.audit_language_model(TABLE, {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_refused(name):
    with pytest.raises(EvenhandError):
        CALLS[name]()


@pytest.mark.parametrize("verb", api.__all__)
def test_settings_that_there_are_not_are_refused(verb):
    with pytest.raises(EvenhandError, match="sead"):
        getattr(evenhand, verb)(sead=1)


def test_unknown_names_are_refused_with_the_nearest_name():
    with pytest.raises(OptionError, match="search has no argument 'favourabel'") as caught:
        evenhand.search(arguments_model, TABLE, target="hired", protected=["sex"], favourabel=1)
    assert "did you mean 'favourable'?" in str(caught.value)


OTHER_SETTINGS = {"answers", "certificate", "compile_limit", "data", "favourable_target", "metrics", "out", "test"}
OTHER_SETTINGS |= {"test_name", "workers"}

SETTINGS = {
    api.AuditSettings: [AuditConfig],
    api.DecisionAuditSettings: [DecisionAuditConfig],
    api.RankingSettings: [RankingConfig],
    api.CertifySettings: [CertifyConfig],
    api.SearchSettings: [SearchConfig],
    api.SubgroupSettings: [SubgroupConfig, NumberSubgroupConfig],
    api.MitigationSettings: [MitigationConfig],
    api.LanguageModelSettings: [LanguageModelConfig],
    api.ShieldEntries: [ShieldConfig],
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_editors_complete_the_fields_of_a_configuration(settings):
    fields = {name for config in SETTINGS[settings] for name in config.model_fields} - {"protected"}
    names = settings.__annotations__.keys()
    assert fields <= names
    assert names - fields - api.ModelSettings.__annotations__.keys() <= OTHER_SETTINGS


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
