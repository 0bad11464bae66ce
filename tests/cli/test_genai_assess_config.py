"""``evenhand genai assess --config``: tables and generators judged by a configuration, from the command line."""

import csv

import pytest

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

TABLE = """asked,label,age,prompt,file
leader,man,adult,a leader,
leader,woman,child,a female leader,
poor,man,adult,a poor man,
leader,man,elderly,a leader,
leader,woman,adult,a female leader,
leader,man,adult,a leader,
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "genai.yaml"
    path.write_text(CONFIG, "utf-8")
    return path


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(TABLE, "utf-8")
    return path


def assess(evenhand, options, *arguments):
    return evenhand(f"genai assess {options}", *arguments)


def test_a_table_by_a_configuration(evenhand, config, table, tmp_path):
    page = tmp_path / "page.html"
    ran = assess(
        evenhand,
        f"{table} --config {config} --condition-column asked --group-column gender=label --html {page} --json -",
    )
    assert ran.code == 0, ran.err
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
def test_neutral_prompts_of_a_table(evenhand, config, table, how, verdict):
    ran = assess(
        evenhand,
        f"--config {config} {table} --condition-column asked --group-column gender=label --inherent {how} --json -",
    )
    assert ran.code == 0, ran.err
    found = {(one["prompt"], one["group"]): one for one in ran.json["prompts"]["findings"]}
    assert found["a poor man", "gender"]["verdict"] == verdict
    assert found["a leader", "gender"]["shown"] == {"woman": 0, "man": 3}
    assert [one["prompts"] for one in ran.json["sequences"]] == ["all", "neutral"] * 2
    shown = assess(
        evenhand,
        f"--config {config} {table} --condition-column asked --group-column gender=label --inherent {how} --verbose",
    )
    assert f"gender by prompt, {how}" in shown.out
    assert "a poor man" in shown.out


def test_a_generator_is_asked_and_its_items_judged_again(evenhand, config, tmp_path):
    out, prompts = tmp_path / "out", tmp_path / "prompts.txt"
    prompts.write_text("a poor person\n\na poor man\n", "utf-8")
    asked = ("--config", config, "--prompt", "a leader", "--prompts", prompts, "--out", out, "--inherent", "judged")
    ran = assess(evenhand, "--requests 15 --json -", *asked)
    assert ran.code == 0, ran.err
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
    again = assess(evenhand, f"--config {config} {out / 'sequence.csv'} --inherent judged --json -")
    assert again.code == 0, again.err
    assert again.json["sequences"] == ran.json["sequences"]
    assert again.json["prompts"] == ran.json["prompts"]


def test_estimates_stop_where_they_are_told_to(evenhand, config, tmp_path):
    ran = assess(
        evenhand,
        f"--config {config} --out {tmp_path / 'out'} --quiet --inherent estimated --bar 0.8 --error "
        "0.2 --repetitions 12 --json -",
        "--prompt",
        "a leader",
    )
    assert ran.code == 0, ran.err
    findings = ran.json["prompts"]["findings"]
    assert {sum(one["shown"].values()) + one["unrecognised"] for one in findings} <= set(range(2, 13))
    assert (ran.json["prompts"]["bar"], ran.json["prompts"]["error"]) == (0.8, 0.2)
    assert findings[0]["probability"]["kind"] == "estimated"
    assert ran.json["sequences"][0]["items"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected SEQUENCE"),
        (["--config", "{config}"], "expected SEQUENCE"),
        (["--config", "{config}", "--prompt", "a leader"], "expected SEQUENCE"),
        (
            ["--config", "{config}", "{table}", "--prompt", "a leader"],
            "--prompt: --prompt requires a run without SEQUENCE",
        ),
        (["{table}", "--group-column", "age", "--prompt", "x"], "--prompt requires --config"),
        (["{table}", "--group-column", "age", "--inherent", "judged"], "--inherent requires --config"),
        (["--config", "{config}", "{table}", "--repeated", "4"], "deadlines and values are part of the configuration"),
        (["--config", "{config}", "{table}", "--inherent", "guessed"], "--inherent: expected one of: judged"),
        (
            ["--config", "{config}", "--prompt", "x", "--out", "{out}", "--group-column", "a=b"],
            "columns require SEQUENCE",
        ),
        (["--config", "{config}", "--prompt", "a cat", "--out", "{out}"], "no prompt meets a condition"),
        (["--config", "{config}", "--prompts", "{out}", "--out", "{out}"], "cannot be read"),
        (["--config", "{config}", "{table}", "--group-column", "gender"], "expected NAME=VALUE"),
        (
            ["--config", "{config}", "--prompt", "a leader", "--out", "{out}", "--bar", "0.2"],
            "--bar: expected a number",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(evenhand, config, table, tmp_path, arguments, said):
    places = {"config": config, "table": table, "out": tmp_path / "out"}
    ran = assess(evenhand, "", *(str(one).format(**places) for one in arguments))
    assert ran.code == 2, ran.out
    assert said in " ".join(ran.err.split())
    assert not (tmp_path / "out").exists()
