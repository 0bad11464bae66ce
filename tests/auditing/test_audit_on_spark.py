"""Rows that Spark holds are counted by Spark, and give the bits and the numbers of the same rows in memory."""

import datetime as dt
import json
import os
import shutil
from importlib.util import find_spec

import narwhals as nw
import numpy as np
import pytest
from test_audit_of_many_rows import FULL, differences, fingerprint, people

import evenhand
from evenhand import auditing
from evenhand.dossier import DossierConfig, compile_dossier
from evenhand.errors import EvenhandError
from evenhand.groups import DecisionRoles

if find_spec("pyspark") is None:
    pytest.skip("PySpark is not installed: make test EXTRAS=spark", allow_module_level=True)
if not (shutil.which("java") or "JAVA_HOME" in os.environ):
    pytest.skip("there is no Java for PySpark to run", allow_module_level=True)

import polars as pl
import pyspark.sql

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "600m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="module")
def spark():
    builder = pyspark.sql.SparkSession.builder.master("local[1]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with builder.getOrCreate() as session:
        session.sparkContext.setLogLevel("OFF")
        yield session


@pytest.fixture
def load(spark):
    """Hand a frame to Spark in three parts: missing numbers are NaN there, missing words NULL."""
    return lambda frame: spark.createDataFrame(pl.from_pandas(frame, nan_to_null=False).to_arrow()).repartition(3)


@pytest.mark.parametrize(
    ("change", "roles"),
    [
        ({}, FULL),
        ({"score": lambda frame: frame["score"] * 100 - 20}, FULL | {"low_is_good": True}),
        ({}, {"score": "score", "threshold": 0.5, "protected": ["sex"], "target": "repaid"}),
        ({"score": lambda frame: frame["score"].where(frame.index % 7 > 1, -0.0)}, FULL),
        ({"age": lambda frame: frame["age"].where(frame.index % 9 > 0)}, FULL),
        ({"selected": lambda frame: frame["score"] > 0.5, "repaid": lambda frame: frame["score"] > 0.3}, FULL),
    ],
    ids=["all", "any scale, low is good", "threshold", "negative zero", "numbers missing", "true and false"],
)
def test_the_bits_are_those_of_memory(load, change, roles):
    frame = people(900, 5).assign(**change)
    read = DecisionRoles(**roles)
    assert fingerprint(read.read(load(frame))) == fingerprint(read.read(nw.from_native(frame).lazy()))


def test_an_audit_has_the_groups_and_subgroups_of_memory(load):
    frame = people(3000, 3)
    columns = {"y_true": "repaid", "y_score": "score", "sensitive_features": ["sex", "race"], "seed": 1}
    counted = evenhand.audit_predictions("selected", data=load(frame), **columns)
    memory = auditing.audit_decisions(DecisionRoles(**FULL | {"protected": ["sex", "race"]}).read(frame), seed=1)
    assert differences(json.loads(memory.to_json()), json.loads(counted.to_json())) == []


def test_a_dossier_of_scores_has_the_bits_of_memory(load):
    frame = people(600, 4).assign(score=lambda frame: (frame["score"] * 850).round(1))
    frame.loc[::13, "score"] = np.nan
    config = DossierConfig(
        outcome={"column": "score", "kind": "score"},
        attributes={name: {"column": name} for name in ("sex", "race")},
        reference={"sex": "M", "race": "A"},
        quantiles=(0.1, 0.5),
    )
    today = dt.date(2026, 11, 27)
    memory = compile_dossier(frame, config, dossiers=("ll144", "disparity"), today=today)
    assert compile_dossier(load(frame), config, dossiers=("ll144", "disparity"), today=today) == memory


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"decision": "chosen"}, "the columns are: race, age"),
        ({"score": "race", "protected": ["sex"]}, "expected a finite number as score"),
        ({}, "there are no rows"),
    ],
)
def test_what_cannot_be_counted_is_refused_in_words(load, roles, message):
    rows = load(people(50)).filter("age > 1000") if not roles else load(people(50))
    with pytest.raises(EvenhandError) as error:
        DecisionRoles(**FULL | roles).read(rows)
    assert message in str(error.value)


def test_what_spark_cannot_do_is_one_line_without_a_traceback(load):
    rows = load(people(50)).selectExpr("*", "assert_true(age < 0, 'too old') AS checked")
    with pytest.raises(EvenhandError, match="the rows cannot be read") as error:
        DecisionRoles(**FULL | {"protected": ["sex", "checked"]}).read(rows)
    assert "\n\tat " not in str(error.value)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_decisions_of_a_model_that_spark_asks_part_by_part(load):
    """As in the guide: the model adds columns of scores and decisions where the rows are."""
    import pyarrow as pa

    def decide(batches):
        for batch in batches:
            score = np.clip((batch["age"].to_numpy() - 18) / 62, 0, 1)
            decided = batch.append_column("likely", pa.array(score))
            yield decided.append_column("chosen", pa.array((score >= 0.5).astype(np.int64)))

    frame = people(400, 8)[["sex", "age"]]
    rows = load(frame).mapInArrow(decide, "sex string, age long, likely double, chosen long")
    score = (frame["age"] - 18) / 62
    read = DecisionRoles(decision="chosen", score="likely", protected=["sex"])
    memory = nw.from_native(frame.assign(likely=score, chosen=(score >= 0.5).astype(int))).lazy()
    assert fingerprint(read.read(rows)) == fingerprint(read.read(memory))
