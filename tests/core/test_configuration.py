"""The one reader of configurations: what a file holds, and one way to say what is wrong with it."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from evenhand.core.config import check_configuration
from evenhand.core.configuration import read_configuration
from evenhand.errors import DataError, OptionError


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    share: Annotated[float, Field(ge=0, le=1)]


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    kind: Literal["one", "two"]
    parts: Annotated[dict[str, Part], Field(min_length=1)]
    checks: Literal["end"] | list[int] = "end"


HINTS = {"share": "a share from 0 to 1", "parts.*": "write name: {share: 0.5}", "parts": "name the parts"}


@pytest.mark.parametrize(
    ("described", "location", "message", "hint"),
    [
        ({"kind": "one"}, None, "`parts` is missing", "name the parts"),
        ({"kinds": "one", "parts": {}}, None, "there is no entry 'kinds'", "did you mean 'kind'?"),
        ({"kind": "six", "parts": {}}, "kind", "expected one of: one, two, got 'six'", ""),
        ({"kind": "one", "parts": {}}, "parts", "expected 1 or more entries, got 0", "name the parts"),
        (
            {"kind": "one", "parts": {"a": 3}},
            "parts.a",
            "expected a mapping from names to entries, got 3",
            "write name:",
        ),
        ({"kind": "one", "parts": {"a": {}}}, "parts.a", "`share` is missing", "a share from 0 to 1"),
        (
            {"kind": "one", "parts": {"a": {"share": 2}}},
            "parts.a.share",
            "expected a number between 0 and 1, got 2",
            "a share from 0 to 1",
        ),
        ({"kind": "one", "parts": {"a": {"share": "x"}}}, "parts.a.share", "expected a number, got 'x'", "a share"),
        ({"kind": "one", "parts": {"a": {"shar": 1}}}, "parts.a", "there is no entry 'shar'", "mean 'share'?"),
        ({"kind": "one", "parts": {1: {"share": 1}}}, "parts", "expected a name, got 1", 'write it as text: "1"'),
        ({"kind": "one", "parts": {"a": {"share": 1}}, "checks": "x"}, "checks", "expected one of: end, got 'x'", ""),
    ],
)
def test_faults(described, location, message, hint):
    for file in (None, "some.yaml"):
        with pytest.raises(OptionError) as caught:
            check_configuration(lambda: Whole.model_validate(described), Whole, location=file, hints=HINTS)
        assert caught.value.location == (", ".join(filter(None, (file, location))) or None)
        assert message in caught.value.message
        assert hint in (caught.value.hint or "")


def test_what_does_not_fit_together_has_the_hint_of_its_entry():
    def refuse():
        raise OptionError("the shares do not add up", location="parts.a.share")

    with pytest.raises(OptionError) as caught:
        check_configuration(refuse, Whole, location="some.yaml", hints=HINTS)
    assert (caught.value.location, caught.value.hint) == ("some.yaml, parts.a.share", "a share from 0 to 1")


def test_what_is_right_passes():
    found = check_configuration(lambda: Whole.model_validate({"kind": "one", "parts": {"a": {"share": 1}}}))
    assert found.parts["a"].share == 1


@pytest.mark.parametrize(
    ("name", "content", "place", "message"),
    [
        ("a.yaml", b"a: [", "a.yaml, line 1", "invalid YAML"),
        ("a.yaml", b"a: 1\nb: 2\na: 3", "a.yaml, line 3", "duplicate entry 'a'"),
        ("a.toml", b"a = ", "a.toml", "invalid TOML"),
        ("a.yaml", b"- a", "a.yaml", "expected named entries, as in a.yaml, got a list"),
        ("a.yaml", b"\xff\xfe\x00", "a.yaml", "not a text file"),
        ("none.yaml", None, "none.yaml", "the configuration cannot be read: No such file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, place, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_configuration(path, example="a.yaml", entries="a: and b:", error=DataError)
    assert str(caught.value.location).endswith(place)
    assert message in caught.value.message


def test_words_stay_words(tmp_path):
    yaml, toml = tmp_path / "a.yaml", tmp_path / "a.toml"
    yaml.write_text("{a: no, b: true, c: 2020-01-01}")
    toml.write_text("a = 'no'\nb = true")
    assert read_configuration(yaml, example="", entries="") == {"a": "no", "b": True, "c": "2020-01-01"}
    assert read_configuration(toml, example="", entries="") == {"a": "no", "b": True}
