"""Diabetes (Pima): does a patient develop diabetes?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, headerless, integer, real, require, typed
from evenhand.datasets.tables import parse
from evenhand.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


def schema() -> Schema:
    """8 attributes; age is protected."""
    return decision(
        "Outcome", 1, 0, favourable=0,
        attributes=(
            integer("Pregnancies", 0, 17),
            integer("Glucose", 0, 199),
            integer("BloodPressure", 0, 122),
            integer("SkinThickness", 0, 99),
            integer("Insulin", 0, 846),
            real("BMI", 0, 67.1),
            real("DiabetesPedigreeFunction", 0.078, 2.42),
            integer("Age", 21, 81, protected=True),
        ),
    )  # fmt: skip


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """The table as published, with or without a line of names."""
    columns = ENTRY.columns()
    frame = parse(data, where=where, names=columns if headerless(data) else None)
    require(frame, columns, where)
    return typed(frame[list(columns)], schema(), where)


ENTRY = Entry(
    name="diabetes",
    title="Pima Indians Diabetes",
    about="768 women of Pima heritage near Phoenix, Arizona, at least 21 years old; does a woman show signs of "
    "diabetes within five years?",
    origin="National Institute of Diabetes and Digestive and Kidney Diseases; donated in 1990 by Vincent Sigillito",
    publisher="https://www.kaggle.com/datasets/uciml/pima-indians-diabetes-database",
    licence="CC0 as published on Kaggle; withdrawn from the UCI repository",
    citation="Smith, J. W., Everhart, J. E., Dickson, W. C., Knowler, W. C., Johannes, R. S. (1988). Using the ADAP "
    "learning algorithm to forecast the onset of diabetes mellitus. Symposium on Computer Applications in Medical Care",
    rows=768,
    preparation="As published. Zeros in Glucose, BloodPressure, SkinThickness, Insulin and BMI stand for values that "
    "were not measured; they are kept. Favourable is the absence of diabetes (Outcome 0).",
    schema=schema,
    prepare=prepare,
    sha256="c980e5e01dc1c554a358102b773f34b29599d0051ec5cf5b56ad1c6fcb3a23b0",
    files=("pima-indians-diabetes.data.csv", "diabetes.csv"),
    urls=("https://raw.githubusercontent.com/jbrownlee/Datasets/master/pima-indians-diabetes.data.csv",),
)
