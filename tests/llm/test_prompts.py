"""Prompts from templates: what they show, and that nothing in a hostile one gets out or goes on for ever."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from evenhand.datasets import load_name_list
from evenhand.errors import OptionError
from evenhand.llm.prompts import MAX_PROMPT, compile_template, plain_row


@dataclass(frozen=True)
class Somebody:
    first: str = "Emily"

    def word(self, name):
        return f"the {name}"


def render(source, **values):
    return compile_template(source, "prompt")(values)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{{ person.first }}: {{ years }} years as {{ trade }}.", "Emily: 3 years as welder."),
        ("{{ person.word('club') }}", "the club"),
        ("{% if years > 2 %}senior{% else %}junior{% endif %}", "senior"),
        ("{{ 'senior' if years > 2 else 'junior' }}", "senior"),
        ("{% for skill in skills %}{{ loop.index }}. {{ skill|title }}\n{% endfor %}", "1. Tig\n2. Mig\n"),
        ("{{ trade|upper }} {{ trade.title() }} {{ years * 12 }}", "WELDER Welder 36"),
        ("{{ gone }} {{ half }} {{ nan }}", "unknown 2.5 unknown"),
        ("{# a remark #}{{ skills|length }}", "2"),
    ],
)
def test_what_a_template_shows(source, shown):
    values = {"years": 3.0, "trade": "welder", "skills": ["tig", "mig"], "gone": None, "half": 2.5, "nan": float("nan")}
    assert render(source, person=Somebody(), **values) == shown


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(OptionError, match="'yeers' is undefined") as raised:
        render("{{ yeers }}", years=1, trade="welder")
    assert raised.value.hint == "available: trade, years"


@pytest.mark.parametrize(
    "source",
    [
        "{{ person.__class__.__mro__ }}",
        "{{ person.word.__globals__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ person['__class__'] }}{{ person['__init__'].__globals__ }}",
        "{{ ('x' ~ 'y').format(person) }}",
        "{{ '{0.__class__}'.format(person) }}",
        "{{ person|attr('__class__') }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self.__init__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% for a in range(10**9) %}{% endfor %}",
        "{% for a in text %}{% for b in text %}{% endfor %}{% endfor %}",
        "{% for a in [[1]] recursive %}{{ loop(a) }}{% endfor %}",
        "{% for a in text if loop(text) %}{% endfor %}",
        "{% set a = text %}{% set a = a ~ a %}",
        "{% with a = text ~ text %}{% endwith %}",
        "{{ 'a' * 10**10 }}",
        "{{ [0] * 1000000000 }}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'a'|center(1000000000) }}",
        "{{ 'a'.center(1000000000) }}",
        "{{ text|replace('a', text) }}",
        "{{ text|join(text) }}",
        "{{ lipsum(n=1000000) }}",
        "{{ namespace(a=1) }}",
        "{% filter upper %}x{% endfilter %}",
        "{% call person.word() %}{% endcall %}",
        "{% block a %}{% endblock %}",
        "{{ text.encode() }}",
        "{{ years.real.__class__ }}",
        "{{ 1 / 0 }}",
        "{{ items.append(1) }}",
        "(" * 5000 + "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    ],
)
def test_a_hostile_template_is_contained(source):
    items = [1, 2]
    with pytest.raises(OptionError):
        render(source, person=Somebody(), text="a" * 10_000, years=3, items=items)
    assert items == [1, 2]


def test_a_prompt_has_a_limit_of_size():
    with pytest.raises(OptionError, match="at most 1,000,000 characters"):
        render("{% for a in text %}{{ text }}{% endfor %}", text="a" * 100_000)
    with pytest.raises(OptionError, match="a template may have at most"):
        render("a" * 200_001)
    assert len(render("{{ text }}", text="a" * MAX_PROMPT)) == MAX_PROMPT


def test_what_is_in_a_value_is_not_run():
    assert render("{{ text }}", text="{{ 7 * 7 }} <b>") == "{{ 7 * 7 }} <b>"


def test_rows_are_of_python():
    row = plain_row({"a": np.float64(2.0), "b": np.int64(3), 5: "x", "gone": pd.NA, "late": pd.NaT, "none": np.nan})
    assert row == {"a": 2.0, "b": 3, "5": "x", "gone": None, "late": None, "none": None}
    assert [type(value) for value in row.values()][:3] == [float, int, str]


def test_a_person_is_shown_by_name_alone():
    person = load_name_list("us-names").people[0]
    assert render("{{ person }}", person=person) == person.name


@pytest.mark.parametrize("source", ["{years}", "after { years }, {{ years }}", "{Years}", "{person.name}"])
def test_a_name_in_single_braces_is_refused(source):
    with pytest.raises(OptionError):
        render(source, years=4, person=Somebody())


@pytest.mark.parametrize("source", ['{"years": "yes"}', "{other}", "{{ '{years}' }}", "{}", "{ 'years' }"])
def test_other_braces_are_text(source):
    assert "{" in render(source, years=4)


def test_cells_of_words_are_shown_as_they_are():
    row = plain_row({"zip": "02134", "gpa": "3.10", "phone": "+491701234567", "country": "NA", "whole": 1.0})
    source = "{{ zip }} {{ gpa }} {{ phone }} {{ country }} {{ whole }}"
    assert compile_template(source, "prompt")(row) == "02134 3.10 +491701234567 NA 1"
