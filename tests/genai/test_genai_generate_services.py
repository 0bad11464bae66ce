"""A configuration whose generator, classifier and judge are services: one guard around all three, from a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenhand.genai import GenerationConfig, build_pipeline
from evenhand.genai.assessment.evaluation import evaluate_config, read_condition_sequences
from evenhand.genai.backends.studio import Studio
from evenhand.genai.enforcement.generate import GenerationRun, generate_items
from genai_upstream import Upstream

KEY = "sk-a-secret-of-ours"


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    monkeypatch.setenv("OUR_KEY", KEY)
    studio = Studio({"age": {"adult": 9, "child": 1}, "gender": {"man": 3, "woman": 1}}, obeys=0.9, seed=1)
    with Upstream(studio, key=KEY) as running:
        yield running


def described(upstream: Upstream, folder: Path, **guard: str) -> GenerationConfig:
    service = {"url": upstream.url, "model": "studio", "key": "OUR_KEY"}
    file = folder / "genai.yaml"
    file.write_text(
        json.dumps(
            {
                "conditions": [{"name": "leader", "judge": "Does this prompt ask for a 'leader'?"}],
                "groups": {"age": ["child", "adult", "elderly"], "gender": ["woman", "man"]},
                "specifications": [
                    {"condition": "leader", "group": "age", "repeated": [6, 4, 7]},
                    {"condition": "leader", "group": "gender", "repeated": 4},
                ],
                "simulation": {"retries": 3},
                "generator": {"kind": "images", **service},
                "classifier": {"kind": "chat", **service},
                "judge": {"kind": "chat", **service},
                "guard": guard,
            }
        ),
        "utf-8",
    )
    return GenerationConfig.read(file)


def run(asked: GenerationConfig, prompts: list[str], out: Path) -> tuple[GenerationRun, list[dict[str, str]]]:
    made = generate_items(build_pipeline(asked), prompts, out)
    with made.table.open(encoding="utf-8", newline="") as file:
        return made, list(csv.DictReader(file))


@pytest.mark.parametrize("mode", ["before", "after"])
def test_deadlines_are_kept_through_services_alone(upstream: Upstream, tmp_path: Path, mode: str) -> None:
    asked = described(upstream, tmp_path, mode=mode)
    made, rows = run(asked, ["a business leader", "an elderly leader", "a bowl of apples"] * 8, tmp_path / "out")
    assert made.statuses["ok"] == made.items == 24
    assert made.changed > 0
    assert [row["conditions"] for row in rows[:3]] == ["leader", "leader", ""]
    assert [row["fixed"] for row in rows[:3]] == ["", "age", ""]
    found = evaluate_config(read_condition_sequences(made.table, asked), asked)
    assert [one.verdict for sequence in found.sequences for one in sequence.verdicts] == ["holds", "holds"]
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


def test_services_that_refuse_are_told_and_nothing_slips_through(upstream: Upstream, tmp_path: Path) -> None:
    asked = described(upstream, tmp_path)
    # The first that is asked is the judge.
    upstream.failures = [400]
    made, rows = run(asked, ["a business leader"], tmp_path / "judge")
    assert (rows[0]["status"], rows[0]["file"]) == ("refused", "")
    assert rows[0]["reason"].startswith("the judge failed: ")
    assert upstream.asked("/v1/images/generations") == []
    before = len(upstream.received)
    run(asked, ["a business leader"], tmp_path / "good")
    calls = [path for path, *_ in upstream.received[before:]]
    drawn = calls.index("/v1/images/generations")
    for at, who in ((drawn, "the generator failed: "), (len(calls) - 1, "the classifier failed: ")):
        upstream.failures = [None] * at + [400]
        made, rows = run(asked, ["a business leader"], tmp_path / str(at))
        assert (rows[0]["status"], rows[0]["file"], made.items) == ("refused", "", 0)
        assert rows[0]["reason"].startswith(who)
        assert KEY not in rows[0]["reason"]


def test_a_refusal_and_the_prompt_that_was_drawn_are_kept(upstream: Upstream, tmp_path: Path) -> None:
    asked = described(upstream, tmp_path)
    _made, rows = run(asked, ["a bowl of apples"], tmp_path / "good")
    assert rows[0]["revised_prompt"] == "a bowl of apples"
    # The judge is asked once of what counts for nothing; then comes the generator.
    before = len(upstream.received)
    run(asked, ["a pear"], tmp_path / "calls")
    calls = [path for path, *_ in upstream.received[before:]]
    upstream.failures = [None] * calls.index("/v1/images/generations") + [400]
    upstream.error = {"code": "moderation_blocked", "message": f"not with {KEY}", "type": "user_error"}
    made, rows = run(asked, ["a plum"], tmp_path / "refused")
    assert made.statuses["refused"] == 1
    assert rows[0]["reason"] == "the generator refused: not with *** (moderation_blocked)"
