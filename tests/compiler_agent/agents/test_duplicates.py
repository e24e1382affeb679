"""Which candidates are the same code."""

import pytest

from candidates.candidate import Candidate, LanguageName
from compiler_agent.agents.duplicates import key_of

PLAIN = Candidate(language=LanguageName.CPP, source="// tile=4\nvoid kernel() {}", launch_parameters={"tile": 4})


def test_comments_and_macros_that_nothing_mentions_are_no_code() -> None:
    other = Candidate(
        language=LanguageName.CPP, source="  // tile=8\n\nvoid kernel() {}", launch_parameters={"tile": 8}
    )
    assert other.id != PLAIN.id
    assert key_of(other) == key_of(PLAIN)


@pytest.mark.parametrize(
    "change",
    [
        {"source": "void kernel() { return; }"},
        {"source": "void kernel() { use(LAUNCH_tile); }"},
        {"prepare": "prepare"},
        {"build_flags": ("-O2",)},
        {"language": LanguageName.CUDA},
    ],
)
def test_all_that_a_compiler_is_told_is_code(change: dict[str, object]) -> None:
    assert key_of(PLAIN.model_copy(update=change)) != key_of(PLAIN)


def test_launch_parameters_that_the_source_mentions_are_code() -> None:
    source = "void kernel() { use(LAUNCH_tile); }"
    marks = {
        key_of(Candidate(language=LanguageName.CPP, source=source, launch_parameters={"tile": tile, "rows": rows}))
        for tile in (4, 8)
        for rows in (1, 2)
    }
    assert len(marks) == 2
