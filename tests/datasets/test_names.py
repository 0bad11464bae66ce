"""Lists of names: bundled, of one's own, and whether their groups are alike."""

import copy
import dataclasses
import pickle

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from evenhand.datasets import check_name_list, load_name_list, name_lists
from evenhand.datasets.identity.names import Person
from evenhand.datasets.identity.pronouns import FORMS, GENDERS, pronouns_in
from evenhand.errors import DataError, OptionError


def fill(prompt, person):
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined).from_string(prompt).render(person=person)


def person_in(language, pronouns, **fields):
    return Person(first="Alex", last="Moreau", group="x", pronouns=pronouns_in(language, pronouns), **fields)


def write(folder, text, name="own.yaml"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("name", name_lists())
def test_bundled_lists_say_where_they_are_from(name):
    names = load_name_list(name)
    assert names.name == name
    assert len(names.source) > 20
    assert names.licence != "not stated"
    assert sum(len(people) for people in names.by_group().values()) == len(names.people)
    for person in names.people:
        assert person.first[:1].isupper()
        assert person.last[:1].isupper()
        assert person.pronouns.gender in ("feminine", "masculine")
        assert person.title == {"feminine": "Ms.", "masculine": "Mr."}[person.pronouns.gender]
        assert pickle.loads(pickle.dumps(person)) == copy.deepcopy(person) == person
        hash(person)


def test_the_experiment_of_2004_has_36_first_names():
    names = load_name_list("bertrand-mullainathan")
    assert {group: len(people) for group, people in names.by_group().items()} == {
        "white woman": 9,
        "black woman": 9,
        "white man": 9,
        "black man": 9,
    }
    assert len({person.first for person in names.people}) == 36
    assert {"Emily Walsh", "Greg Baker", "Lakisha Washington", "Jamal Jones"} <= {one.name for one in names.people}


@pytest.mark.parametrize("name", ["us-first-names", "us-surnames", "us-names"])
def test_groups_of_the_matched_lists_differ_in_nothing_else(name):
    names = load_name_list(name)
    assert {len(people) for people in names.by_group().values()} == {40}
    assert check_name_list(names) == ()


def test_white_names_of_the_experiment_of_2004_are_more_frequent():
    found = check_name_list(load_name_list("bertrand-mullainathan"), compare=[("white woman", "black woman")])
    assert "names of white woman are 11.7 times as frequent as names of black woman (geometric means)" in found
    assert any("names of black woman have more syllables than names of white woman" in one for one in found)


@pytest.mark.parametrize(
    ("language", "prompt", "she", "he"),
    [
        (
            "en",
            "{{ person.They }} led {{ person.their }} team; it is {{ person.theirs }}; I met {{ person.them }}.",
            "She led her team; it is hers; I met her.",
            "He led his team; it is his; I met him.",
        ),
        (
            "en",
            "{{ person.They }} {{ person.verb('has', 'have') }} taught {{ person.themself }}.",
            "She has taught herself.",
            "He has taught himself.",
        ),
        (
            "de",
            "{{ person.agree('Der Ingenieur', 'Die Ingenieurin') }} mag {{ person.their }}e Arbeit, man dankt "
            "{{ person.to_them }} und sieht {{ person.them }} gern. {{ person.They }} erinnert {{ person.themself }}.",
            "Die Ingenieurin mag ihre Arbeit, man dankt ihr und sieht sie gern. Sie erinnert sich.",
            "Der Ingenieur mag seine Arbeit, man dankt ihm und sieht ihn gern. Er erinnert sich.",
        ),
        (
            "fr",
            "{{ person.They }} est {{ person.agree('ingénieur', 'ingénieure') }} ; travailler avec "
            "{{ person.with_them }}, la voir {{ person.themself }}, {{ person.to_them }} écrire.",
            "Elle est ingénieure ; travailler avec elle, la voir elle-même, lui écrire.",
            "Il est ingénieur ; travailler avec lui, la voir lui-même, lui écrire.",
        ),
        (
            "es",
            "{{ person.They }} es {{ person.agree('abogado', 'abogada') }}; {{ person.to_them }} escribimos y "
            "{{ person.them }} vemos.",
            "Ella es abogada; le escribimos y la vemos.",
            "Él es abogado; le escribimos y lo vemos.",
        ),
    ],
)
def test_pronouns_and_words_agree(language, prompt, she, he):
    assert fill(prompt, person_in(language, "she")) == she
    assert fill(prompt, person_in(language, "he")) == he


def test_neutral_pronouns_of_english_take_the_plural():
    person = person_in("en", "they")
    assert fill("{{ person.They }} {{ person.verb('leads', 'lead') }}", person) == "They lead"
    assert fill("{{ person.agree('waiter', 'waitress', 'server') }}", person) == "server"
    with pytest.raises(OptionError, match="no form for a person who is neither"):
        fill("{{ person.agree('waiter', 'waitress') }}", person)


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "it"])
def test_a_form_is_right_or_refused(language):
    for name in GENDERS:
        person = person_in(language, name)
        for form in FORMS:
            try:
                assert person.pronouns.form(form) == getattr(person, form) != ""
                assert getattr(person, form.capitalize())[0].isupper()
            except OptionError as error:
                assert error.hint  # noqa: PT017 - either a word or a refusal that says how to go on


def test_what_follows_the_possessed_is_not_guessed():
    with pytest.raises(OptionError, match="French has no form of 'their'") as caught:
        fill("{{ person.their }} équipe", person_in("fr", "she"))
    assert "son, sa, ses" in caught.value.hint
    with pytest.raises(OptionError, match="no 'they' for neutral pronouns in German"):
        fill("{{ person.they }}", person_in("de", "they"))
    with pytest.raises(OptionError, match="there are no pronouns 'xe'"):
        pronouns_in("en", "xe")


def test_explicit_words_and_affiliations(tmp_path):
    names = load_name_list(
        write(
            tmp_path,
            """
        source: own
        groups:
          Muslim: {club: [Muslim Student Association, Islamic Society]}
          none: {club: [Student Association, Debating Society]}
    """,
        )
    )
    assert [person.label for person in names.by_group()["none"]] == ["Student Association", "Debating Society"]
    assert (
        fill("member of the {{ person.word('club') }}", names.people[0]) == "member of the Muslim Student Association"
    )
    assert fill("member of the {{ person.words.club }}", names.people[1]) == "member of the Islamic Society"
    assert (names.name, names.licence, names.people[0].name) == ("own", "not stated", "")
    with pytest.raises(OptionError, match="no word 'clubs'") as caught:
        names.people[0].word("clubs")
    assert caught.value.hint == "did you mean 'club'? the list has: club"


def test_tables_and_files_say_the_same(tmp_path):
    table = write(
        tmp_path,
        (
            "group,first,last,pronouns,birth_decade,bearers,club,language,source\n"
            "man,Jörg,Weber,he,1960,1200,Kegelclub,de,Telefonbuch\n"
            "woman,Silke,Nuß,she,1970,,,de,Telefonbuch\n"
            "man,None,Null,he,,,,de,\n"
        ),
        "own.csv",
    )
    file = write(
        tmp_path,
        """
        language: de
        source: Telefonbuch
        groups:
          man: {first: [Jörg, None], last: [Weber, "Null"], pronouns: he, birth_decade: [1960, null],
                bearers: [1200, null], club: [Kegelclub, ""]}
          woman: {first: Silke, last: Nuß, pronouns: she, birth_decade: 1970}
    """,
    )
    names = load_name_list(table)
    assert names == load_name_list(str(file))
    assert names.language == "de"
    assert [(one.name, one.They, one.bearers, dict(one.words)) for one in names.people] == [
        ("Jörg Weber", "Er", 1200, {"club": "Kegelclub"}),
        ("None Null", "Er", None, {}),
        ("Silke Nuß", "Sie", None, {}),
    ]


def test_pronouns_of_ones_own(tmp_path):
    names = load_name_list(
        write(
            tmp_path,
            """
        language: fr
        groups:
          a: {first: Claude, pronouns: {they: iel, them: iel}}
          b: {first: Claude, pronouns: she}
          c: {first: Claude, pronouns: {gender: feminine, they: elles, plural_verb: true}}
    """,
        )
    )
    assert [person.They for person in names.people] == ["Iel", "Elle", "Elles"]
    assert [person.verb("est", "sont") for person in names.people] == ["est", "est", "sont"]
    assert names.people[0].agree("prêt", "prête", "prêt·e") == "prêt·e"


@pytest.mark.parametrize(
    ("text", "message", "location"),
    [
        ("groups: {a: {first: [A, B]}}", "expected at least two groups, got ['a']", "own.yaml"),
        ("people: {a: {first: [A, B]}}", "there is no entry 'people'", "own.yaml"),
        ("groups: [a, b]", "expected a mapping from groups to people, got ['a', 'b']", "own.yaml, groups"),
        ("groups: {a: [A, B], b: [C]}", "expected entries such as first: and pronouns:, got ['A', 'B']", "groups.a"),
        ("groups: {a: {first: [A, B], last: [C]}, b: {}}", "first has 2, last has 1", "groups.a"),
        ("groups: {a: {first: [A, A]}, b: {first: B}}", "'A' occurs twice in group 'a'", "groups.a, person 2"),
        ("groups: {a: {first: A}, b: {}}", "expected a name or a word, got neither", "groups.b, person 1"),
        ("groups: {a: {first: A}, b: {firts: B}}", "there is no entry 'firts'", "groups.b, person 1"),
        ("groups: {a: {first: A, pronouns: xe}, b: {first: B}}", "there are no pronouns 'xe'", "groups.a, person 1"),
        ("groups: {a: {first: A, pronouns: {thy: x}}, b: {first: B}}", "there is no form 'thy'", "groups.a, person 1"),
        ("groups: {a: {first: A, bearers: many}, b: {first: B}}", "whole number as bearers, got 'many'", "groups.a"),
        ("- a", "expected named entries", "own.yaml"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, text, message, location):
    with pytest.raises(DataError) as caught:
        load_name_list(write(tmp_path, text))
    assert message in caught.value.message
    assert location in caught.value.location


def test_what_is_wrong_with_a_table_is_said(tmp_path):
    def fault(text):
        with pytest.raises(DataError) as caught:
            load_name_list(write(tmp_path, text, "own.csv"))
        return caught.value

    assert fault("group,first_name\na,A\nb,B\n").hint.startswith("did you mean 'first'?")
    assert fault("group,first\na,A\n,B\n").location.endswith("own.csv, line 3")
    assert "must have one value for the whole list" in fault("group,first,language\na,A,de\nb,B,fr\n").message


def test_a_list_that_there_is_not():
    with pytest.raises(OptionError, match="no list of names called 'bertrand'") as caught:
        load_name_list("bertrand-mullainatan".removesuffix("-mullainatan"))
    assert "or pass a CSV or YAML file" in caught.value.hint
    with pytest.raises(DataError, match="cannot be read"):
        load_name_list("absent.yaml")


BALANCED = """
groups:
  a: {first: [Anna, Emma], last: Weber, pronouns: she, birth_decade: 1980, bearers: [1000, 4000]}
  b: {first: [Otto, Arno], last: Meder, pronouns: he, birth_decade: [1980, 1981], bearers: [2000, 2000]}
"""


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("Weber", "Weber", None),
        ("[Otto, Arno]", "[Otto, Arno, Enno]", None),  # refused: two decades for three people
        ("Meder", "Med", "names of a are longer than names of b: 10.0 against 8.0 characters on average"),
        ("Meder", "Maier", "names of a have more syllables than names of b: 4.0 against 3.0 on average"),
        ("[2000, 2000]", "[4000, 4000]", "names of b are 2.0 times as frequent as names of a (geometric means)"),
        ("[2000, 2000]", "[2000, null]", "the frequency is not known for all names of: b"),
        ("[1980, 1981]", "1990", "names of b have later birth decades than names of a: 1990 against 1980 on average"),
        (
            "[Otto, Arno], last: Meder, pronouns: he",
            "[Otto, Arno], last: Meder, pronouns: [he, she]",
            "100 % of the names of a have feminine pronouns, 50.0 % of those of b",
        ),
        (
            "[Otto, Arno], last: Meder, pronouns: he",
            "[Otto, Anna], last: Weber, pronouns: she",
            "a and b share names, which do not distinguish them: Anna Weber",
        ),
    ],
)
def test_what_else_differs_between_groups_is_named(tmp_path, old, new, warning):
    path = write(tmp_path, BALANCED.replace(old, new))
    if "Enno" in new:
        with pytest.raises(DataError, match="lists of a group must have one value per person"):
            load_name_list(path)
    elif warning is None:
        assert check_name_list(load_name_list(path)) == ()
    else:
        assert warning in check_name_list(load_name_list(path))


def test_groups_that_are_compared_are_checked(tmp_path):
    names = load_name_list(write(tmp_path, BALANCED + "  c: {first: [Maximiliane, Jo, Al], last: Featherstonehaugh}"))
    assert check_name_list(names, compare=[("a", "b")]) == ()
    found = check_name_list(names)
    assert found[0] == "groups differ in size: a 2 names, b 2 names, c 3 names"
    assert any("c are longer than names of" in one and "the same holds for 1 other pair" in one for one in found)
    with pytest.raises(OptionError, match="no group 'd'"):
        check_name_list(names, compare=[("a", "d")])


def test_of_several_pairs_the_one_furthest_apart_is_said(tmp_path):
    names = load_name_list(write(tmp_path, "groups: {a: {first: Bob}, b: {first: Bobbb}, c: {first: Bobbbbbbb}}"))
    assert check_name_list(names) == (
        "names of c are longer than names of a: 9.0 against 3.0 characters on average; "
        "the same holds for 2 other pairs",
    )


def test_names_of_one_length_differ_by_no_deviation(tmp_path):
    """Where nothing varies within groups, any difference that matters is said, and none is divided by zero."""
    names = load_name_list(write(tmp_path, "groups: {a: {first: Bo}, b: {first: Al}}"))
    assert check_name_list(names) == ()
    longer = dataclasses.replace(names.people[1], first="Ale")
    assert len(check_name_list(dataclasses.replace(names, people=(names.people[0], longer)))) == 2
