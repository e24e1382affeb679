"""Lineages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.charts.lineage import Lineage, Node, State, draw_lineage
from tests.leaderboard.charts.drawings import HOSTILE, SVG, any_float, check_drawing, hostile_text, of_class, texts_of

ids = st.one_of(st.integers(0, 9).map(str), st.sampled_from(HOSTILE))
nodes = st.builds(
    Node,
    id=ids,
    label=hostile_text,
    state=st.sampled_from(State),
    speedup=any_float,
    href=st.sampled_from([None, "/candidates/a"]),
    parents=st.lists(ids, max_size=5).map(tuple),
)


def node(id: str, *parents: str, speedup: float | None = None) -> Node:
    return Node(id=id, label=f"label {id}", state=State.ACCEPTED, speedup=speedup, parents=parents)


@given(
    st.builds(
        Lineage,
        title=hostile_text,
        nodes=st.lists(nodes, max_size=12).map(tuple),
        highlighted=st.one_of(st.none(), ids),
        most_drawn=st.integers(1, 60),
    )
)
def test_any_nodes_make_a_sound_drawing(lineage: Lineage) -> None:
    check_drawing(draw_lineage(lineage))


def test_no_nodes_make_a_sentence() -> None:
    assert texts_of(check_drawing(draw_lineage(Lineage(title="t", nodes=())))) == ["No candidates yet."]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_thousand_hostile_nodes_with_every_parent_stay_within_the_page(hostile: str) -> None:
    everyone = tuple(f"{index}" for index in range(1000))
    nodes = tuple(
        Node(
            id=one,
            label=hostile,
            state=list(State)[index % 5],
            speedup=1e300,
            href="/" + "a" * 199,
            parents=everyone[:index],
        )
        for index, one in enumerate(everyone)
    )
    root = check_drawing(draw_lineage(Lineage(title=hostile, nodes=nodes, highlighted="999")))
    assert "940 more not drawn" in texts_of(root)
    assert len(of_class(root, "chart-box")) == 60


def test_parents_stand_left_of_their_children() -> None:
    root = check_drawing(draw_lineage(Lineage(title="t", nodes=(node("c", "b"), node("b", "a"), node("a")))))
    lefts = {part.text: float(part.get("x", 0)) for part in root.iter(f"{SVG}text")}
    assert lefts["label a"] < lefts["label b"] < lefts["label c"]


def test_circles_and_unknown_parents_are_drawn() -> None:
    nodes = (node("a", "b"), node("b", "a"), node("c", "c"), node("d", "nobody"))
    root = check_drawing(draw_lineage(Lineage(title="t", nodes=nodes, highlighted="a")))
    assert len(of_class(root, "chart-box")) == 4
    assert len(of_class(root, "chart-stub")) == 1
    assert len(of_class(root, "chart-highlighted")) == 1


def test_the_highlighted_ancestors_are_drawn_before_the_fastest() -> None:
    nodes = (node("a"), node("b", "a"), node("fast", speedup=9.0), node("faster", speedup=10.0))
    root = check_drawing(draw_lineage(Lineage(title="t", nodes=nodes, highlighted="b", most_drawn=3)))
    written = texts_of(root)
    assert {"label a", "label b", "label faster", "1 more not drawn"} <= set(written)
    assert "label fast" not in written


def test_boxes_do_not_lie_on_each_other() -> None:
    nodes = tuple(node(str(index), str(index // 3), str(index // 5)) for index in range(1, 50))
    root = check_drawing(draw_lineage(Lineage(title="t", nodes=nodes)))
    places = [(float(box.get("x", 0)), float(box.get("y", 0))) for box in of_class(root, "chart-box")]
    for index, (x, y) in enumerate(places):
        assert all(abs(x - other_x) >= 126 or abs(y - other_y) >= 36 for other_x, other_y in places[:index])


def test_of_nodes_that_share_an_id_the_first_counts() -> None:
    nodes = (node("a", speedup=2.0), node("a", speedup=9.0), node("b"), node("b"))
    drawing = draw_lineage(Lineage(title="t", nodes=nodes, most_drawn=1))
    assert "1 more not drawn" in texts_of(check_drawing(drawing))
    assert "2 candidates (2 accepted), the fastest 2.00×; 1 are drawn." in drawing


def test_refuses_more_than_a_page_holds() -> None:
    with pytest.raises(ValueError, match="61 nodes to draw"):
        Lineage(title="t", nodes=(), most_drawn=61)
