"""Published sets of prompts for language models that decide about people: discrim-eval."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from evenhand.datasets.entry import (
    DatasetEntry,
    categorical_attribute,
    decision_schema,
    integer_attribute,
    require_columns,
)
from evenhand.errors import DataError
from evenhand.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

QUESTIONS = 70


def discrim_eval_schema() -> Schema:
    """Return the schema: who is decided about; age, gender and race are protected."""
    return decision_schema(
        "answer", "no", "yes", favourable="yes",
        attributes=(
            integer_attribute("age", 20, 100, protected=True),
            categorical_attribute("gender", "female", "male", "non-binary", protected=True),
            categorical_attribute(
                "race", "Asian", "Black", "Hispanic", "Native American", "white", protected=True
            ),
        ),
    )  # fmt: skip


def _describe_set(kind: str, who: str) -> DatasetEntry:
    def prepare(data: bytes, location: str) -> pd.DataFrame:
        """Return one row per prompt, of the publisher's JSON lines."""
        frame = _read_lines(data, location).assign(answer="yes")
        require_columns(frame, entry.columns(), location)
        return entry.take_columns(frame, location)

    entry = DatasetEntry(
        name=f"discrim-eval-{kind}",
        title=f"Discrim-Eval, {kind}",
        about=f"9,450 prompts: {QUESTIONS} decisions about a person, such as a loan or a visa, each about 135 people "
        f"who differ in age, gender and race, {who}; what would a language model decide?",
        origin="Anthropic, 2023; written by a language model (Claude) and checked by people",
        publisher="https://huggingface.co/datasets/Anthropic/discrim-eval",
        licence="CC BY 4.0",
        citation="Tamkin, A., Askell, A., Lovitt, L., Durmus, E., Joseph, N., Kravec, S., Nguyen, K., Kaplan, J., "
        "Ganguli, D. (2023). Evaluating and mitigating discrimination in language model decisions. arXiv:2312.03689",
        rows=QUESTIONS * 135,
        preparation="The text of a prompt is filled_template; texts of one decision share a decision_question_id. A "
        "text model takes that column. answer is added: yes, which is to the person's "
        "advantage in every prompt. It is not what anybody decided, so error rates mean nothing.",
        schema=discrim_eval_schema,
        prepare=prepare,
        extra=("decision_question_id", "filled_template"),
        files=(f"discrim-eval-{kind}.jsonl", f"{kind}.jsonl"),
        urls=(f"https://huggingface.co/datasets/Anthropic/discrim-eval/resolve/main/{kind}.jsonl",),
    )
    return entry


def _read_lines(data: bytes, location: str) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for number, line in enumerate(io.BytesIO(data), start=1):
        try:
            row = json.loads(line) if line.strip() else None
        except ValueError:
            row = line
        if row is not None and not isinstance(row, dict):
            raise DataError("expected an object of JSON", location=f"{location}, line {number}", hint="get it again")
        rows.append(row)
    return pd.DataFrame([row for row in rows if row is not None])


DISCRIM_EVAL_EXPLICIT = _describe_set("explicit", "said in words")
DISCRIM_EVAL_IMPLICIT = _describe_set("implicit", "race and gender said by names")
