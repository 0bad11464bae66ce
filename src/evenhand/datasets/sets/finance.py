"""Data sets about income and credit: Adult, Bank Marketing, German Credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import (
    DatasetEntry,
    categorical_attribute,
    decision_schema,
    integer_attribute,
    ordinal_attribute,
    parse_published,
)
from evenhand.schema import Dependency, Link, Schema

if TYPE_CHECKING:
    import pandas as pd

ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
    "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
"""The publisher's columns in order, with underscores."""

COUNTRIES = (
    "Cambodia", "Canada", "China", "Columbia", "Cuba", "Dominican-Republic", "Ecuador", "El-Salvador", "England",
    "France", "Germany", "Greece", "Guatemala", "Haiti", "Holand-Netherlands", "Honduras", "Hong", "Hungary", "India",
    "Iran", "Ireland", "Italy", "Jamaica", "Japan", "Laos", "Mexico", "Nicaragua", "Outlying-US(Guam-USVI-etc)",
    "Peru", "Philippines", "Poland", "Portugal", "Puerto-Rico", "Scotland", "South", "Taiwan", "Thailand",
    "Trinadad&Tobago", "United-States", "Vietnam", "Yugoslavia",
)  # fmt: skip


ADULT_RULES = (
    'occupation in {Adm-clerical, Craft-repair, Exec-managerial, Prof-specialty} -> workclass != "?"',
    'occupation == "?" -> workclass != Private',
    "marital_status in {Divorced, Separated, Widowed} -> relationship != Husband",
    "marital_status == Married-civ-spouse -> relationship != Unmarried",
    "marital_status == Never-married -> relationship not in {Husband, Wife}",
    "relationship == Husband -> sex == Male",
    "relationship == Wife -> sex == Female",
)
"""Who can be in Adult: the rules that ``evenhand.proposals`` finds in the data, without tails of numbers."""

ADULT_EDUCATION = {
    "Preschool": 1, "1st-4th": 2, "5th-6th": 3, "7th-8th": 4, "9th": 5, "10th": 6, "11th": 7, "12th": 8, "HS-grad": 9,
    "Some-college": 10, "Assoc-voc": 11, "Assoc-acdm": 12, "Bachelors": 13, "Masters": 14, "Prof-school": 15,
    "Doctorate": 16,
}  # fmt: skip


def adult_schema() -> Schema:
    """Return the schema: 13 attributes; sex and race are protected, and a husband's counterpart is a wife.

    "?" (not stated) is a value like any other and stands last, as does Never-worked: published networks were
    trained without these people, on codes in alphabetical order, and keep their codes this way.
    """
    return decision_schema(
        "income", "<=50K", ">50K", favourable=">50K",
        attributes=(
            integer_attribute("age", 17, 90),
            categorical_attribute(
                "workclass", "Federal-gov", "Local-gov", "Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov",
                "Without-pay", "Never-worked", "?",
            ),
            categorical_attribute(
                "education", "10th", "11th", "12th", "1st-4th", "5th-6th", "7th-8th", "9th", "Assoc-acdm",
                "Assoc-voc", "Bachelors", "Doctorate", "HS-grad", "Masters", "Preschool", "Prof-school",
                "Some-college",
            ),
            integer_attribute("education_num", 1, 16),
            categorical_attribute(
                "marital_status", "Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent",
                "Never-married", "Separated", "Widowed",
            ),
            categorical_attribute(
                "occupation", "Adm-clerical", "Armed-Forces", "Craft-repair", "Exec-managerial", "Farming-fishing",
                "Handlers-cleaners", "Machine-op-inspct", "Other-service", "Priv-house-serv", "Prof-specialty",
                "Protective-serv", "Sales", "Tech-support", "Transport-moving", "?",
            ),
            categorical_attribute(
                "relationship", "Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife"
            ),
            categorical_attribute(
                "race", "Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White", protected=True
            ),
            categorical_attribute("sex", "Female", "Male", protected=True),
            integer_attribute("capital_gain", 0, 99999),
            integer_attribute("capital_loss", 0, 4356),
            integer_attribute("hours_per_week", 1, 99),
            categorical_attribute("native_country", *COUNTRIES, "?"),
        ),
        rules=ADULT_RULES,
        dependencies=(Dependency(between=("education", "education_num"), map=dict(ADULT_EDUCATION)),),
        links=(Link(when="sex", move="relationship", rows=({"Male": "Husband", "Female": "Wife"},)),),
    )  # fmt: skip


def prepare_adult(data: bytes, location: str) -> pd.DataFrame:
    """Return the bundled table, which is prepared already."""
    return parse_published(data, location)[list(ADULT.columns())]


def combine_adult(train: bytes, test: bytes) -> pd.DataFrame:
    """Return the bundled table from the publisher's ``adult.data`` and ``adult.test``."""
    import pandas as pd

    test = test.split(b"\n", 1)[1]  # the first line of adult.test is a remark
    parts = [
        parse_published(part, name, ADULT_COLUMNS).assign(split=split)
        for part, name, split in ((train, "adult.data", "train"), (test, "adult.test", "test"))
    ]
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(income=frame["income"].str.removesuffix("."))


ADULT = DatasetEntry(
    name="adult",
    title="Adult (Census Income)",
    about="48,842 people of the United States; does a person earn more than 50,000 dollars a year?",
    origin="Extracted by Barry Becker from the 1994 census database of the United States; donated in 1996 by "
    "Ronny Kohavi and Barry Becker",
    publisher="https://archive.ics.uci.edu/dataset/2/adult",
    licence="CC BY 4.0",
    citation="Becker, B., Kohavi, R. (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20",
    rows=48_842,
    preparation="adult.data and adult.test one after the other, told apart by the column split; the full stop after "
    "the labels of adult.test removed; hyphens in column names became underscores. '?' (not stated) is kept as a "
    "value, so that no row is left out. fnlwgt (a sampling weight) and split are not attributes.",
    schema=adult_schema,
    prepare=prepare_adult,
    extra=("fnlwgt", "split"),
    bundled="adult.csv.xz",
)


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def bank_schema() -> Schema:
    """Return the schema: 16 attributes; age and marital status are protected."""
    return decision_schema(
        "y", "no", "yes", favourable="yes",
        attributes=(
            integer_attribute("age", 18, 95, protected=True),
            categorical_attribute(
                "job", "admin.", "blue-collar", "entrepreneur", "housemaid", "management", "retired",
                "self-employed", "services", "student", "technician", "unemployed", "unknown",
            ),
            categorical_attribute("marital", "divorced", "married", "single", protected=True),
            categorical_attribute("education", "primary", "secondary", "tertiary", "unknown"),
            categorical_attribute("default", "no", "yes"),
            integer_attribute("balance", -8019, 102127),
            categorical_attribute("housing", "no", "yes"),
            categorical_attribute("loan", "no", "yes"),
            categorical_attribute("contact", "cellular", "telephone", "unknown"),
            integer_attribute("day", 1, 31),
            ordinal_attribute("month", *MONTHS),
            integer_attribute("duration", 0, 4918),
            integer_attribute("campaign", 1, 63),
            integer_attribute("pdays", -1, 871),
            integer_attribute("previous", 0, 275),
            categorical_attribute("poutcome", "failure", "other", "success", "unknown"),
        ),
    )  # fmt: skip


def prepare_bank(data: bytes, location: str) -> pd.DataFrame:
    """Return the publisher's table as it is."""
    return BANK.take_columns(parse_published(data, location), location)


BANK = DatasetEntry(
    name="bank",
    title="Bank Marketing",
    about="45,211 clients called by a Portuguese bank; does a client subscribe to a term deposit?",
    origin="Telephone campaigns of a Portuguese bank, May 2008 to November 2010, collected by Sergio Moro, Paulo "
    "Cortez and Paulo Rita",
    publisher="https://archive.ics.uci.edu/dataset/222/bank+marketing",
    licence="CC BY 4.0",
    citation="Moro, S., Rita, P., Cortez, P. (2014). Bank Marketing. UCI Machine Learning Repository. "
    "doi:10.24432/C5K306",
    rows=45_211,
    preparation="bank-full.csv as published; 'unknown' is a value like any other. pdays is -1 for clients never called "
    "before. duration, the length of the call, is only known afterwards: leave it out of a model meant for use.",
    schema=bank_schema,
    prepare=prepare_bank,
    sha256="b44507c26634736d4a0619ec2d7c4b6ff56a2c63cbeb5176d3134e7b25e416f0",
    files=("bank-full.csv", "bank_marketing.csv", "bank.csv"),
    urls=(
        "https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00222/bank.zip",
    ),
    member="bank-full.csv",
)


GERMAN_COLUMNS = (
    "status", "duration", "credit_history", "purpose", "credit_amount", "savings", "employment_since",
    "installment_rate", "personal_status_sex", "other_debtors", "residence_since", "property", "age",
    "other_installment_plans", "housing", "existing_credits", "job", "people_liable", "telephone", "foreign_worker",
    "class",
)  # fmt: skip
"""The publisher's columns in order."""

SEX = {"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"}


def german_schema() -> Schema:
    """20 attributes; sex and age are protected. Codes are the publisher's (A11: account below 0 DM, ...)."""
    return decision_schema(
        "class", 2, 1, favourable=1,
        attributes=(
            categorical_attribute("status", "A11", "A12", "A13", "A14"),
            integer_attribute("duration", 4, 72),
            categorical_attribute("credit_history", "A30", "A31", "A32", "A33", "A34"),
            categorical_attribute("purpose", "A40", "A41", "A42", "A43", "A44", "A45", "A46", "A48", "A49", "A410"),
            integer_attribute("credit_amount", 250, 18424),
            categorical_attribute("savings", "A61", "A62", "A63", "A64", "A65"),
            ordinal_attribute("employment_since", "A71", "A72", "A73", "A74", "A75"),
            integer_attribute("installment_rate", 1, 4),
            categorical_attribute("other_debtors", "A101", "A102", "A103"),
            integer_attribute("residence_since", 1, 4),
            categorical_attribute("property", "A121", "A122", "A123", "A124"),
            integer_attribute("age", 19, 75, protected=True),
            categorical_attribute("sex", "female", "male", protected=True),
            categorical_attribute("other_installment_plans", "A141", "A142", "A143"),
            categorical_attribute("housing", "A151", "A152", "A153"),
            integer_attribute("existing_credits", 1, 4),
            categorical_attribute("job", "A171", "A172", "A173", "A174"),
            integer_attribute("people_liable", 1, 2),
            categorical_attribute("telephone", "A191", "A192"),
            categorical_attribute("foreign_worker", "A201", "A202"),
        ),
    )  # fmt: skip


def prepare_german(data: bytes, location: str) -> pd.DataFrame:
    """Return the bundled table, which is prepared already."""
    return parse_published(data, location)[list(GERMAN.columns())]


def derive_german(data: bytes) -> pd.DataFrame:
    """Return the bundled table from the publisher's ``german.data``."""
    frame = parse_published(data.replace(b" ", b","), "german.data", GERMAN_COLUMNS)
    return frame.assign(sex=frame["personal_status_sex"].map(SEX))


GERMAN = DatasetEntry(
    name="german",
    title="German Credit (Statlog)",
    about="1,000 borrowers of a bank in southern Germany; is a borrower a good risk (700) or a bad one (300)?",
    origin="Collected by Hans Hofmann, Hamburg, from credits of 1973 to 1975; donated in 1994",
    publisher="https://archive.ics.uci.edu/dataset/144/statlog+german+credit+data",
    licence="CC BY 4.0",
    citation="Hofmann, H. (1994). Statlog (German Credit Data). UCI Machine Learning Repository. doi:10.24432/C5NC77",
    rows=1_000,
    preparation="Columns named. sex is derived from personal_status_sex (A91, A93, A94 male; A92, A95 female), which "
    "stays in the frame but is not an attribute. Later research (Grömping 2019) found that the published meaning of "
    "several codes, of sex among them, does not match the original survey: read findings about sex with care.",
    schema=german_schema,
    prepare=prepare_german,
    extra=("personal_status_sex",),
    bundled="german.csv.xz",
)
