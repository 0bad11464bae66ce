from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from applicants import FRAME, NAMES, PEOPLE, WORDS, pipeline, schema
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from evenhand.errors import FetchError, ModelError
from evenhand.models import favourable_score, load_model, predict_labels
from evenhand.models.blackbox.base import LoadRequest
from evenhand.models.blackbox.http_endpoint import HttpEndpoint, connect_model
from serving import DROP, serving
from support import scaled


def connect(service, described=WORDS, batch=1000):
    endpoint = replace(connect_model(service.url, LoadRequest(described), backoff=0.0, timeout=5.0), batch=batch)
    endpoint_pool.append(endpoint)
    return endpoint


endpoint_pool: list[HttpEndpoint] = []


@pytest.fixture(autouse=True)
def _close():
    yield
    while endpoint_pool:
        endpoint_pool.pop().model.close()


def income(instances):
    return [person["income"] / 100 for person in instances]


def predictions(reply):
    return lambda instances: {"predictions": reply(instances)}


def test_a_served_pipeline_answers_as_it_does_alone():
    model = pipeline(LogisticRegression())

    def reply(instances):
        frame = pd.DataFrame(instances)
        return model.predict_proba(frame).tolist()

    with serving(predictions(reply)) as service:
        endpoint = load_model(service.url, WORDS)
        endpoint_pool.append(endpoint)
        labels = np.array(endpoint.classes)[predict_labels(endpoint, PEOPLE)]
        np.testing.assert_array_equal(labels, model.predict(FRAME[NAMES]))
        np.testing.assert_allclose(endpoint.scores(PEOPLE), model.predict_proba(FRAME[NAMES]))
        assert endpoint.name == service.url
        assert not endpoint.label_only
    sent = service.requests[-1][0]
    assert sent.keys() == set(NAMES)
    assert isinstance(sent["age"], int)
    assert sent["home-town"] in ("Ely", "Rye", "Ware")


def both(people):
    return [[1 - score, score] for score in income(people)]


@pytest.mark.parametrize(
    ("reply", "values", "best"),
    [
        (income, ("no", "yes"), "yes"),
        (both, ("no", "yes"), "yes"),
        (lambda people: ["yes" if score > 0.5 else "no" for score in income(people)], ("no", "yes"), "yes"),
        (lambda people: [score > 0.5 for score in income(people)], ("yes", "no"), "yes"),
        (lambda people: [int(score > 0.5) for score in income(people)], ("no", "yes"), "yes"),
        (lambda people: [int(score <= 0.5) for score in income(people)], (0, 1), 0),
        (lambda people: [2 if score > 0.5 else 1 for score in income(people)], (1, 2), 2),
    ],
)
def test_predictions(reply, values, best):
    with serving(predictions(reply)) as service:
        endpoint = connect(service, schema(values=values, favourable=best))
        np.testing.assert_array_equal(endpoint.predict(PEOPLE) == endpoint.favourable, PEOPLE[:, 1] > 50)
        assert endpoint.label_only == (reply not in (income, both))
        if not endpoint.label_only:
            np.testing.assert_allclose(favourable_score(endpoint, PEOPLE), PEOPLE[:, 1] / 100)


def test_nobody_is_asked_about_twice():
    with serving(predictions(income)) as service:
        endpoint = connect(service, batch=64)
        before = service.asked
        people = np.concatenate([PEOPLE, PEOPLE[:50], PEOPLE[:1].repeat(20, axis=0)])
        scores = endpoint.scores(people)
        labels = endpoint.predict(people)
        distinct = len(np.unique(PEOPLE, axis=0))
        assert service.asked - before == distinct
        assert max(len(instances) for instances in service.requests) <= 64
        np.testing.assert_allclose(scores[:, 1], people[:, 1] / 100)
        np.testing.assert_array_equal(labels, people[:, 1] > 50)
        endpoint.predict(people[:10])
        assert service.asked - before == distinct


def test_missing_values_are_null():
    with serving(predictions(lambda people: [float(person["income"] is None) for person in people])) as service:
        endpoint = connect(service, schema(missing="keep"))
        person = PEOPLE[:1].copy()
        person[0, [1, 3]] = np.nan
        assert endpoint.predict(person).tolist() == [1]
        assert service.requests[-1] == [
            {"age": int(person[0, 0]), "income": None, "sex": FRAME["sex"][0], "home-town": None}
        ]


@pytest.mark.parametrize("failure", [(500, {}), (429, {"Retry-After": "0"}), (503, {}), DROP])
def test_a_passing_failure_is_tried_again(failure):
    with serving(predictions(income), first=[failure, failure]) as service:
        endpoint = connect(service)
        assert len(service.requests) == 3
        assert service.requests[0] == service.requests[2]
        np.testing.assert_allclose(favourable_score(endpoint, PEOPLE), PEOPLE[:, 1] / 100)


@pytest.mark.parametrize(
    ("failures", "message"),
    [
        ([(500, {})] * 3, "refused the request with status 500: 'try later'"),
        ([DROP] * 3, "does not answer: .*closed|does not answer: .*abort"),
        ([(404, {})], "status 404(.|\n)*check the path"),
        ([(401, {})], "status 401(.|\n)*EVENHAND_HTTP_TOKEN"),
        ([(302, {"Location": "/elsewhere"})], "status 302(.|\n)*final URL"),
    ],
)
def test_a_lasting_failure_is_one_clear_error(failures, message):
    with serving(predictions(income), first=failures) as service:
        url = service.url.replace("http://", "http://clerk:secret@") + "?key=hidden"
        with pytest.raises(FetchError, match=message) as caught:
            connect_model(url, LoadRequest(WORDS), retries=2, backoff=0.0)
        assert len(service.requests) == len(failures)
    assert "127.0.0.1" in str(caught.value)
    assert not any(word in str(caught.value) for word in ("secret", "clerk", "hidden"))


@pytest.mark.parametrize("url", ["http://", "http://[::1/", "https:///model"])
def test_what_is_no_url(url):
    with pytest.raises(ModelError, match="not a URL"):
        load_model(url, WORDS)


def test_credentials(monkeypatch):
    with serving(predictions(income)) as service:
        endpoint_pool.append(load_model(service.url.replace("http://", "http://clerk:secret@"), WORDS))
        assert service.headers[-1]["authorization"] == "Basic Y2xlcms6c2VjcmV0"
        monkeypatch.setenv("EVENHAND_HTTP_TOKEN", "abc\n")
        endpoint = connect(service)
        assert service.headers[-1]["authorization"] == "Bearer abc"
        assert "secret" not in repr(endpoint_pool)
        monkeypatch.delenv("EVENHAND_HTTP_TOKEN")
        connect(service)
        assert "authorization" not in service.headers[-1]
        assert endpoint.name == service.url


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (lambda people: b"<html>Sorry</html>", "not JSON: '<html>Sorry</html>'"),
        (lambda people: b"", "not JSON"),
        (lambda people: b'{"predictions": [1, 2', "not JSON"),
        (lambda people: b"[" * 100_000, "not JSON"),
        (lambda people: b"\xff\xfe\x00", "not JSON"),
        (lambda people: [1, 2], "no list of predictions"),
        (lambda people: {"outputs": []}, "no list of predictions"),
        (predictions(lambda people: {"0": 1}), "no list of predictions"),
        (predictions(lambda people: income(people)[:-1]), "expected 32 predictions from the endpoint, got 31"),
        (predictions(lambda people: [*income(people)[:-1], "perhaps"]), "'perhaps'"),
        (predictions(lambda people: [*income(people)[:-1], None]), "None"),
        (predictions(lambda people: ["yes", *income(people)[1:]]), "both labels and numbers such as"),
        (predictions(lambda people: [*income(people)[:-1], 7]), "probability, a logit or a score"),
        (predictions(lambda people: [*income(people)[:-1], float("nan")]), "nan"),
        (predictions(lambda people: [*income(people)[:-1], [0.5, 0.5]]), "one number per label"),
        (predictions(lambda people: [[0.5, 0.5, 0.0]] * len(people)), "expected 2 scores"),
        (predictions(lambda people: [["0.5", "0.5"]] * len(people)), "one number per label"),
        (predictions(lambda people: [{"answer": "yes"}] * len(people)), "one number per label"),
    ],
)
def test_what_is_no_prediction_is_refused(reply, message):
    with serving(reply) as service, pytest.raises(ModelError, match=message):
        connect(service)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["label", "scores", "yes"]), inner),
    max_leaves=8,
)


@settings(max_examples=scaled(60), deadline=None)
@given(item=JSON, every=st.booleans())
def test_whatever_comes_is_understood_or_refused(item, every):
    from evenhand.models.blackbox.http_endpoint import read_predictions

    try:
        items = [item] * 3 if every else ["yes", item, "no"]
        endpoint = HttpEndpoint(schema=WORDS, name="service", model="http://localhost", classes=("no", "yes"))
        reply = endpoint.read(read_predictions(items, ("no", "yes"), 1, "service"))
    except ModelError:
        return
    assert reply.scores.shape == (3, 2)
    np.testing.assert_allclose(reply.scores.sum(axis=1), 1, atol=1e-3)
    assert set(reply.labels) <= {0, 1}
