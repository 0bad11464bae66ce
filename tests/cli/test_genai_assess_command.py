"""``evenhand genai assess``: what a recorded sequence shows, as a screen, JSON and a page."""

import pandas as pd
import pytest

from evenhand.errors import DataError
from evenhand.genai.assessment.sequences import ItemTable

TABLE = """run,asked,sex,age,file
1,leader,m,o,a.png
1,leader,f,y,b.png
2,leader,f,o,
1,poor,m,child,
1,leader,,y,
1,leader,m,o,
1,leader,m,o,
1,leader,m,y,
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(TABLE, "utf-8")
    return path


def test_json_alone_on_standard_output(evenhand, table):
    ran = evenhand(
        f"genai assess {table} --condition-column asked=leader --group-column sex --sequence-column "
        "run=1 --repeated 3 --json -"
    )
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert ran.json["kind"] == "genai-assessment"
    assert ran.json["conditions"] == {"asked": "leader"}
    (sequence,) = ran.json["sequences"]
    assert (sequence["name"], sequence["items"], sequence["coverage"]) == ("1", 6, None)
    female, male = sequence["groups"][0]["values"]
    assert (female["value"], female["appearances"], female["smallest_beta"], female["missed"]) == ("f", [2], 4, [5])
    assert (male["smallest_beta"], male["frequency"]["value"]) == (2, 0.8)
    assert [(one["kind"], one["verdict"]) for one in sequence["verdicts"]] == [
        ("eventual", "holds"),
        ("repeated", "violated"),
    ]


def test_labels_that_are_no_values(evenhand, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("n,sex\n1,female\n2,Female\n3,femal\n4,Female\n5,Female\n6,male\n")
    asked = ("genai", "assess", path, "--group-column", "sex", "--values", "sex=female,male", "--repeated", 3)
    ran = evenhand(*asked)
    assert (ran.code, ran.out) == (2, "")
    assert "'Female' in the column 'sex' (3 items) is not the value 'female': did you mean 'female'?" in ran.err
    # Without values all labels are: two spellings are not taken for two values.
    assert evenhand(*asked[:5]).code == 2
    path.write_text(path.read_text().replace("Female", "female"))
    ran = evenhand(*asked)
    assert ran.code == 2
    assert "'femal' in the column 'sex' (1 item) is not the value 'female'" in ran.err
    path.write_text(path.read_text().replace("femal\n", "robot\n"))
    ran = evenhand(*asked)
    assert ran.code == 0
    listed = "5 recognised items (1 with labels that are not values: 'robot' in 1)"
    assert listed in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("label", "value", "misspelt"),
    [
        ("femal", "female", True),
        ("FEMALE", "female", True),
        ("middle-aged", "middle aged", True),
        ("feamle", "female", True),
        ("male", "female", False),
        ("man", "men", False),
        ("asian_male", "asian_female", False),
        ("age 30", "age 40", False),
        ("?", "-", False),
    ],
)
def test_what_is_a_misspelt_value(label, value, misspelt):
    items = ItemTable(pd.DataFrame({"sex": [label]}))
    if misspelt:
        with pytest.raises(DataError, match="did you mean"):
            items.check_labels("sex", [value, "other"])
    else:
        items.check_labels("sex", [value, "other"])


def test_screen_page_and_every_sequence(evenhand, table, tmp_path):
    page = tmp_path / "page.html"
    ran = evenhand(
        f"genai assess {table} --group-column sex --group-column age --sequence-column run "
        "--condition-column asked=leader --values age=y,o --repeated age=4,3 --repeated sex+age=9 "
        f"--verbose --html {page} --json {tmp_path / 's.json'}"
    )
    assert ran.code == 0, ran.err
    assert "1, 6 items" in ran.out
    assert "2, 1 item" in ran.out
    assert "every value of age appears, again and again: y within 4, o within 3 items" in " ".join(ran.out.split())
    assert "75.0 % of the pairs of values appear (3 of 4)" in ran.out
    assert str(page) in ran.out
    assert ": asked = leader</h1>" in page.read_text("utf-8")
    assert (tmp_path / "s.json").read_text("utf-8").startswith("{")
    quiet = evenhand("genai", "assess", table, "--group-column", "sex", "--quiet")
    assert (quiet.code, quiet.out) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--group-column NAME"),
        (["--group-column", "sexx"], "there is no column 'sexx'"),
        (["--group-column", "sex", "--condition-column", "asked"], "NAME=VALUE"),
        (["--group-column", "sex", "--condition-column", "asked=rich"], "no item has asked = rich"),
        (["--group-column", "sex", "--repeated", "soon"], "expected a number of items, got 'soon'"),
        (["--group-column", "sex", "--repeated", "0"], "at least 1, got 0"),
        (["--group-column", "sex", "--repeated", "3,4,5"], "expected 2 deadlines, one per value, got 3"),
        (["--group-column", "sex", "--repeated", "age=3"], "there is no group 'age'"),
        (["--group-column", "sex", "--values", "sex=m"], "at least two distinct values"),
        (["--group-column", "sex", "--sequence-column", "run=7"], "no item has run = 7"),
        (["--group-column", "sex", "--ways", "2"], "combinations of 2 groups among 1"),
        (["--group-column", "sex", "--confidence", "2"], "--confidence: expected a number between 0 and 1"),
        (["--group-column", "sex", "--html", "no/where.html"], "there is no folder"),
    ],
)
def test_bad_input_is_one_message_and_code_2(refuses, table, arguments, said):
    refuses(said, "genai assess", table, *arguments)


def test_a_file_that_is_none(refuses, tmp_path):
    refuses("none.csv", "genai assess --group-column sex", tmp_path / "none.csv")
