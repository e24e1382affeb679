from datetime import UTC, datetime, timedelta

import pytest

from leaderboard import wording

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        (wording.speedup, 2.774, "2.77×"),
        (wording.speedup, None, "—"),
        (wording.interval, (2.614, 2.899), "2.61–2.90"),
        (wording.share, 0.472, "47 %"),
        (wording.share, 0.003, "0.3 %"),
        (wording.share, 0.0996, "10 %"),
        (wording.usd, 1234.5, "$1,234.50"),
        (wording.count, 12345, "12,345"),
        (wording.count, 1234.6, "1,235"),
        (wording.microseconds, 12.34, "12.3 µs"),
        (wording.microseconds, 1250.0, "1.25 ms"),
        (wording.microseconds, 2.5e6, "2.5 s"),
        (wording.seconds, 8.4, "8 s"),
        (wording.seconds, 673.0, "11 min"),
        (wording.seconds, 11520.0, "3.2 h"),
        (wording.size, 900, "900 B"),
        (wording.size, 2_100_000, "2.1 MB"),
        (wording.short, "0123456789abcdef", "0123456789ab"),
        (wording.short, None, "—"),
    ],
)
def test_figures_read_one_way(word, value, said):
    assert word(value) == said


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [(1, "thread", "1 thread"), (0, "thread", "0 threads"), (2, "process", "2 processes"), (2, "tokens", "2 tokens")],
)
def test_a_noun_is_of_as_many_as_there_are(number, noun, said):
    assert wording.count_nouns(number, noun) == said


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (timedelta(seconds=20), "now"),
        (timedelta(minutes=40), "40 min"),
        (timedelta(hours=30), "30 h"),
        (timedelta(days=9), "9 d"),
        (timedelta(seconds=-5), "now"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(passed, said):
    assert wording.age(NOW - passed, NOW) == said


def test_a_long_text_is_cut_with_a_sign():
    assert wording.cut("abcdef", 4) == "abc…"
    assert wording.cut("abcd", 4) == "abcd"
