"""A language model as MODEL of commands: asked once, and not again from the answers that are kept."""

import numpy as np
import pandas as pd
import yaml

from fake_chat import RecordingChat, chance_by_words


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
            ran = evenhand(*audit, "--protected", "sex", "--quiet", "--json", "-", "--fail-on", "flip_rate > 0.9")
            assert ran.code == 1
            assert ran.json["model"]["name"] == "screening.yaml"
            assert len(chat.paid) == len(set(chat.paid)) == 10
        file["plan"] = {"calls": 3}
        file["answers_file"] = "others.jsonl"
        (tmp_path / "screening.yaml").write_text(yaml.safe_dump(file), "utf-8")
        ran = evenhand(*audit, "--protected", "sex", "--quiet")
        assert (ran.code, len(chat.paid)) == (3, 13)
        assert "limit of 3 calls" in ran.err
    (tmp_path / "screening.yaml").write_text("service: {url: x}", "utf-8")
    ran = evenhand(*audit, "--protected", "sex")
    assert ran.code == 2
    assert "screening.yaml, service: `model` is missing" in ran.err.replace("\n  ", " ")
