"""Results in a notebook: the page's own fragment, charts without a network, and names of ours after the dot."""

import pydantic
import pytest

import evenhand


@pytest.fixture(scope="module")
def result():
    return evenhand.audit_predictions([1, 0, 1, 1] * 20, sensitive_features={"sex": ["F", "M"] * 40}, favourable=1)


def test_a_chart_is_drawn_without_a_network(result):
    chart = result.plot()
    shown = chart._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg")
    assert "://" not in shown["image/svg+xml"].replace("http://www.w3.org/", "")
    assert "text/html" not in shown
    # It is still Altair's: it can be changed, and is shown offline then too.
    assert chart.properties(title="mine").to_dict()["title"] == "mine"
    assert "image/svg+xml" in chart.properties(title="mine")._repr_mimebundle_()


def test_after_the_dot_stand_our_names_alone(result):
    for one in (result, result.groups):
        names = {name for name in dir(one) if not name.startswith("_")}
        assert names.isdisjoint(dir(pydantic.BaseModel))
    assert {"groups", "plot", "summary", "to_frame", "to_json", "seed"} <= set(dir(result))


def test_a_result_is_shown_as_the_page_is(result):
    shown = result._repr_html_()
    assert "<table" in shown
    assert "<svg" in shown
    assert "<script" not in shown
    assert "http://" not in shown.replace("http://www.w3.org/", "")
