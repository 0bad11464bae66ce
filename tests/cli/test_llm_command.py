"""``evenhand llm``: its price is agreed to first; gates, tests, pages, answers; an interrupt keeps what was found."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from fake_chat import RecordingChat, chance_by_words

FILE = """
service: {{url: "{url}", model: fake, options: {{max_tokens: 8}}, backoff: 0}}
prompt: "{{{{ person.name }}}}: {{{{ years }}}} years as {{{{ trade }}}}. Invite? Answer yes or no."
answers: {{choices: ["yes", "no"], favourable: "yes"}}
people: {{names: bertrand-mullainathan, compare: [[white man, black man]]}}
plan: {{price: [1, 2], calls: 700}}
{more}
"""
BLACK = ("Jackson", "Jones", "Robinson", "Washington", "Williams")


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Twenty rows in a file, in the folder where commands are run."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"years": range(1, 21), "trade": ["clerk", "driver"] * 10}).to_csv("rows.csv", index=False)
    return "rows.csv"


@pytest.fixture
def chat():
    """A double that prefers white men."""
    with RecordingChat(lambda text: 0.1 if any(name in text for name in BLACK) else 0.9) as double:
        yield double


def write_model(chat, path, more=""):
    """Write the file of a double."""
    Path(path).write_text(FILE.format(url=chat.url, more=more), "utf-8")
    return path


def test_cost_asks_nothing_and_an_audit_stays_below_it(evenhand, chat, rows):
    model = write_model(chat, "screening.yaml")
    cost = evenhand("llm", "cost", model, rows, "--json", "-")
    assert chat.received == []
    refused = evenhand("llm", "audit", model, rows, code=2)
    assert f"up to {cost.json['calls']:,} times" in refused.err
    assert "--yes, or set a ceiling: --budget CALLS or --money AMOUNT" in refused.err
    assert chat.received == []
    ran = evenhand("llm", "audit", model, rows, "--yes", "--json", "-", "--findings", 0)
    assert 0 < ran.json["usage"]["calls"] == len(chat.paid) <= cost.json["calls"]
    assert ran.json["usage"]["money"] <= cost.json["money"]


def test_an_audit_leaves_a_page_a_table_and_answers(evenhand, chat, rows):
    model = write_model(chat, "screening.yaml")
    kept = ("--resume", "answers.jsonl")
    written = ("--html", "page.html", "--table", "numbers.csv", "--json", "audit.json", "--show-people")
    asked = ("--findings", 2, "--scenario", "trade", "--sweeps", 3)
    gates = ("--fail-on", "llm.gap.low > 0.02", "--fail-on", "llm.findings > 5")
    ran = evenhand("llm", "audit", model, rows, "--yes", *kept, *written, *asked, *gates, code=1)
    assert ran.err.count("--fail-on: this holds") == 1
    assert "llm.gap.low > 0.02" in ran.err
    assert "The group white man gets the favourable answer more often than black man" in " ".join(ran.out.split())
    page = Path("page.html").read_text("utf-8")
    assert "Confirmed pairs" in page
    assert "bertrand-mullainathan" in page
    assert set(pd.read_csv("numbers.csv")["scenario"].dropna()) == {"clerk", "driver"}
    paid = len(chat.paid)
    again = evenhand("llm", "audit", model, rows, "--yes", *kept, *asked, "--json", "-")
    assert len(chat.paid) == paid
    assert again.json["usage"]["calls"] == 0
    before = json.loads(Path("audit.json").read_text("utf-8"))
    assert again.json["comparisons"] == before["comparisons"]


def test_a_comparison_tells_that_blinding_helps(evenhand, chat, rows):
    files = write_model(chat, "named.yaml"), write_model(chat, "blind.yaml", "blind: true")
    gates = ("--fail-on", "llm.worse > 0", "--fail-on", "llm.better > 0")
    ran = evenhand("llm", "compare", *files, rows, "--yes", "--sweeps", 4, *gates, "--html", "page.html", code=1)
    assert ran.err.count("this holds") == 1
    assert "llm.better > 0" in ran.err
    assert "became smaller" in Path("page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--fail-on", "llm.gapp > 1"), 2, "there is no number called 'llm.gapp'"),
        (("--yes", "--fail-on", "llm.better > 0"), 2, "known: llm.gap, llm.gap_here"),
        (("--yes", "--fail-on", "flip_rate > 0"), 2, "known: llm.gap, llm.gap_here"),
        (("--yes", "--fail-on", "llm.gap['white man against green man'] > 0"), 2, "known: white man against black man"),
        (("--yes", "--scenario", "job"), 2, "--scenario"),
        (("--budget", 60), 2, "--budget: expected at least 120 calls"),
        (("--yes", "--at-once", 100), 2, "plan.at_once: expected a whole number between 1 and 64, got 100"),
        (("--money", 0.00001), 3, "may exceed the remaining part"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_paid(evenhand, chat, rows, arguments, code, message):
    ran = evenhand(
        "llm", "audit", write_model(chat, "screening.yaml"), rows, "--json", "out.json", *arguments, code=code
    )
    assert message in ran.err
    assert chat.paid == []
    assert not os.path.exists("out.json")


def test_an_interrupt_keeps_what_was_found(evenhand, chat, rows, interruptible):
    model = write_model(chat, "screening.yaml")
    answer, first = chat.answer, 20 * 2 * 2

    def interrupting(*request):
        if len(chat.received) == first + 70:
            os.kill(os.getpid(), signal.SIGINT)
        return answer(*request)

    chat.answer = interrupting
    asked = ("--half-width", 0.001, "--sweeps", 9, "--findings", 0)
    ran = evenhand("llm", "audit", model, rows, "--yes", "--json", "-", "--resume", "answers.jsonl", *asked, code=130)
    assert ran.json["interrupted"]
    assert 1 <= ran.json["sweeps"] < 9
    ran = evenhand("llm", "audit", model, rows, "--yes", "--json", "-", "--resume", "answers.jsonl", *asked)
    assert ran.json["sweeps"] == 9
    assert len(set(chat.paid)) == 20 * 2 * 10


def test_an_audit_of_a_screening_file(evenhand, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"years": rng.integers(0, 5, 80), "sex": rng.permutation(["female", "male"] * 40)})
    people["invited"] = rng.permutation(["yes", "no"] * 40)
    people.to_csv("people.csv", index=False)
    with RecordingChat(chance_by_words(0.6, {"female": -2.0})) as chat:
        file = {
            "service": {"url": chat.url, "model": "m"},
            "prompt": "A {{ sex }} welder with {{ years }} years. Invite? Answer yes or no.",
            "answers": {"choices": ["yes", "no"], "favourable": "yes", "read": "logprobs"},
            "answers_file": "kept.jsonl",
        }
        (tmp_path / "screening.yaml").write_text(yaml.safe_dump(file), "utf-8")
        audit = ["audit", "screening.yaml", "people.csv", "--target", "invited", "--favourable", "yes"]
        for _ in range(2):
            ran = evenhand(
                *audit, "--protected", "sex", "--quiet", "--json", "-", "--fail-on", "flip_rate > 0.9", code=1
            )
            assert ran.json["model"]["name"] == "screening.yaml"
            assert len(chat.paid) == len(set(chat.paid)) == 10
        file["plan"] = {"calls": 3}
        file["answers_file"] = "others.jsonl"
        (tmp_path / "screening.yaml").write_text(yaml.safe_dump(file), "utf-8")
        ran = evenhand(*audit, "--protected", "sex", "--quiet", code=3)
        assert len(chat.paid) == 13
        assert "limit of 3 calls" in ran.err
    (tmp_path / "screening.yaml").write_text("service: {url: x}", "utf-8")
    ran = evenhand(*audit, "--protected", "sex", code=2)
    assert "screening.yaml, service: `model` is missing" in ran.err.replace("\n  ", " ")
