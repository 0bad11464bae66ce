"""``evenhand genai generate``: a guard from the command line, with the studio and no network."""

import csv
import io
import json

import pytest

CONFIG = """
conditions: [{name: leader, keywords: [leader]}]
specifications:
  - {condition: leader, group: age, values: [child, adult, elderly], repeated: 5}
generator: {kind: studio, bias: {age: {adult: 1}}}
classifier: {kind: studio}
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "genai.yaml"
    path.write_text(CONFIG, "utf-8")
    return path


def test_what_is_made_is_assessed_as_it_is(evenhand, config, tmp_path):
    out = tmp_path / "out"
    ran = evenhand(f"genai generate --config {config} --requests 25 --out {out} --json -", "--prompt", "a leader")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["kind"] == "genai-generated"
    assert ran.json["statuses"] == {"ok": 25, "violation": 0, "unguarded": 0, "refused": 0}
    assert 0 < ran.json["changed"] < 25
    ran = evenhand("genai", "assess", out / "requests.csv", "--config", config, "--json", "-")
    assert ran.code == 0, ran.err
    assert [one["verdict"] for one in ran.json["sequences"][0]["verdicts"]] == ["holds"]
    assert ran.json["sequences"][0]["items"] == 25
    ran = evenhand("genai", "check", "--config", config, "--state", out / "state.json", "--json", "-")
    assert ran.code == 0, ran.err
    assert ran.json["success"]["rate"]["leader: age"]["n"] > 0
    ran = evenhand(
        f"genai assess {out / 'requests.csv'} --condition-column conditions=leader --group-column age "
        f"--repeated 5 --image-column file --html {out / 'page.html'}"
    )
    assert ran.code == 0, ran.err
    assert "violated" not in ran.out
    assert "<img" in (out / "page.html").read_text("utf-8")


def test_a_prompt_ends_at_a_line_feed_alone(evenhand, config, tmp_path):
    (tmp_path / "prompts.txt").write_text("\ufeffa leader\u2028of men\r\nan\x85apple\r\n", "utf-8", newline="")
    command = ("genai", "generate", "--config", config, "--out", tmp_path / "out", "--json", "-")
    assert evenhand(*command, "--prompts", tmp_path / "prompts.txt").json["requests"] == 2
    with (tmp_path / "out" / "requests.csv").open(encoding="utf-8", newline="") as file:
        assert [row["prompt"] for row in csv.DictReader(file)] == ["a leader\u2028of men", "an\x85apple"]


def test_prompts_from_a_file_or_standard_input_are_gone_through_again(evenhand, config, tmp_path, monkeypatch):
    (tmp_path / "prompts.txt").write_text("a leader\n\n  an apple \n", "utf-8")
    out = tmp_path / "out"
    command = ("genai", "generate", "--config", config, "--out", out, "--json", "-")
    assert evenhand(*command, "--prompts", tmp_path / "prompts.txt").json["requests"] == 2
    monkeypatch.setattr("sys.stdin", io.StringIO("another leader\n"))
    assert evenhand(*command, "--prompts", "-").json["rows"] == 3
    assert evenhand(*command, "--prompts", tmp_path / "prompts.txt", "--requests", 3).json["rows"] == 6
    lines = (out / "requests.csv").read_text("utf-8").splitlines()
    assert [line.split(",")[1] for line in lines[1:]] == [
        "a leader",
        "an apple",
        "another leader",
        "a leader",
        "an apple",
        "a leader",
    ]


def test_the_same_command_adds_nothing_unasked_and_violations_have_an_exit_code(evenhand, tmp_path):
    path = tmp_path / "genai.yaml"
    path.write_text(
        "conditions: [{name: leader, keywords: [leader]}]\n"
        "specifications: [{condition: leader, group: gender, values: [woman, man], repeated: 3}]\n"
        "simulation: {retries: 0}\n"
        "generator: {kind: studio, bias: {gender: {man: 1}}, obeys: 0}\nclassifier: {kind: studio}\n"
    )
    command = ("genai generate --requests 9", "--config", path, "--prompt", "a leader", "--out", tmp_path / "out")
    ran = evenhand(*command)
    assert ran.code == 0
    # The reasons stand on lines of their own, apart from what announces them.
    assert [line.strip() for line in ran.out.splitlines() if "because" in line] == ["Not ok because:"]
    ran = evenhand(*command, "--fail-on", "violation", "--fail-on", "missed", "--fail-on", "refused")
    assert ran.code == 1
    assert "9 of 9" in ran.out or "All of them were answered before" in ran.out
    assert ran.err.splitlines() == ["--fail-on: this holds: violation", "--fail-on: this holds: missed"]
    assert evenhand(*command, "--fail-on", "refused").code == 0
    ran = evenhand(*command, "--again", "--json", "-", "--in-flight", 2)
    assert (ran.json["answered"], ran.json["rows"]) == (9, 18)
    ran = evenhand(*command, "--fail-on", "sorrow")
    assert ran.code == 2
    assert "there is no condition 'sorrow'" in ran.err


def test_an_interrupted_run_says_so_and_is_finished(evenhand, config, tmp_path, monkeypatch):
    from evenhand.genai.backends.studio import Studio

    draw, drawn = Studio.generate, []

    def stops(self, prompt):
        drawn.append(prompt)
        if len(drawn) == 4:
            raise KeyboardInterrupt
        return draw(self, prompt)

    monkeypatch.setattr(Studio, "generate", stops)
    command = ("genai", "generate", "--config", config, "--prompt", "a leader", "--requests", 6, "--out", tmp_path)
    ran = evenhand(*command)
    assert ran.code == 130
    assert "Interrupted with 3 left" in ran.out
    ran = evenhand(*command)
    assert ran.code == 0
    assert "3 of 6 were answered before" in ran.out
    assert json.loads((tmp_path / "state.json").read_text("utf-8"))["rows"] == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected --prompts or --prompt, got none"),
        (["--prompt", "  "], "--prompt: there is no prompt"),
        (["--prompts", "nowhere.txt"], "nowhere.txt cannot be read"),
    ],
)
def test_bad_input_is_one_message(refuses, config, tmp_path, options, message):
    refuses(message, "genai generate", "--config", config, "--out", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_functions_need_trust_and_an_out_folder_is_none_that_is_a_file(evenhand, tmp_path):
    path = tmp_path / "genai.yaml"
    path.write_text(
        CONFIG.replace("classifier: {kind: studio}", "classifier: {kind: function, function: a:b}"), "utf-8"
    )
    ran = evenhand("genai", "generate", "--config", path, "--prompt", "a leader", "--out", tmp_path / "out")
    assert (ran.code, "would be executed" in ran.err, "--trust" in ran.err) == (2, True, True)
    ran = evenhand("genai", "generate", "--config", path, "--prompt", "a leader", "--out", path)
    assert (ran.code, "is a file, not a folder" in ran.err) == (2, True)
