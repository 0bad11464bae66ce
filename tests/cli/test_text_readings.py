"""Commands about texts say which rows have none."""

import json

import pandas as pd
import pytest

from evenhand.core.reading import TableReading


@pytest.mark.parametrize("command", ["search", "subgroups"])
def test_texts_say_which_rows_have_none(evenhand, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judge.py").write_text("def judge(texts):\n    return [int(' she ' in text) for text in texts]\n")
    texts = ["Yes, she did it.", "Yes, he did it.", None, "Nobody."] * 40
    pd.DataFrame({"text": texts, "id": range(160)}).to_csv("texts.csv", index=False)
    arguments = ("judge:judge", "texts.csv", "--text-column", "text", "--protected", "gender", "--json", "out.json")
    ran = evenhand(command, *arguments)
    assert ran.code == 0, ran.err
    reading = TableReading.model_validate(json.loads((tmp_path / "out.json").read_text())["table_reading"])
    assert reading == TableReading(rows=160, used=120, left_out={"without a value of text": 40})
    assert reading.describe() in " ".join(ran.out.split())
