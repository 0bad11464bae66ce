"""Runs of a generator: their folder, interruptions, and services."""

import contextlib
import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Lock
from typing import Any

import pytest
from genai_reference import Stops, read_rows

from evenhand.errors import DataError, FetchError, ModelError, OptionError
from evenhand.genai import GenerationConfig, Generator, Item, Pipeline, build_pipeline
from evenhand.genai.assessment.evaluation import evaluate_config, read_condition_sequences
from evenhand.genai.backends.studio import Studio
from evenhand.genai.enforcement.generate import GenerationRun, _RunDirectory, generate_items
from evenhand.genai.run_directory import CsvTable, write_item
from evenhand.genai.spec.pipeline_config import DiffusersGeneratorConfig
from genai_upstream import Upstream

DESCRIBED: dict[str, Any] = {
    "conditions": [{"name": "leader", "keywords": ["leader"]}, {"name": "poor", "keywords": ["poor"]}],
    "groups": {"age": ["child", "adult", "elderly"], "gender": ["woman", "man"]},
    "specifications": [
        {"condition": "leader", "group": "age", "repeated": [5, 3, 6]},
        {"condition": "leader", "group": "gender", "repeated": 4},
        {"condition": "poor", "group": "gender", "repeated": 4},
    ],
    "simulation": {"retries": 2},
    "generator": {"kind": "studio", "bias": {"age": {"adult": 1}, "gender": {"man": 4, "woman": 1}}, "seed": 3},
    "classifier": {"kind": "studio"},
}
PROMPTS = ["a business leader", "a poor leader", "an apple", "a poor person", "an elderly leader"]


def make_pipeline(**changes: Any) -> Pipeline:
    return build_pipeline(GenerationConfig.read({**DESCRIBED, **changes}))


def test_items_rows_and_state_are_in_the_folder(tmp_path: Path) -> None:
    seen: list[float] = []
    out = tmp_path / "deep" / "out"
    made = generate_items(make_pipeline(), PROMPTS * 4, out, progress=lambda what, share: seen.append(share))
    assert (made.requests, made.answered, made.items, made.rows) == (20, 20, 20, 20)
    assert made.statuses == {"ok": 20, "violation": 0, "unguarded": 0, "refused": 0}
    assert (len(seen), seen[-1]) == (20, 1.0)
    table = read_rows(out / "requests.csv")
    assert [row["prompt"] for row in table] == PROMPTS * 4
    assert [row["conditions"] for row in table[:5]] == ["leader", "leader;poor", "", "poor", "leader"]
    assert [row["fixed"] for row in table[:5]] == ["", "", "", "", "age"]
    assert sum(row["sent"] != row["prompt"] for row in table) == made.changed > 0
    for number, row in enumerate(table, start=1):
        assert row["request"] == str(number)
        assert row["file"] == f"items/{number:06d}.png"
        assert (out / row["file"]).read_bytes().startswith(b"\x89PNG")
    assert [row["age"] for row in table if row["fixed"]] == [""] * 4, "an item does not count where its prompt decides"
    assert {row["age"] for row in table if "leader" in row["conditions"] and not row["fixed"]} == set(
        DESCRIBED["groups"]["age"]
    )
    assert table[3]["slots"] == "poor: gender 2"
    assert json.loads(made.model_dump_json())["generator_calls"] == made.generator_calls == 20


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("obeys", [1.0, 0.3])
def test_assessments_judge_the_table_as_the_enforcer_did(tmp_path: Path, obeys: float, mode: str) -> None:
    """Two conditions, prompts that fix a value, items in which nobody is: the table says all that is needed."""
    pipeline = make_pipeline(
        generator={**DESCRIBED["generator"], "obeys": obeys, "unrecognised": 0.1},
        simulation={"retries": 0 if obeys < 1 else 2},
        guard={"mode": mode},
    )
    made = generate_items(pipeline, PROMPTS * 15, tmp_path)
    found = evaluate_config(read_condition_sequences(made.table, pipeline.configuration), pipeline.configuration)
    judged = {one.name: one.verdict for sequence in found.sequences for one in sequence.verdicts}
    counts = json.loads((tmp_path / "state.json").read_text("utf-8"))["enforcer"]
    missed = {name: row["counts"]["missed"] for name, row in counts.items()}
    assert judged == {name: "violated" if times else "holds" for name, times in missed.items()}
    assert any(missed.values()) == (obeys < 1)
    assert made.statuses["violation"] == 0 or obeys < 1


@pytest.mark.parametrize("at", [2, 7, 12])
def test_an_interrupted_run_is_finished_by_the_same_call(tmp_path: Path, at: int) -> None:
    whole = generate_items(make_pipeline(), PROMPTS * 3, tmp_path / "whole")
    stopped = make_pipeline()
    stopped = replace(stopped, generator=Stops(stopped.generator, at - 1))
    out = tmp_path / "out"
    first = generate_items(stopped, PROMPTS * 3, out)
    assert first.interrupted
    assert first.answered == at - 1 == len(read_rows(out / "requests.csv"))
    second = generate_items(make_pipeline(), PROMPTS * 3, out)
    assert (second.earlier, second.answered, second.interrupted) == (at - 1, 16 - at, False)
    assert second.rows == whole.rows == 15
    assert [row["prompt"] for row in read_rows(out / "requests.csv")] == PROMPTS * 3
    assert len({(out / row["file"]).read_bytes() for row in read_rows(out / "requests.csv")}) == 15
    # The same once more asks for nothing, unless that is wanted; more of the same goes on behind it.
    idle = generate_items(make_pipeline(), PROMPTS * 3, out)
    assert (idle.earlier, idle.answered, idle.generator_calls, idle.rows) == (15, 0, 0, 15)
    third = generate_items(make_pipeline(), PROMPTS * 3, out, again=True)
    assert (third.earlier, third.answered, third.rows) == (0, 15, 30), "what is finished is asked anew"
    found = evaluate_config(
        read_condition_sequences(third.table, make_pipeline().configuration), make_pipeline().configuration
    )
    assert {one.verdict for sequence in found.sequences for one in sequence.verdicts} == {"holds"}


def test_other_prompts_go_on_with_the_deadlines(tmp_path: Path) -> None:
    generate_items(make_pipeline(), ["a business leader"] * 2, tmp_path)
    made = generate_items(make_pipeline(), ["another leader"], tmp_path)
    assert (made.earlier, made.answered, made.rows) == (0, 1, 3)
    assert read_rows(tmp_path / "requests.csv")[-1]["slots"] == "leader: age 3; leader: gender 3"
    state = json.loads((tmp_path / "state.json").read_text("utf-8"))
    assert state["enforcer"]["leader: age"]["settled"] == 3


def test_an_interruption_before_anything_is_one(tmp_path: Path) -> None:
    pipeline = make_pipeline()
    with pytest.raises(KeyboardInterrupt):
        generate_items(replace(pipeline, generator=Stops(pipeline.generator, 0)), PROMPTS, tmp_path)
    assert generate_items(make_pipeline(), PROMPTS, tmp_path).earlier == 0
    assert len(read_rows(tmp_path / "requests.csv")) == 5


@pytest.mark.parametrize("written", [False, True])
def test_an_interruption_between_row_and_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    known = _RunDirectory._write_state

    def stopped(self: Any) -> None:
        if len(self.table.rows) != 3 or written:
            known(self)
        if len(self.table.rows) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_RunDirectory, "_write_state", stopped)
        made = generate_items(make_pipeline(), PROMPTS, tmp_path)
    assert (made.interrupted, made.rows, len(read_rows(tmp_path / "requests.csv"))) == (True, 2 + written, 2 + written)
    assert generate_items(make_pipeline(), PROMPTS, tmp_path).earlier == 2 + written
    assert [row["prompt"] for row in read_rows(tmp_path / "requests.csv")] == PROMPTS


def test_more_of_the_same_prompts_are_only_those_that_are_new(tmp_path: Path) -> None:
    generate_items(make_pipeline(), PROMPTS, tmp_path)
    made = generate_items(make_pipeline(), PROMPTS * 2, tmp_path)
    assert (made.earlier, made.answered, made.rows) == (5, 5, 10)
    assert [row["prompt"] for row in read_rows(tmp_path / "requests.csv")] == PROMPTS * 2


class MeetingPoint:
    """A generator whose items are made once several are asked for at the same time."""

    def __init__(self, generator: Generator, several: int) -> None:
        self._generator, self._barrier = generator, Barrier(several)
        self._lock = Lock()

    def generate(self, prompt: str) -> Item:
        with contextlib.suppress(BrokenBarrierError):
            self._barrier.wait(timeout=20)
        with self._lock:
            return self._generator.generate(prompt)


@pytest.mark.parametrize("mode", ["before", "after"])
def test_several_at_once_keep_every_deadline_in_the_order_of_the_rows(tmp_path: Path, mode: str) -> None:
    one = {"condition": "leader", "group": "gender", "repeated": 4}
    pipeline = make_pipeline(guard={"mode": mode}, specifications=[one], simulation={"retries": 0})
    # All three are under way at once, or the barrier would not open.
    pipeline = replace(
        pipeline, generator=MeetingPoint(pipeline.generator, 3) if mode == "before" else pipeline.generator
    )
    prompts = [f"leader {k}" for k in range(30)]
    made = generate_items(pipeline, prompts, tmp_path, in_flight=3)
    assert (made.items, made.rows, made.missed, made.outcomes) == (30, 30, 0, {"ok": 30})
    table = read_rows(tmp_path / "requests.csv")
    assert sorted(row["prompt"] for row in table) == sorted(prompts)
    slots = [int(row["slots"].rpartition(" ")[2]) for row in table]
    assert slots == sorted(slots)
    found = evaluate_config(read_condition_sequences(made.table, pipeline.configuration), pipeline.configuration)
    assert [one.verdict for one in found.sequences[0].verdicts] == ["holds"]
    again = generate_items(make_pipeline(guard={"mode": mode}, specifications=[one]), prompts, tmp_path, in_flight=2)
    assert again.answered == 0


def test_one_at_a_time_is_asked_of_generators_that_threads_cannot_share(tmp_path: Path) -> None:
    studio = make_pipeline()
    local = studio.configuration.model_copy(update={"generator": DiffusersGeneratorConfig(kind="diffusers", model="m")})
    with pytest.raises(OptionError, match="expected 1 for this generator in flight, got 2"):
        generate_items(replace(studio, configuration=local), PROMPTS, tmp_path / "out", in_flight=2)
    with pytest.raises(OptionError, match="expected 1 or more in flight, got 0"):
        generate_items(make_pipeline(), PROMPTS, tmp_path / "out", in_flight=0)


def test_a_key_that_is_not_set_is_told_before_anything_is_asked(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    judge = {"kind": "chat", "url": "http://127.0.0.1:9/v1", "model": "m", "key": "NO_SUCH_KEY"}
    conditions = [{"name": name, "judge": "Is it?"} for name in ("leader", "poor")]
    with pytest.raises(OptionError, match="NO_SUCH_KEY for the key is not set") as caught:
        generate_items(make_pipeline(judge=judge, conditions=conditions), PROMPTS, tmp_path / "out")
    assert caught.value.location == "judge, key"
    assert not (tmp_path / "out").exists()


def test_what_comes_to_nothing_again_and_again_is_stopped(tmp_path: Path) -> None:
    class Down:
        def generate(self, prompt: str) -> Item:
            raise FetchError("nobody is there")

    with pytest.raises(ModelError, match="5 consecutive requests failed, the last because the generator failed"):
        generate_items(replace(make_pipeline(), generator=Down()), PROMPTS * 4, tmp_path)
    assert [row["status"] for row in read_rows(tmp_path / "requests.csv")] == ["refused"] * 5
    assert read_rows(tmp_path / "requests.csv")[0]["reason"] == "the generator failed: nobody is there"
    made = generate_items(make_pipeline(), PROMPTS * 4, tmp_path)
    assert (made.earlier, made.answered, made.items) == (5, 15, 15)


def test_folders_that_cannot_be_gone_on_with(tmp_path: Path) -> None:
    generate_items(make_pipeline(), PROMPTS, tmp_path / "a")
    other = make_pipeline(specifications=DESCRIBED["specifications"][:2])
    with pytest.raises(DataError, match="there is no specification 'poor: gender'"):
        generate_items(other, PROMPTS, tmp_path / "a")
    more = [*DESCRIBED["specifications"], {"condition": "poor", "group": "age", "repeated": 6}]
    with pytest.raises(DataError, match="the specification 'poor: age' is not in the state"):
        generate_items(make_pipeline(specifications=more), PROMPTS, tmp_path / "a")
    wider = [{"condition": "leader", "group": "age", "repeated": [5, 3, 6, 9]}, *DESCRIBED["specifications"][1:]]
    unlike = {**DESCRIBED["groups"], "age": ["child", "adult", "elderly", "other"]}
    about = GenerationConfig.read(
        {**DESCRIBED, "classifier": None, "generator": None, "specifications": wider, "groups": unlike}
    )
    with pytest.raises(DataError, match=r"use the same configuration|belongs to another"):
        generate_items(
            Pipeline(about, Studio(), make_pipeline().classifier, make_pipeline().judge), PROMPTS, tmp_path / "a"
        )
    table = tmp_path / "a" / "requests.csv"
    whole = table.read_text("utf-8")
    table.write_text("request,prompt\n1,x\n", "utf-8")
    with pytest.raises(DataError, match="the table has different columns"):
        generate_items(make_pipeline(), PROMPTS, tmp_path / "a")
    table.write_text("".join(whole.splitlines(keepends=True)[:4]), "utf-8")
    with pytest.raises(DataError, match="this table does not contain the 5 requests"):
        generate_items(make_pipeline(), PROMPTS, tmp_path / "a")
    (tmp_path / "a" / "state.json").write_text("[]", "utf-8")
    with pytest.raises(DataError, match="expected the state of a run"):
        generate_items(make_pipeline(), PROMPTS, tmp_path / "a")
    table.write_text(whole, "utf-8")
    (tmp_path / "a" / "state.json").unlink()
    with pytest.raises(OptionError, match="contains requests without their state"):
        generate_items(make_pipeline(), PROMPTS, tmp_path / "a")
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(OptionError, match="cannot be used"):
        generate_items(make_pipeline(), PROMPTS, tmp_path / "file")
    with pytest.raises(OptionError, match="there are no prompts"):
        generate_items(make_pipeline(), [], tmp_path / "b")


def test_a_group_that_is_named_like_a_column(tmp_path: Path) -> None:
    described = {
        "conditions": [{"name": "leader", "keywords": ["leader"]}],
        "specifications": [{"condition": "leader", "group": "status", "values": ["high", "low"], "repeated": 4}],
        "classifier": {"kind": "lexicon", "words": {"status": {"high": ["high"], "low": ["low"]}}},
        "generator": {"kind": "studio"},
    }
    about = GenerationConfig.read(described)
    pipeline = Pipeline(about, Studio(), make_pipeline().classifier, make_pipeline().judge)
    with pytest.raises(OptionError, match="'status' has the same name as another column"):
        generate_items(pipeline, PROMPTS, tmp_path)


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


NAMES = ["request", "prompt"]
ROWS = [{"request": "1", "prompt": "plain"}, {"request": "2", "prompt": 'two\nlines, "quoted"'}, {"request": "3"}]


def test_whole_rows_survive_a_cut_at_any_place(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    table = CsvTable(path, NAMES)
    for row in ROWS:
        table.append(row)
    whole = path.read_bytes()
    expected = CsvTable(path, NAMES).rows
    assert [row["prompt"] for row in expected] == ["plain", 'two\nlines, "quoted"', ""]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        again = CsvTable(path, NAMES)
        assert again.rows == expected[: len(again.rows)]
        assert path.read_bytes() == whole[:cut]
        for row in ROWS[len(again.rows) :]:
            again.append(row)
        assert path.read_bytes() == whole


def test_rows_are_taken_back(tmp_path: Path) -> None:
    table = CsvTable(tmp_path / "table.csv", NAMES)
    for row in ROWS:
        table.append(row)
    table.truncate(1)
    assert CsvTable(table.path, NAMES).rows == table.rows == [ROWS[0]]
    with pytest.raises(DataError, match="different columns"):
        CsvTable(table.path, ["request"])


def test_items_are_called_by_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "items").mkdir()
    assert write_item(tmp_path, "1", Item("image", b"x", "image/png")) == "items/1.png"
    assert write_item(tmp_path, "2", Item("image", b"y", "strange/thing")) == "items/2.bin"
    assert (tmp_path / "items" / "2.bin").read_bytes() == b"y"
