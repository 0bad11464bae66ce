"""The description for programs: every route has examples, and every answer is as it says, whatever is asked."""

import pytest

pytest.importorskip("schemathesis", reason="needs schemathesis")

import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from service_settings import WATCH, describe_service

from evenhand.service import ServiceConfig, create_app

EXAMPLES = 15
METHODS = ("get", "post", "put", "delete", "patch")
DESCRIBED = create_app(ServiceConfig()).openapi()
OPERATIONS = [(method, path) for path, item in DESCRIBED["paths"].items() for method in METHODS if method in item]
NAMES = ["loans", "finite", "labelled", "studio", "hiring"]


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """The whole service, in this process."""
    described = describe_service(tmp_path_factory.mktemp("openapi"))
    described["monitors"] = [{"name": "hiring", "config": WATCH}]
    return schemathesis.openapi.from_asgi("/openapi.json", create_app(ServiceConfig.read(described)))


def checks():
    from schemathesis import checks as every
    from schemathesis.specs.openapi import checks as known

    names = ("status_code", "content_type", "response_headers", "response_schema")
    return [every.not_a_server_error, *(getattr(known, f"{name}_conformance") for name in names)]


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda one: one)
def test_whatever_is_asked_the_answer_is_as_described(api, method, path):
    operation = api[path][method]

    @bounded(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def ask(data):
        mode = data.draw(st.sampled_from(list(schemathesis.GenerationMode)))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        # Hardly any drawn name is one that there is.
        if "{name}" in path and data.draw(st.booleans()):
            case.path_parameters["name"] = data.draw(st.sampled_from(NAMES))
        case.call_and_validate(checks=checks())

    ask()


def resolved(schema):
    while "$ref" in schema:
        schema = DESCRIBED["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def examples(content):
    about = content.get("application/json", content.get("multipart/form-data"))
    if about is None:
        return []
    schema = resolved(about.get("schema", {}))
    return [*([about["example"]] if "example" in about else []), *schema.get("examples", [])]


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda one: one)
def test_every_route_has_words_and_examples(method, path):
    about = DESCRIBED["paths"][path][method]
    assert about["description"]
    if "requestBody" in about:
        assert examples(about["requestBody"]["content"])
    assert examples(about["responses"]["4XX"]["content"])


@pytest.mark.parametrize(
    ("method", "path"), [one for one in OPERATIONS if "requestBody" in DESCRIBED["paths"][one[1]][one[0]]]
)
def test_examples_are_read(api, method, path):
    content = DESCRIBED["paths"][path][method]["requestBody"]["content"]
    (kind,) = content
    for example in examples(content):
        case = api[path][method].Case(body=example, path_parameters={"name": "loans"}, media_type=kind)
        answer = case.call_and_validate(checks=checks())
        # What an example names need not be there, and what it labels need not have been decided on.
        assert answer.status_code in (200, 404, 409) or answer.json()["error"]["code"] == "label", answer.text
