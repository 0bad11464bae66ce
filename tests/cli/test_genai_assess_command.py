"""``evenhand genai assess``: recorded sequences, tables and generators, with and without a configuration."""

import csv

import pandas as pd
import pytest

from evenhand.errors import DataError
from evenhand.genai.assessment.sequences import ItemTable

RECORDED = """run,asked,sex,age,file
1,leader,m,o,a.png
1,leader,f,y,b.png
2,leader,f,o,
1,poor,m,child,
1,leader,,y,
1,leader,m,o,
1,leader,m,o,
1,leader,m,y,
"""


CONFIG = """
conditions:
  - {name: leader, keywords: [leader]}
  - {name: poor, keywords: [poor]}
groups:
  gender: [woman, man]
  age: [child, adult, elderly]
specifications:
  - {condition: leader, group: gender, repeated: 4}
  - {condition: leader, group: age, eventual: true}
  - {condition: poor, paired: [gender, age], repeated: 9, name: everybody}
generator: {kind: studio, bias: {gender: {woman: 0.3, man: 0.7}}, seed: 1}
classifier: {kind: studio}
"""

LABELLED = """asked,label,age,prompt,file
leader,man,adult,a leader,
leader,woman,child,a female leader,
poor,man,adult,a poor man,
leader,man,elderly,a leader,
leader,woman,adult,a female leader,
leader,man,adult,a leader,
"""


@pytest.fixture
def files(tmp_path):
    """The paths of a recorded table, a configuration, a table that it describes, and a folder."""
    for name, text in (("recorded.csv", RECORDED), ("genai.yaml", CONFIG), ("table.csv", LABELLED)):
        (tmp_path / name).write_text(text, "utf-8")
    names = {"recorded": "recorded.csv", "config": "genai.yaml", "table": "table.csv", "out": "out", "none": "none.csv"}
    return {name: tmp_path / file for name, file in names.items()}


def test_json_alone_on_standard_output(evenhand, files):
    ran = evenhand(
        f"genai assess {files['recorded']} --condition-column asked=leader --group-column sex --sequence-column "
        "run=1 --repeated 3 --json -"
    )
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
    items = ItemTable(pd.DataFrame({"sex": [label, "other"]}))
    if misspelt:
        with pytest.raises(DataError, match="did you mean"):
            items.check_labels("sex", [value, "other"])
    else:
        items.check_labels("sex", [value, "other"])


def test_screen_page_and_every_sequence(evenhand, files, tmp_path):
    page = tmp_path / "page.html"
    ran = evenhand(
        f"genai assess {files['recorded']} --group-column sex --group-column age --sequence-column run "
        "--condition-column asked=leader --values age=y,o --repeated age=4,3 --repeated sex+age=9 "
        f"--verbose --html {page} --json {tmp_path / 's.json'}"
    )
    assert "1, 6 items" in ran.out
    assert "2, 1 item" in ran.out
    assert "every value of age appears repeatedly: y within 4, o within 3 items" in " ".join(ran.out.split())
    assert "75.0 % of the pairs of values appear (3 of 4)" in ran.out
    assert str(page) in ran.out
    assert ": asked = leader</h1>" in page.read_text("utf-8")
    assert (tmp_path / "s.json").read_text("utf-8").startswith("{")
    assert evenhand("genai", "assess", files["recorded"], "--group-column", "sex", "--quiet").out == ""


BY_CONFIGURATION = "genai assess {table} --config {config} --condition-column asked --group-column gender=label"


def test_a_table_by_a_configuration(evenhand, files, tmp_path):
    page = tmp_path / "page.html"
    ran = evenhand(f"{BY_CONFIGURATION} --html {page} --json -".format(**files))
    assert ran.json["kind"] == "genai-assessment"
    verdicts = [(v["name"], v["kind"], v["verdict"]) for one in ran.json["sequences"] for v in one["verdicts"]]
    assert verdicts == [
        ("leader: gender", "repeated", "holds"),
        ("leader: age", "eventual", "holds"),
        ("everybody", "paired", "unknown"),
    ]
    assert ran.json["prompts"] is None
    assert "everybody: every value of" in page.read_text("utf-8")


@pytest.mark.parametrize(("how", "verdict"), [("judged", "biased"), ("estimated", "unknown")])
def test_neutral_prompts_of_a_table(evenhand, files, how, verdict):
    ran = evenhand(f"{BY_CONFIGURATION} --inherent {how} --json -".format(**files))
    found = {(one["prompt"], one["group"]): one for one in ran.json["prompts"]["findings"]}
    assert found["a poor man", "gender"]["verdict"] == verdict
    assert found["a leader", "gender"]["shown"] == {"woman": 0, "man": 3}
    assert [one["prompts"] for one in ran.json["sequences"]] == ["all", "neutral"] * 2
    shown = evenhand(f"{BY_CONFIGURATION} --inherent {how} --verbose".format(**files))
    assert f"gender by prompt, {how}" in shown.out
    assert "a poor man" in shown.out


def test_a_generator_is_asked_and_its_items_judged_again(evenhand, files):
    out, config, prompts = files["out"], files["config"], files["none"]
    prompts.write_text("a poor person\n\na poor man\n", "utf-8")
    asked = ("--config", config, "--prompt", "a leader", "--prompts", prompts, "--out", out, "--inherent", "judged")
    ran = evenhand("genai assess --requests 15 --json -", *asked)
    assert [(one["condition"], one["prompts"], one["items"]) for one in ran.json["sequences"]] == [
        ("leader", "all", 5),
        ("leader", "neutral", 5),
        ("poor", "all", 10),
        ("poor", "neutral", 10),
    ]
    neutral = ran.json["sequences"][3]["groups"][0]
    assert (neutral["groups"], neutral["biased"]) == (["gender"], 5)
    page = (out / "assessment.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") == 15
    with (out / "sequence.csv").open(newline="", encoding="utf-8") as file:
        assert [row["prompt"] for row in csv.DictReader(file)] == ["a leader", "a poor person", "a poor man"] * 5
    again = evenhand(f"genai assess --config {config} {out / 'sequence.csv'} --inherent judged --json -")
    assert again.json["sequences"] == ran.json["sequences"]
    assert again.json["prompts"] == ran.json["prompts"]


def test_estimates_stop_where_they_are_told_to(evenhand, files):
    options = "--quiet --inherent estimated --bar 0.8 --error 0.2 --repetitions 12 --json - --prompt leader"
    ran = evenhand(f"genai assess --config {files['config']} --out {files['out']} {options}")
    findings = ran.json["prompts"]["findings"]
    assert {sum(one["shown"].values()) + one["unrecognised"] for one in findings} <= set(range(2, 13))
    assert (ran.json["prompts"]["bar"], ran.json["prompts"]["error"]) == (0.8, 0.2)
    assert findings[0]["probability"]["kind"] == "estimated"
    assert ran.json["sequences"][0]["items"] == 1


BAD_TABLES = [
    ("", "--group-column NAME"),
    ("--group-column sexx", "there is no column 'sexx'"),
    ("--group-column sex --condition-column asked", "NAME=VALUE"),
    ("--group-column sex --repeated soon", "expected a number of items, got 'soon'"),
    ("--group-column sex --sequence-column run=7", "no item has run = 7"),
    ("--group-column sex --confidence 2", "--confidence: expected a number between 0 and 1"),
    ("--group-column sex --html no/where.html", "there is no folder"),
    ("--group-column age --prompt x", "--prompt requires --config"),
    ("--group-column age --inherent judged", "--inherent requires --config"),
]
BAD_CONFIGURED = [
    ("", "expected SEQUENCE"),
    ("--prompt leader", "expected SEQUENCE"),
    ("{table} --prompt leader", "--prompt: --prompt requires a run without SEQUENCE"),
    ("{table} --repeated 4", "deadlines and values are part of the configuration"),
    ("{table} --inherent guessed", "--inherent: expected one of: judged"),
    ("{table} --group-column gender", "expected NAME=VALUE"),
    ("--prompt x --out {out} --group-column a=b", "columns require SEQUENCE"),
    ("--prompt cat --out {out}", "no prompt meets a condition"),
    ("--prompts {out} --out {out}", "cannot be read"),
    ("--prompt leader --out {out} --bar 0.2", "--bar: expected a number"),
]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "expected SEQUENCE"),
        ("{none} --group-column sex", "none.csv"),
        *((f"{{recorded}} {arguments}", said) for arguments, said in BAD_TABLES),
        *((f"--config {{config}} {arguments}", said) for arguments, said in BAD_CONFIGURED),
    ],
)
def test_bad_input_is_one_message_and_code_2(refuses, files, arguments, said):
    refuses(said, f"genai assess {arguments}".format(**files))
    assert not files["out"].exists()
