"""The generator, classifier, judge and guard of a configuration: what is read, what is refused, and what is built."""

from pathlib import Path
from typing import Any

import pytest

from evenhand import genai
from evenhand.errors import EvenhandError, ModelError, OptionError, TrustError
from evenhand.genai import FunctionClassifier, FunctionJudge, GenerationConfig, Item, OpenAIChat, build_pipeline
from evenhand.genai.backends.studio import Studio, StudioPixels
from evenhand.genai.pipeline import build_generator

BASE: dict[str, Any] = {
    "conditions": [{"name": "leader", "keywords": ["leader"]}],
    "groups": {"age": ["child", "adult", "elderly"]},
    "specifications": [{"condition": "leader", "group": "age", "repeated": 6}],
    "generator": {"kind": "studio"},
    "classifier": {"kind": "studio"},
}
REMOTE = {"url": "http://127.0.0.1:9/v1", "model": "m"}
WORDS = {"age": {"child": ["child"], "adult": ["adult"], "elderly": ["old"]}}
HEAD = {"file": "age.onnx", "labels": ["child", "adult", "elderly"], "scores": "softmax"}


def read(**changes: Any) -> GenerationConfig:
    return GenerationConfig.read({name: entry for name, entry in {**BASE, **changes}.items() if entry is not None})


def test_files_without_these_entries_are_as_they_were() -> None:
    about = read(generator=None, classifier=None)
    assert (about.generator, about.classifier, about.judge) == (None, None, None)
    assert (about.guard.mode, about.guard.when_unsure) == ("before", "refuse")
    with pytest.raises(OptionError, match="generator: there is no generator"):
        build_pipeline(about)
    with pytest.raises(OptionError, match="classifier: there is no classifier"):
        build_pipeline(read(classifier=None))


@pytest.mark.parametrize(
    ("entry", "given", "location", "what"),
    [
        ("generator", {"url": "x"}, "generator", "`kind` is missing"),
        ("generator", {"kind": "studio", "biass": 1}, "generator", "there is no entry 'biass'"),
        ("generator", {"kind": "studio", "bias": {"age": {"child": -1}}}, "generator.bias.age.child", "got -1"),
        ("generator", {"kind": "studio", "obeys": True}, "generator.obeys", "got True"),
        ("generator", {"kind": "images", "url": "a/v1", "model": "m"}, "generator.url", "expected a URL"),
        ("generator", {"kind": "chat", **REMOTE, "timeout": 0}, "generator.timeout", "got 0"),
        ("generator", {"kind": "diffusers", "model": "m", "steps": 0}, "generator.steps", "got 0"),
        (
            "classifier",
            {"kind": "lexicon", "words": {"age": {"child": ["kid"], "adult": ["adult"]}}},
            "classifier.words.age",
            "never returns age 'elderly'",
        ),
        (
            "classifier",
            {"kind": "lexicon", "words": {"age": {**WORDS["age"], "other": ["x"]}}},
            "classifier.words.age",
            "there is no age 'other'",
        ),
        (
            "classifier",
            {"kind": "onnx", "groups": {"age": {**HEAD, "layuot": "nchw"}}},
            "classifier.groups.age",
            "there is no entry 'layuot'",
        ),
        (
            "classifier",
            {"kind": "onnx", "groups": {"age": {**HEAD, "labels": ["child", "adult"]}}},
            "classifier.groups.age",
            "never returns age 'elderly'",
        ),
        (
            "classifier",
            {"kind": "chat", **REMOTE, "questions": {"hair": "Which?"}},
            "classifier.questions.hair",
            "there is no group 'hair'",
        ),
        ("classifier", {"kind": "function", "function": "faces.py"}, "classifier.function", "expected module:function"),
        ("judge", {"kind": "keywords", "fixed": {"age": {"old": ["old"]}}}, "judge.fixed.age", "there is no age 'old'"),
        ("judge", {"kind": "function", "functions": {"boss": "m:f"}}, "judge.functions", "'leader' has no"),
        (
            "judge",
            {"kind": "function", "functions": {"leader": "m:f", "boss": "m:f"}},
            "judge.functions",
            "there is no condition 'boss'",
        ),
        ("guard", {"mode": "during"}, "guard.mode", "expected one of: before, after, got 'during'"),
        ("guard", {"retries": 2}, "guard", "there is no entry 'retries'"),
    ],
)
def test_one_clear_message(entry: str, given: Any, location: str, what: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(**{entry: given})
    assert (caught.value.location, what in caught.value.message) == (location, True), str(caught.value)


def test_a_key_that_was_pasted_is_not_repeated() -> None:
    with pytest.raises(OptionError) as caught:
        read(generator={"kind": "images", **REMOTE, "key": "sk-secret-123"})
    assert "secret" not in str(caught.value)
    assert caught.value.location == "generator.key"
    assert "never the key itself" in str(caught.value)


def test_all_that_can_be_built_here() -> None:
    pipeline = build_pipeline(read())
    assert (type(pipeline.generator), type(pipeline.classifier), type(pipeline.judge)) == (
        Studio,
        StudioPixels,
        genai.KeywordJudge,
    )
    for generator, kind in (
        ({"kind": "images", **REMOTE, "options": {"size": "512x512"}}, genai.OpenAIImages),
        ({"kind": "chat", **REMOTE, "system": "Be brief."}, OpenAIChat),
    ):
        assert isinstance(build_pipeline(read(generator=generator)).generator, kind)
    chat = build_generator(read(generator={"kind": "chat", **REMOTE, "system": "Be brief.", "timeout": 5, "key": "K"}))
    assert isinstance(chat, OpenAIChat)
    assert (chat.wire.url, chat.wire.key, chat.wire.timeout, chat.model, chat.system) == (
        REMOTE["url"],
        "K",
        5.0,
        "m",
        "Be brief.",
    )
    lexicon = build_pipeline(read(classifier={"kind": "lexicon", "words": WORDS})).classifier
    assert isinstance(lexicon, genai.LexiconClassifier)
    assert lexicon.classify(Item.of_text("an old leader")) == {"age": "elderly"}
    judge = build_pipeline(read(judge={"kind": "keywords", "fixed": {"age": {"elderly": ["old"]}}})).judge
    assert judge.fixed_groups("an old leader") == {"age"}
    for part in ({"classifier": {"kind": "chat", **REMOTE}}, {"judge": {"kind": "chat", **REMOTE}}):
        build_pipeline(read(**part))


def test_what_the_studio_does_not_know_is_refused() -> None:
    for groups in ({"age": ["child", "adult", "other"]}, {"hair": ["grey", "black"]}):
        specifications = [{"condition": "leader", "group": next(iter(groups)), "repeated": 6}]
        with pytest.raises(
            OptionError, match=r"generator\.(age: there is no age 'other'|hair: there is no group 'hair')"
        ):
            build_pipeline(read(groups=groups, specifications=specifications))
    with pytest.raises(OptionError, match=r"generator, bias\.age: there is no age 'old'") as caught:
        build_pipeline(read(generator={"kind": "studio", "bias": {"age": {"old": 1}}}))
    assert "child, adult, elderly" in (caught.value.hint or "")


CODE = """
RUN = []

def age(item):
    return {"age": item.text}

def leads(prompt):
    return "leader" in prompt

def says_age(prompt):
    return "old" in prompt

number = 3
"""


def test_functions_are_run_only_where_they_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", __import__("sys").path.copy())
    (tmp_path / "own_evenhand_functions.py").write_text(CODE, "utf-8")
    name = "own_evenhand_functions"
    about = read(
        classifier={"kind": "function", "function": f"{name}:age"},
        judge={"kind": "function", "functions": {"leader": f"{name}:leads"}, "fixed": {"age": f"{name}:says_age"}},
    )
    with pytest.raises(TrustError, match=f"classifier: the function {name}:age would be executed") as caught:
        build_pipeline(about, folder=tmp_path)
    assert "`trust=True`" in (caught.value.hint or "")
    pipeline = build_pipeline(about, trust=True, folder=tmp_path)
    assert (type(pipeline.classifier), type(pipeline.judge)) == (FunctionClassifier, FunctionJudge)
    assert pipeline.classifier.classify(Item.of_text("adult")) == {"age": "adult"}
    assert (pipeline.judge.conditions("an old leader"), pipeline.judge.fixed_groups("an old leader")) == (
        {"leader"},
        {"age"},
    )
    wrong: list[tuple[str, type[EvenhandError], str]] = [
        (f"{name}:gone", ModelError, "there is no 'gone'"),
        (f"{name}:number", OptionError, "is not a function"),
        ("no_such_module_here:f", ModelError, "there is no module"),
    ]
    for function, kind, what in wrong:
        with pytest.raises(kind, match=what) as failed:
            build_pipeline(read(classifier={"kind": "function", "function": function}), trust=True, folder=tmp_path)
        assert (failed.value.location or "").startswith("classifier")


def test_a_guard_is_built_in_the_configured_mode() -> None:
    generator = {"kind": "studio", "bias": {"age": {"adult": 1}}}
    pipeline = build_pipeline(read(generator=generator, guard={"mode": "after", "when_unsure": "pass"}))
    guard = pipeline.guard()
    answers = [guard.answer("a leader") for _ in range(12)]
    assert {answer.status for answer in answers} == {"ok"}
    assert any(len(answer.attempts) > 1 for answer in answers)
