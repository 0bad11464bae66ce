"""Tables as people have them, and the words in their cells."""

import datetime as dt
import decimal
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand
from evenhand.errors import EvenhandError
from evenhand.schema import encode, infer_schema
from evenhand.schema.attribute import NumberFormat, guess_format
from evenhand.schema.table import (
    find_variants,
    means_unknown,
    outcome_key,
    parse_word,
    unknown_codes,
)
from support import draw_frame, scaled

N = 60
RNG = np.random.default_rng(7)
APPLICANTS = draw_frame(RNG, N, sex="f m", city="Rome Oslo Kiel", points=(0, 9), hired=(0, 1))
EACH = range(N)


def with_column(values, name="extra"):
    """Return a change that adds one column."""
    return lambda frame: frame.assign(**{name: values})


def mixed(*values):
    """Return a column of Python objects, repeated to its length."""
    return pd.Series([values[i % len(values)] for i in EACH], dtype=object)


def text(i):
    return f"I have {i} years of practice and would like to learn more about the work"


# Columns that cannot be attributes as they are: what is wrong, and the kind that is proposed if not to pass it through.
PROPOSED = {
    "identifier of words": (with_column([f"P-{i:05d}" for i in EACH]), "60 different values in 60 rows"),
    "row numbers from 0": (with_column(EACH), "an identifier"),
    "identifier by name": (with_column([i * 7 % 61 for i in EACH], "person_id"), "an identifier"),
    "identifier in camel case": (with_column([i * 7 % 61 for i in EACH], "applicantId"), "identifier"),
    "index column of pandas": (with_column([i * 7 % 61 for i in EACH], "Unnamed: 0"), "identifier"),
    "huge numbers": (with_column([2**60 + i for i in EACH]), "beyond exact 64-bit floats"),
    "datetimes": (with_column(pd.date_range("2020-01-01", periods=N)), "holds dates or times"),
    "datetimes with zones": (
        with_column(pd.date_range("2020-01-01", periods=N, tz="Europe/Rome")),
        "holds dates or times",
    ),
    "datetimes with gaps": (with_column([pd.NaT, *pd.date_range("2020-01-01", periods=N - 1)]), "holds dates or times"),
    "dates as objects": (with_column([dt.date(2020, 1, 1 + i % 28) for i in EACH]), "dates"),
    "times of day": (with_column([dt.time(i % 24) for i in EACH]), "holds dates or times"),
    "durations": (with_column(pd.to_timedelta(list(EACH), unit="D")), "holds dates or times"),
    "periods": (with_column(pd.period_range("2020-01", periods=N, freq="M")), "holds Period values"),
    "dates as words": (with_column([f"2020-{i % 12 + 1:02}-{i % 28 + 1:02}" for i in EACH]), "dates"),
    "few dates": (with_column([f"{i % 25 + 1}.2.2020" for i in EACH]), "25 dates"),
    "dates with months in words": (with_column([f"{i % 28 + 1} Jan 2020" for i in EACH]), "28 dates"),
    "dates as numbers": (
        with_column([20200000 + (i % 12 + 1) * 100 + i % 28 + 1 for i in EACH]),
        "dates written as numbers",
    ),
    "dollars": (with_column([f"${1000 + i % 40:,}.50" for i in EACH]), "40 amounts"),
    "euros behind": (with_column([f"{1 + i}.000,50 €" for i in EACH]), "amounts"),
    "currency codes": (with_column([f"CHF {1000 + i}" for i in EACH]), "amounts"),
    "accounts": (with_column([f"(${1000 + i:,}.50)" if i % 2 else f"${i}.50" for i in EACH]), "amounts"),
    "percentages": (with_column([f"{i % 30 + 1},5 %" for i in EACH]), "30 amounts or percentages"),
    "decimal commas": (with_column([f"{i % 40 + 1},{i % 10}" for i in EACH]), "40 amounts"),
    "zip codes": (with_column([f"{i * 137:05}" for i in EACH], "zip_code"), "60 zip codes"),
    "zip codes as numbers": (with_column([10000 + i * 137 for i in EACH], "zip"), "zip codes"),
    "free text": (with_column([text(i) for i in EACH]), "free text"),
    "text with line breaks": (with_column([f"{text(i)}\nand\r\nmore" for i in EACH]), "free text"),
    "too many categories": (with_column([f"job {i % 55}" for i in EACH]), "different values"),
    "an empty column": (with_column(None), "has no value in any of 60 rows"),
    "a column of NaN": (with_column(np.nan), "has no value"),
    "infinity": (with_column([np.inf, *range(N - 1)]), "not finite: inf"),
    "lists": (with_column([[1, 2]] * N), "holds list values"),
    "bytes": (with_column([b"x"] * N), "holds bytes values"),
    "the target in words": (
        lambda frame: frame.assign(extra=np.where(frame["hired"] == 1, "yes", "no")),
        "repeats the target",
    ),
    "the target once more": (lambda frame: frame.assign(extra=frame["hired"]), "repeats the target"),
    "a word among numbers": (with_column(mixed(*range(40), "see file")), "'see file' among numbers", "integer"),
    "a word among fractions": (with_column(mixed(*np.arange(0, 9, 0.3), "varies")), "'varies' among numbers", "real"),
    "a word among written numbers": (
        with_column([*(str(i) for i in range(N - 1)), "see file"]),
        "'see file' among numbers",
        "integer",
    ),
    "numbers in several spellings": (
        with_column([".5", "1.50", *(str(i) for i in range(N - 2))]),
        "numbers in several spellings",
    ),
}

# The same, where the column is protected.
PROTECTED = {
    "prefers not to say": (
        mixed("f", "m", "d", "Prefer not to say"),
        "'Prefer not to say' among its values",
        "categorical",
    ),
    "question marks": (mixed("f", "m", "?"), "'?' among its values", "categorical"),
    "not stated, in capitals": (mixed("f", "m", "NOT STATED"), "'NOT STATED' among its values", "categorical"),
    "age with a word": (mixed(*range(20, 50), "unknown"), "'unknown' among numbers", "integer"),
    "age with a word, as words": ([*(str(20 + i % 40) for i in range(N - 1)), "unknown"], "among numbers", "integer"),
    "fractions": (np.linspace(18, 67.5, N), "protected number with fractions", "ordinal"),
    "dates": (pd.date_range("1970-01-01", periods=N), "holds dates or times.*protected: convert it to a number", None),
    "an identifier": ([f"P-{i:05d}" for i in EACH], "60 different values.*protected: group its values", None),
    "capital letters": (
        mixed("female", "Female", "male"),
        "differ only in case, spaces or look-alike",
        None,
    ),
    "capital letters and unknown words": (
        mixed("f", "F", "m", "n/a"),
        "look-alike characters: 'f', 'F': use one",
        None,
    ),
    "unknown words in several spellings": (mixed("f", "m", "n/a", "N/A"), "'N/A', 'n/a' among", "categorical"),
    "empty": ([None] * N, "has no value in any of 60 rows.*protected: leave it out", None),
}

# Tables that read without a question, and the kind of the column in question.
PLAIN = {
    "words with spaces around": (with_column(mixed(" a", "a ", "b")), "categorical"),
    "versions": (with_column(mixed("3.9", "3.10", "3.11")), "categorical"),
    "decimals": (with_column([f"{i / 4:.2f}" for i in EACH]), "real"),
    "decimal objects": (with_column([decimal.Decimal(i) / 4 for i in EACH]), "real"),
    "words of several scripts": (with_column(mixed("Ärger", "日本", "naïve", "🙂")), "categorical"),
    "words that YAML takes for others": (
        with_column(mixed("no", "yes", "null", "1e3", "~", "2020-01-01")),
        "categorical",
    ),
    "empty words": (with_column(mixed("", "a")), "categorical"),
    "booleans": (with_column(mixed(True, False)), "categorical"),
    "booleans and numbers": (with_column(mixed(True, 1, 0)), "categorical"),
    "numbers and words": (with_column(mixed(1, 2, "many", "few")), "categorical"),
    "missing words": (with_column(mixed("a", "b", None)), "categorical"),
    "missing numbers": (with_column(mixed(1, 2, None)), "integer"),
    "missing booleans": (with_column(mixed(True, None, False)), "categorical"),
    "nullable integers": (with_column(pd.array([1, None] * (N // 2), dtype="Int64")), "integer"),
    "nullable words": (with_column(pd.array(["a", None] * (N // 2), dtype="string")), "categorical"),
    "tiny integers": (with_column(np.arange(N, dtype=np.uint8) % 7), "integer"),
    "single precision": (with_column(np.linspace(0, 1, N, dtype=np.float32)), "real"),
    "unused categories": (
        with_column(pd.Categorical(["a", "b"] * (N // 2), categories=["a", "b", "c"])),
        "categorical",
    ),
    "ordered categories": (
        with_column(pd.Categorical(["S", "L"] * (N // 2), ["S", "M", "L"], ordered=True)),
        "ordinal",
    ),
    "few dates": (with_column(mixed("2020-01-01", "2021-01-01")), "categorical"),
    "a constant": (with_column("Europe"), "categorical"),
    "names with spaces and dots": (with_column(mixed("a", "b"), "what, exactly?"), "categorical"),
    "a name of Python": (with_column(mixed(1, 2), "class"), "integer"),
    "an index out of order": (lambda frame: frame.assign(extra=mixed("a", "b")).iloc[::-1], "categorical"),
    "an index with repetitions": (
        lambda frame: frame.assign(extra=mixed("a", "b")).set_index(np.zeros(N)),
        "categorical",
    ),
}

# Tables that are wrong as a whole: the words of the one error.
REFUSED = {
    "no rows": (lambda frame: frame.iloc[:0], "without rows"),
    "names twice": (lambda frame: pd.concat([frame, frame[["city"]]], axis=1), "distinct column names"),
    "numbered columns": (
        lambda frame: frame.rename(columns={"city": 0}),
        "text as column names in `data=`",
    ),
    "no target": (lambda frame: frame.drop(columns="hired"), "target=`, got 'hired'"),
    "one label": (lambda frame: frame.assign(hired=1), "only one class"),
    "labels missing": (lambda frame: frame.assign(hired=[None, *[0, 1] * 29, 1]), "row 1: expected a label"),
    "labels that are lists": (lambda frame: frame.assign(hired=[[1]] * N), "got list values"),
    "labels that are dates": (
        lambda frame: frame.assign(hired=pd.date_range("2020", periods=N)),
        "got Timestamp values",
    ),
    "a total below": (
        lambda frame: pd.concat([frame, frame[:1].assign(sex="Total")]),
        "row 61 seems to total .* 'sex'",
    ),
    "a total above": (
        lambda frame: pd.concat([frame[:1].assign(city="All:").astype({"city": "category"}), frame]),
        "row 1 seems to total .* 'city' is 'All:'",
    ),
    "no attribute": (lambda frame: frame[["hired"]].assign(sex=frame["sex"]).iloc[:, [0]], "protected=`, got 'sex'"),
}


def decide(frame):
    """Decide by the attributes that every table has, whatever else there is."""
    points = frame["points"] if hasattr(frame["points"], "to_numpy") else frame["points"].combine_chunks()
    return (np.asarray(points).astype(float) - 2 * (np.asarray(frame["sex"]) == "f") > 3).astype(int)


def check_cells(schema, frame):
    """Make sure that the model is given the cells of the frame, each as it stands."""
    seen = []

    def model(asked):
        seen.append(asked)
        return decide(asked)

    subject = evenhand.models.Subject(model, encode(schema, frame))
    labels = subject.scorer.predict(subject.people.individuals)
    assert (labels == decide(frame)).all()
    for name in schema.passthrough:
        assert list(map(repr, seen[-1][name])) == list(map(repr, frame[name]))
    return seen[-1]


@pytest.mark.parametrize("name", PROPOSED)
def test_a_column_that_is_no_attribute_is_named_with_a_proposal(name):
    change, words, kind = (*PROPOSED[name], "passthrough")[:3]
    frame = change(APPLICANTS)
    column = frame.columns[-1]
    with pytest.raises(EvenhandError, match=rf"'{column}' .*{words}(?s:.*)`accept_proposals=True`"):
        infer_schema(frame, target="hired", protected=["sex"])
    schema = infer_schema(frame, target="hired", protected=["sex"], accept_proposals=True)
    assert (column in schema.passthrough) == (kind == "passthrough")
    assert kind == "passthrough" or schema[column].kind == kind
    assert kind == "passthrough" or schema[column].unknown
    asked = check_cells(schema, frame)
    assert list(map(str, asked[column])) == list(map(str, frame[column]))


@pytest.mark.parametrize("name", PROTECTED)
def test_a_protected_column_is_named_with_a_proposal_or_a_way_out(name):
    values, words, kind = PROTECTED[name]
    frame = APPLICANTS.assign(extra=values)
    with pytest.raises(EvenhandError, match=rf"'extra' .*{words}"):
        infer_schema(frame, target="hired", protected=["sex", "extra"])
    if kind is None:
        with pytest.raises(EvenhandError, match=rf"'extra' .*{words}(?s:.*)choose other protected columns"):
            infer_schema(frame, target="hired", protected=["sex", "extra"], accept_proposals=True)
        return
    schema = infer_schema(frame, target="hired", protected=["sex", "extra"], accept_proposals=True)
    assert (schema["extra"].kind, schema["extra"].protected) == (kind, True)
    people = encode(schema, frame)
    unknown = people.count_unknown().get("extra", 0)
    assert len(people) == N
    assert unknown == sum(
        str(value) in ("Prefer not to say", "?", "NOT STATED", "unknown", "n/a", "N/A") for value in values
    )


def test_columns_that_only_describe_subgroups_may_be_numbers_and_still_have_no_unknown_group():
    frame = APPLICANTS.assign(gender=PROTECTED["prefers not to say"][0], income=np.linspace(1, 9.5, N))
    about = {"target": "hired", "protected": ["gender", "income"], "min_size": 5}
    with pytest.raises(EvenhandError, match="'gender' has 'Prefer not to say' among its values"):
        evenhand.find_subgroups(decide, frame, **about)
    found = evenhand.find_subgroups(decide, frame, accept_proposals=True, **about)
    assert (found.people, found.unknown) == (45, 15)
    assert found.attributes[0].cells == ("d", "f", "m")
    with pytest.raises(EvenhandError, match=r"'key' has 60 different values.*it defines groups"):
        evenhand.find_subgroups(decide, frame.assign(key=[f"P-{i}" for i in EACH]), target="hired", protected=["key"])


@pytest.mark.parametrize("name", PLAIN)
def test_a_column_that_looks_odd_is_read(name):
    change, kind = PLAIN[name]
    frame = change(APPLICANTS)
    schema = infer_schema(frame, target="hired", protected=["sex"])
    assert schema[frame.columns[-1]].kind == kind
    check_cells(schema, frame)
    again = evenhand.schema.Schema.parse(schema.model_dump())
    assert again == schema


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_is_wrong_is_refused_once(name):
    change, words = REFUSED[name]
    with pytest.raises(EvenhandError, match=words):
        evenhand.audit(decide, change(APPLICANTS), target="hired", protected=["sex"], samples=50, max_boxes=10)


def test_the_word_total_may_be_a_value_like_any_other():
    frame = APPLICANTS.assign(city=["Total", *["Shell"] * (N - 2), "Total"])
    assert infer_schema(frame, target="hired", protected=["sex"])["city"].values == ("Shell", "Total")
    assert len(evenhand.schema.table.list_columns(frame)) == len(frame.columns)


def test_all_columns_are_named_in_one_error():
    """Every column of the zoo in one table: one error names each of them, and one word accepts them all."""
    frame, kinds = APPLICANTS, {}
    for number, (change, _, *kind) in enumerate(PROPOSED.values()):
        changed = change(APPLICANTS)
        kinds[f"{changed.columns[-1]} {number}"] = kind[0] if kind else "passthrough"
        frame = frame.assign(**{f"{changed.columns[-1]} {number}": changed[changed.columns[-1]].to_numpy()})
    found = evenhand.schema.propose_columns(frame, target="hired", protected=["sex"])
    required = [one.column for one in found if one.required]
    assert len(required) > 35
    with pytest.raises(EvenhandError) as caught:
        infer_schema(frame, target="hired", protected=["sex"])
    said = str(caught.value)
    assert said.startswith("columns that cannot be attributes as they are:\n")
    assert all(f"\n  {column!r} " in said for column in required)
    schema = infer_schema(frame, target="hired", protected=["sex"], accept_proposals=True)
    assert set(required) - set(schema.passthrough) == {name for name, kind in kinds.items() if kind != "passthrough"}


UGLY = ["identifier of words", "datetimes", "dates as objects", "free text", "infinity", "an empty column"]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
@pytest.mark.parametrize("name", UGLY)
def test_other_frames_are_read_alike(library, name):
    extra = "parquet" if library == "pyarrow" else library
    module = pytest.importorskip(library, reason=f"needs the extra {extra}")
    frame = PROPOSED[name][0](APPLICANTS)
    given = module.from_pandas(frame) if library == "polars" else module.Table.from_pandas(frame)
    with pytest.raises(EvenhandError, match=r"'extra' .*passthrough"):
        infer_schema(given, target="hired", protected=["sex"])
    schema = infer_schema(given, target="hired", protected=["sex"], accept_proposals=True)
    assert schema.passthrough == ("extra",)
    assert len(encode(schema, given).carried_columns()[0]) == N


def test_an_audit_of_the_ugliest_table_is_that_of_the_tidy_one():
    """What is added to a table and not read by the model changes no figure of its people."""
    frame = APPLICANTS
    for name in ("identifier of words", "datetimes with zones", "dollars", "free text", "lists", "periods"):
        frame = frame.assign(**{name: PROPOSED[name][0](APPLICANTS)["extra"]})
    about = {"target": "hired", "protected": ["sex"], "samples": 200, "searched": 0}
    tidy = evenhand.audit(decide, APPLICANTS, **about)
    ugly = evenhand.audit(decide, frame, **about, accept_proposals=True)
    assert ugly.groups.breakdowns == tidy.groups.breakdowns
    counted = [(rate.flips, rate.n) for rate in (one.individual.rate(("sex",), "data") for one in (ugly, tidy))]
    assert counted[0] == counted[1]
    assert ugly.flip_rate > 0


@pytest.mark.parametrize("words", [["1.20", "-0.20"], ["12.5", "3.0"], ["0.00", "7.25"]])
def test_decimals_are_read_as_numbers_and_written_back(words):
    number_format = guess_format(words)
    assert [number_format.read(word) for word in words] == list(map(float, words))
    assert [number_format.write(float(word)) for word in words] == words


@pytest.mark.parametrize("words", [["$1"], ["1,5", "2,5"], ["01.5"], ["+1.0"], ["1.5", "1.50"], ["(1.5)"], ["-0.00"]])
def test_words_that_cannot_be_written_back_are_no_numbers(words):
    assert guess_format(words) is None


@given(st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1, max_size=20))
@settings(max_examples=scaled(100), deadline=None)
def test_any_guess_gives_back_every_word(amounts):
    words = [NumberFormat(decimals=2).write(float(amount)) for amount in amounts]
    number_format = guess_format(words)
    assert [number_format.read(word) for word in words] == [float(amount) + 0.0 for amount in amounts]
    assert [number_format.write(number_format.read(word)) for word in words] == words


def test_a_model_gets_the_words_it_was_trained_on_or_their_numbers():
    frame = APPLICANTS.assign(wage=[f"{1000 + i}.50" for i in EACH])
    schema = infer_schema(frame, target="hired", protected=["sex"])
    wage = schema["wage"]
    assert (wage.lower, wage.upper, wage.number_format.decimals) == (1000.5, 1059.5, 2)
    again = evenhand.schema.Schema.parse(schema.model_dump())
    assert again == schema
    people = encode(schema, frame)
    people.individuals[0, schema.position("wage")] = 1034.567
    assert evenhand.schema.decode(schema, people.individuals, like=frame)["wage"].tolist()[:2] == ["1034.57", "1001.50"]
    described = schema.model_dump()
    described["attributes"][-1]["number_format"]["model_input"] = "number"
    numbers = evenhand.schema.decode(evenhand.schema.Schema.parse(described), people.individuals)["wage"]
    assert numbers.tolist()[:2] == [1034.567, 1001.5]
    with pytest.raises(EvenhandError, match=r"row 3: expected a finite number written like .1059\.50., got"):
        encode(schema, frame.assign(wage=[*frame["wage"][:2], "1003.5", *frame["wage"][3:]]))


SENTINELS = {
    "minus one among counts": ([0, 1, 2, 3, -1], [-1]),
    "99 among ages": ([*range(18, 70), 99, 99, 99], [99]),
    "9 after a scale of 4": ([1, 2, 3, 4, 9], [9]),
    "two codes": ([*range(18, 70), -9, -9, -9, 999, 999, 999], [-9, 999]),
    "77 is an ordinary age": ([*range(50, 80), *[-999] * 3], [-999]),
    "fractions": ([*np.linspace(0.1, 2.5, 40), *[-99.0] * 5], [-99]),
    "in range": ([1, 5, 9, 13, 9], None),
    "once": ([*range(18, 70), 99], None),
    "changes of both signs": ([-3, -2, -1, 0, 1, 2], None),
    "99 at the end of a wide scale": ([*range(0, 100, 3), 99, 99], None),
    "most rows": ([20, 30, 40, 50, *[-1] * 12], None),
}


@pytest.mark.parametrize("code", [-999, 999, -9, 99999])
@pytest.mark.parametrize("rows", [1, 10])
def test_a_code_among_the_ages_that_define_groups_is_never_an_age(code, rows):
    ages = [20 + i % 60 for i in range(398)]
    frame = pd.DataFrame({"age": [*ages, *[code] * rows], "hired": [i % 2 for i in range(398 + rows)]})
    with pytest.raises(EvenhandError, match=f"'age' has {code} in {rows} row"):
        evenhand.audit_predictions(y_pred=frame["hired"], sensitive_features=frame[["age"]])


@pytest.mark.parametrize("name", SENTINELS)
def test_numbers_that_stand_for_unknown_are_proposed_with_the_evidence(name):
    values, marks = SENTINELS[name]
    frame = APPLICANTS.assign(extra=[values[i % len(values)] for i in EACH])
    plain = infer_schema(frame, target="hired", protected=["sex"])
    assert plain["extra"].unknown is None  # nothing is asked of those who do not accept it
    schema = infer_schema(frame, target="hired", protected=["sex"], accept_proposals=True)
    assert schema["extra"].unknown == (None if marks is None else tuple(marks))
    if marks is not None:
        (proposal,) = evenhand.schema.propose_columns(frame, target="hired", protected=["sex"])
        assert " rows, far from all its other numbers" in str(proposal)
        assert schema["extra"].lower == min(value for value in values if value not in marks)
        assert encode(schema, frame).count_unknown()["extra"] == int(frame["extra"].isin(marks).sum())
        asked = check_cells(schema, frame)
        assert asked["extra"].tolist() == frame["extra"].tolist()


@given(st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)))
def test_every_number_is_parsed_from_the_word_python_writes(number):
    parsed = parse_word(str(number))
    assert parsed == number
    assert type(parsed) is type(number)
    assert math.copysign(1, parsed) == math.copysign(1, number)


@given(st.one_of(st.text(max_size=8), st.from_regex(r"[-+0-9.e_ ]{1,8}", fullmatch=True)))
def test_a_parsed_word_is_written_back_unchanged(word):
    assert str(parse_word(word)) in (word, word.strip())


@pytest.mark.parametrize(
    "word",
    ["02134", "3.10", "4.00", "+5", "1e3", "-0", "1_000", "1,5", ".5", "5.", "TRUE", "nan", "inf", "٣", ""],
)
def test_other_spellings_stay_words(word):
    assert parse_word(word) == word


@pytest.mark.parametrize("values", [[1, 1.0, True, "1", "1.0", "TRUE", " true"], [0, 0.0, False, "0", "false", "0.0"]])
def test_spellings_of_a_truth_value_are_one_outcome(values):
    assert len({outcome_key(value) for value in values}) == 1


def test_other_outcomes_keep_their_case():
    assert len({outcome_key(value) for value in ["Hired", "hired", "01", 1, 2, "2.0"]}) == 5


def test_variants_differ_in_case_or_blanks_alone():
    assert find_variants(["Hired", "hired", "hired ", "not hired", 1]) == [["Hired", "hired", "hired "]]


@pytest.mark.parametrize("other", ["M\u0430le", "\u039cale", "male", "Ma\u200ble"])  # Cyrillic a, Greek mu
def test_look_alike_characters_are_variants(other):
    assert find_variants(["Male", other, "Female", "\u043c\u0443\u0436"]) == [["Male", other]]
    assert find_variants(["18-24", "18\u201324", "O'Neil", "O\u2019Neil"]) == [
        ["18-24", "18\u201324"],
        ["O'Neil", "O\u2019Neil"],
    ]


@pytest.mark.parametrize(
    "word",
    [
        "NA",
        "n/a",
        "<NA>",
        "NULL",
        "nan",
        "None",
        "?",
        "",
        "Race Not Available",
        "Information not provided by applicant",
        "I do not wish to answer",
        "I choose not to self-identify",
        "Unspecified",
        "Prefer not to say",
        "Keine Angabe",
        "Gender unknown",
        "(blank)",
        "Declined to state",
        "I'd rather not say",
        "#REF!",
        "#DIV/0!",
        "\\N",
        "n/d",
        "Unk.",
    ],
)
def test_recognises_words_for_unknown(word):
    assert means_unknown(word)
    assert means_unknown(f"  {word.upper()} ")


@pytest.mark.parametrize(
    "word", ["No", "Other", "Not Hispanic or Latino", "Not Verified", "Not in labor force", "not hired", "0", "Namibia"]
)
def test_other_words_are_categories(word):
    assert not means_unknown(word)


def test_finds_codes_among_numbers():
    assert unknown_codes([0, 1, -1, 999, True, 0.5, "-1"]) == [-1, 999]


@pytest.mark.parametrize("word", ["declined", "Refused", "decline", "denied", "no", "hired"])
def test_unfavourable_words_are_outcomes(word):
    assert not means_unknown(word, outcome=True)


@pytest.mark.parametrize("word", ["N/A", "declined to answer", "unknown", "not stated", "?"])
def test_words_for_unknown_are_no_outcomes(word):
    assert means_unknown(word, outcome=True)
