"""Pages of the documentation are short enough to be read, and the menu and the guides' index lead to each of them."""

import re

import pytest

from support import ROOT

DOCS = ROOT / "docs"
LONGEST = 1500
"""Words, as ``wc -w`` counts them."""

READ = ("tutorial", "how-to", "explanation", "methods")
"""Pages that are read from top to bottom: all their words count."""

LOOKED_UP = ("reference", "reproductions")
"""Pages in which something is looked up: words of tables and code do not count."""

WRITTEN_BY_TOOLS = ("reference/python",)


def pages(*folders: str) -> list:
    return [
        path
        for path in sorted(path for folder in folders for path in (DOCS / folder).rglob("*.md"))
        if not path.relative_to(DOCS).as_posix().startswith(WRITTEN_BY_TOOLS)
    ]


def name(path) -> str:
    return path.relative_to(DOCS).as_posix()


def words_outside_tables_and_code(text: str) -> int:
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return sum(len(line.split()) for line in text.splitlines() if not line.lstrip().startswith("|"))


@pytest.mark.parametrize("path", [*pages(*READ), *sorted(DOCS.glob("*.md"))], ids=name)
def test_a_page_that_is_read_has_at_most_1500_words(path):
    if name(path) != "changes.md":
        assert len(path.read_text("utf-8").split()) <= LONGEST


@pytest.mark.parametrize("path", pages(*LOOKED_UP), ids=name)
def test_a_page_that_is_looked_up_has_at_most_1500_words_outside_tables_and_code(path):
    assert words_outside_tables_and_code(path.read_text("utf-8")) <= LONGEST


def test_tables_and_code_do_not_count_where_something_is_looked_up():
    text = "# One two\n\n| not | this |\n| --- | --- |\n\n```console\n$ nor this\n```\n\n  ```text\n  or\n  ```\n\nend"
    assert words_outside_tables_and_code(text) == 4


def test_the_menu_and_the_index_lead_to_every_guide():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    guides = pages("how-to", "tutorial")
    assert [name(path) for path in guides if f" {name(path)}\n" not in menu] == []
    index = (DOCS / "how-to" / "index.md").read_text("utf-8")
    left_out = [path.name for path in (DOCS / "how-to").glob("*.md") if f"({path.name})" not in index]
    assert left_out == ["index.md"]
