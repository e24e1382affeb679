"""Which candidates are drawn, and where."""

from hypothesis import given
from hypothesis import strategies as st

from leaderboard.charts.ancestry import choose_kin, number_generations

ids = st.integers(0, 12).map(str)
graphs = st.dictionaries(ids, st.lists(ids, max_size=5))


def test_ancestors_of_the_highlighted_come_before_the_fastest() -> None:
    parents = {"a": ["b"], "b": ["c"], "c": [], "fast": [], "faster": []}
    assert choose_kin(parents, ["faster", "fast", "a", "b", "c"], "a", 4) == ["a", "b", "c", "faster"]
    assert choose_kin(parents, ["faster", "fast"], "unknown", 1) == ["faster"]


@given(graphs, st.integers(1, 6))
def test_any_graph_gives_as_many_as_there_is_room_for(parents: dict[str, list[str]], most: int) -> None:
    chosen = choose_kin(parents, list(parents), next(iter(parents), None), most)
    assert len(chosen) == len(set(chosen)) == min(most, len(parents))


def test_a_child_stands_after_its_furthest_parent() -> None:
    assert number_generations({"d": ["a", "c"], "a": [], "b": ["a"], "c": ["b"]}) == {"a": 0, "b": 1, "c": 2, "d": 3}


@given(graphs)
def test_every_candidate_gets_a_generation_even_in_circles(parents: dict[str, list[str]]) -> None:
    known = {one: [parent for parent in mine if parent in parents] for one, mine in parents.items()}
    generations = number_generations(known)
    assert set(generations) == set(parents)
    assert all(0 <= generation < len(parents) for generation in generations.values())


def test_circles_are_cut_at_their_first_member() -> None:
    assert number_generations({"a": ["a"], "b": ["c"], "c": ["b"], "d": ["c"]}) == {"a": 0, "b": 0, "c": 1, "d": 2}


def test_a_chain_of_many_thousands_is_no_recursion() -> None:
    parents = {str(index): [str(index - 1)] if index else [] for index in range(20_000)}
    assert number_generations(parents)["19999"] == 19_999
