"""A model of texts behind a URL: what is sent, what is understood, what is refused."""

import numpy as np
import pytest

from evenhand.individual import search
from evenhand.models import load_text_model
from evenhand.models.blackbox.text_model import interpret_replies
from serving import serving

ASKED = ["he left", "she left", "nobody"]


def close(model):
    model.ask.__self__.close()


@pytest.mark.parametrize(
    ("reply", "classes", "scores", "labels"),
    [
        (lambda one: len(one["text"]) / 10, ("no", "yes"), [0.7, 0.8, 0.6], [1, 1, 1]),
        (lambda one: "long" if len(one["text"]) > 7 else "brief", ("brief", "long"), [0, 1, 0], [0, 1, 0]),
        (lambda one: [0.9, 0.1] if "she" in one["text"] else [0.2, 0.8], (0, 1), [0.8, 0.1, 0.8], [1, 0, 1]),
    ],
)
def test_every_kind_of_prediction(reply, classes, scores, labels):
    with serving(lambda instances: {"predictions": [reply(one) for one in instances]}) as service:
        model = load_text_model(service.url)
        answer, names, wanted = interpret_replies(model.replies(ASKED), model, None, None)
        close(model)
    assert service.requests == [[{"text": one} for one in ASKED]]
    assert names == classes
    assert answer.scores[:, wanted] == pytest.approx(scores)
    assert answer.labels.tolist() == labels


@pytest.mark.parametrize("score", [0.0, 1.0, 0.3])
def test_one_score_for_everything_is_a_score(score):
    model = load_text_model(lambda asked: [score] * len(asked))
    answer, names, wanted = interpret_replies(model.replies(ASKED), model, None, None)
    assert names == ("no", "yes")
    assert answer.scores[:, wanted].tolist() == [score] * 3
    assert answer.labels.tolist() == [int(score > 0.5)] * 3


def test_many_texts_go_in_several_requests():
    with serving(lambda instances: {"predictions": [0.5] * len(instances)}) as service:
        model = load_text_model(service.url)
        assert len(model.replies([str(i) for i in range(2500)])) == 2500
        close(model)
    assert [len(request) for request in service.requests] == [1000, 1000, 500]


def test_the_search_for_flips_takes_a_url():
    seen = []

    def reply(instances):
        seen.extend(one["text"] for one in instances)
        return {"predictions": [0.9 if "she" in one["text"] else 0.1 for one in instances]}

    with serving(reply) as service:
        model = load_text_model(service.url)
        result = search.search_texts(model, ASKED, protected=["gender"])
        close(model)
    assert result.rates[0].flips == 2
    assert result.examples[0].gap == pytest.approx(0.8)
    assert set(seen) == {"he left", "she left"}
    assert np.isclose(result.examples[0].better.score, 0.9)
