"""A generator that is asked: what is kept, how interrupted work goes on, and what happens when things fail."""

import json

import pytest
from genai_reference import Stops, read_rows

from evenhand.errors import DataError, ModelError, OptionError
from evenhand.genai import AssessmentConfig, GenerationConfig, Item, Pipeline, assess_live, build_pipeline
from evenhand.genai.assessment.evaluation import evaluate_config, read_condition_sequences
from evenhand.genai.assessment.live import MAX_FAILURES
from evenhand.genai.backends.studio import Studio, StudioPixels
from genai_upstream import Upstream

PROMPTS = ["a leader", "a leader, a woman; she smiles", "a cat"]


def configuration(**more):
    return GenerationConfig.read(
        {
            "conditions": [{"name": "leader", "keywords": ["leader"]}],
            "groups": {"gender": ["woman", "man"]},
            "specifications": [{"condition": "leader", "group": "gender", "repeated": 4}],
            "generator": {"kind": "studio", "bias": {"gender": {"woman": 0.2, "man": 0.8}}, "seed": 4},
            "classifier": {"kind": "studio"},
        }
        | more
    )


def run(folder, requests=12, pipeline=None, **more):
    return assess_live(pipeline or build_pipeline(configuration()), PROMPTS, requests=requests, folder=folder, **more)


def test_items_and_their_table_are_kept_and_can_be_judged_again(tmp_path):
    result = run(tmp_path / "out")
    kept = read_rows(tmp_path / "out" / "sequence.csv")
    assert [row["prompt"] for row in kept] == PROMPTS * 4
    assert [row["conditions"] for row in kept[:3]] == ["leader", "leader", ""]
    assert [row["fixed"] for row in kept[:3]] == ["", "gender", ""]
    assert {row["gender"] for row in kept[1::3]} == {"woman"}
    eyes = StudioPixels()
    for row in kept:
        data = (tmp_path / "out" / row["file"]).read_bytes()
        assert (eyes.classify(Item("image", data, "image/png"))["gender"] or "") == row["gender"]
    (sequence,) = result.sequences
    assert (sequence.items, result.source) == (8, "12 requests")
    assert sequence.files == tuple(row["file"] for row in kept if row["conditions"])
    again = evaluate_config(
        read_condition_sequences(tmp_path / "out" / "sequence.csv", configuration()), configuration()
    )
    assert again.sequences == result.sequences


def with_generator(generator, **more):
    built = build_pipeline(configuration(**more))
    return Pipeline(built.configuration, generator, built.classifier, built.judge)


def studio():
    return Studio({"gender": {"woman": 0.2, "man": 0.8}}, seed=4)


@pytest.mark.parametrize("after", [1, 5, 11])
def test_interrupted_work_goes_on_as_if_it_never_was(tmp_path, after):
    whole = run(tmp_path / "whole")
    stopped = run(tmp_path / "out", pipeline=with_generator(Stops(studio(), after)))
    assert stopped.interrupted
    assert len(read_rows(tmp_path / "out" / "sequence.csv")) == after
    result = run(tmp_path / "out")
    assert not result.interrupted
    assert read_rows(tmp_path / "out" / "sequence.csv") == read_rows(tmp_path / "whole" / "sequence.csv")
    assert result.sequences == whole.sequences
    # What is there is not asked for again, and more can be added.
    run(tmp_path / "out", pipeline=with_generator(Stops(studio(), 0, AssertionError)))
    assert len(run(tmp_path / "out", requests=15).sequences[0].files) == 10


@pytest.mark.full
def test_repeating_prompts_goes_on_too(tmp_path):
    terms = AssessmentConfig(inherent="estimated", bar=0.8, error=0.2, repetitions=40)
    whole = run(tmp_path / "whole", config=terms)
    stopped = run(tmp_path / "out", config=terms, pipeline=with_generator(Stops(studio(), 20)))
    assert stopped.interrupted
    assert len(read_rows(tmp_path / "out" / "repetitions.csv")) == 8
    result = run(tmp_path / "out", config=terms)
    assert read_rows(tmp_path / "out" / "repetitions.csv") == read_rows(tmp_path / "whole" / "repetitions.csv")
    assert result.prompts == whole.prompts
    found = {one.prompt: one.verdict for one in result.prompts.findings}
    assert found[PROMPTS[1]] == "biased"
    assert [one.prompts for one in result.sequences] == ["all", "neutral"]


def test_neutral_prompts_by_the_judge(tmp_path):
    result = run(tmp_path, config=AssessmentConfig(inherent="judged"))
    assert [one.verdict for one in result.prompts.findings] == ["neutral", "biased", "neutral"]
    everybody, neutral = result.sequences
    assert neutral.groups[0].biased == 4
    assert len(everybody.groups[0].items) == 8
    assert len(neutral.groups[0].items) == 4


def test_a_request_that_fails_is_kept_as_one_and_many_end_the_work(tmp_path):
    class Refuses(Stops):
        def generate(self, prompt):
            self.after += 1
            if self.after % 3 == 0:
                raise ModelError("the prompt was refused")
            return self.inner.generate(prompt)

    result = run(tmp_path / "some", pipeline=with_generator(Refuses(studio(), 0)))
    kept = read_rows(tmp_path / "some" / "sequence.csv")
    assert [row["error"] for row in kept[:3]] == ["", "", "the prompt was refused"]
    assert (kept[2]["file"], kept[2]["gender"], result.sequences[0].items) == ("", "", 8)
    assert result.source == "12 requests, 4 of which failed"
    broken = with_generator(Stops(studio(), 5, ModelError("it is gone", hint="Start it.")))
    with pytest.raises(ModelError, match="it is gone") as error:
        run(tmp_path / "gone", pipeline=broken)
    assert "repeat the command to continue" in str(error.value)
    assert len(read_rows(tmp_path / "gone" / "sequence.csv")) == 5 + MAX_FAILURES
    # Requests at the end that failed are asked again.
    run(tmp_path / "gone")
    run(tmp_path / "whole")
    assert read_rows(tmp_path / "gone" / "sequence.csv") == read_rows(tmp_path / "whole" / "sequence.csv")


def test_answers_of_a_model_that_judges_prompts_are_kept(tmp_path):
    with Upstream() as service:
        judge = {"kind": "chat", "url": service.url, "model": "judge"}
        pipeline = build_pipeline(configuration(judge=judge))
        run(tmp_path / "whole", pipeline=pipeline)
        questions = len(service.asked("/chat/completions"))
        assert questions == len(PROMPTS) * 2
        run(tmp_path / "whole", requests=15, pipeline=pipeline)
        assert len(service.asked("/chat/completions")) == questions
        # The judge fails at its second prompt, and only the unanswered questions are repeated.
        service.says = lambda question: "perhaps" if "she smiles" in str(question) else "yes"
        with pytest.raises(ModelError):
            run(tmp_path / "cut", pipeline=pipeline)
        assert [row["prompt"] for row in read_rows(tmp_path / "cut" / "prompts.csv")] == PROMPTS[:1]
        service.says = None
        questions = len(service.asked("/chat/completions"))
        run(tmp_path / "cut", pipeline=pipeline)
        assert len(service.asked("/chat/completions")) == questions + 4


def test_other_work_in_the_same_folder_is_refused(tmp_path):
    run(tmp_path, requests=3)
    assert json.loads((tmp_path / "about.json").read_text("utf-8"))["prompts"] == PROMPTS
    with pytest.raises(OptionError, match="different prompts or models"):
        assess_live(build_pipeline(configuration()), ["a leader"], requests=3, folder=tmp_path)
    other = configuration(generator={"kind": "studio", "seed": 5})
    with pytest.raises(OptionError, match="different prompts or models"):
        run(tmp_path, pipeline=build_pipeline(other))
    # Deadlines may change: the items are the same.
    later = configuration(specifications=[{"condition": "leader", "group": "gender", "repeated": 9}])
    assert run(tmp_path, requests=3, pipeline=build_pipeline(later)).sequences[0].verdicts[0].beta == (9, 9)
    (tmp_path / "sequence.csv").write_text("a,b\n1,2\n", "utf-8")
    with pytest.raises(DataError, match="different columns"):
        run(tmp_path)


def test_prompts_that_ask_for_nothing_are_refused_before_anything_is_made(tmp_path):
    with pytest.raises(OptionError, match="no prompt meets a condition: a cat"):
        assess_live(build_pipeline(configuration()), ["a cat"], requests=3, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(OptionError, match="nothing to generate"):
        assess_live(build_pipeline(configuration()), [], requests=3, folder=tmp_path / "out")
    for senseless in ({"config": AssessmentConfig(ways=2)}, {"requests": 0}):
        with pytest.raises(OptionError):
            run(tmp_path / "out", **senseless)
    with pytest.raises(OptionError, match="nothing to generate"):
        assess_live(build_pipeline(configuration()), ["a leader", " "], requests=3, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    taken = configuration(
        groups={"file": ["a", "b"]},
        generator=None,
        classifier={"kind": "lexicon", "words": {"file": {"a": ["a"], "b": ["b"]}}},
        specifications=[{"condition": "leader", "group": "file", "repeated": 4}],
    )
    with pytest.raises(OptionError, match="the same name as another column"):
        run(tmp_path / "out", pipeline=build_pipeline(taken, generator=studio()))
