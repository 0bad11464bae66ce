"""Looking for terms: what is passed over without looking has none."""

from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.datasets.identity.lists import categories_named, category_names
from evenhand.datasets.identity.swapping import TermSwapper, words_of

LISTS = [categories_named(name)[0] for name in category_names()] + list(categories_named("published"))
SWAPPERS = [TermSwapper(one) for one in LISTS]
TERMS = sorted({word for one in LISTS for row in one.rows for word in row.words if word is not None})


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(TERMS) | st.text(max_size=5), min_size=1, max_size=4),
    st.sampled_from([" ", "-", ", ", "_", "\n"]),
    st.sampled_from([str, str.upper, str.title]),
)
def test_no_text_with_a_term_is_passed_over(parts, between, written):
    text = written(between.join(parts))
    words = words_of(text)
    for swapper in SWAPPERS:
        if swapper.mentions(text):
            assert swapper.may_mention(words)


def test_a_term_that_is_looked_for_is_seen_at_once():
    looked_for = [(term, swapper) for term in TERMS for swapper in SWAPPERS if swapper.mentions(term)]
    assert len(looked_for) > 400
    for term, swapper in looked_for:
        assert swapper.may_mention(words_of(term.replace(" ", "-").upper()))
    assert not any(swapper.may_mention(words_of("the weather report")) for swapper in SWAPPERS)
