"""Heat maps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.charts.heat_map import HeatCell, HeatMap, draw_heat_map, heat_step
from tests.leaderboard.charts.drawings import HOSTILE, SVG, any_float, check_drawing, hostile_text, of_class, texts_of

cells = st.lists(
    st.builds(
        HeatCell,
        row=hostile_text,
        column=hostile_text,
        speedup=any_float,
        href=st.sampled_from([None, "/ops/a", "/o?x=1&y=" + "&" * 35]),
    ),
    max_size=12,
    unique_by=lambda cell: (cell.row, cell.column),
)


@given(st.builds(HeatMap, title=hostile_text, cells=cells.map(tuple)))
def test_any_cells_make_a_sound_drawing(heat_map: HeatMap) -> None:
    check_drawing(draw_heat_map(heat_map))


def test_no_cells_make_a_sentence() -> None:
    assert texts_of(check_drawing(draw_heat_map(HeatMap(title="t", cells=())))) == ["No speedups to compare yet."]


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize(("rows", "columns"), [(200, 3), (3, 200), (60, 60)])
def test_many_hostile_cells_stay_within_the_page(hostile: str, rows: int, columns: int) -> None:
    cells = tuple(
        HeatCell(row=f"{row}{hostile}", column=f"{column}{hostile}", speedup=1e-200, href="/" + "a" * 199)
        for row in range(rows)
        for column in range(columns)
    )
    root = check_drawing(draw_heat_map(HeatMap(title=hostile, cells=cells)))
    assert of_class(root, "heat-slower-4")
    assert any("not drawn" in text for text in texts_of(root))


def test_cells_carry_sign_and_number_and_a_link_that_says_so() -> None:
    heat_map = HeatMap(title="t", cells=(HeatCell(row="norm", column="chat", speedup=1.5, href="/ops/norm"),))
    root = check_drawing(draw_heat_map(heat_map))
    assert "▲ 1.50" in texts_of(root)
    (link,) = root.iter(f"{SVG}a")
    assert link.get("aria-label") == "1.50\N{MULTIPLICATION SIGN} chat, norm"


def test_missing_pairs_and_values_are_hatched() -> None:
    heat_map = HeatMap(
        title="t",
        cells=(
            HeatCell(row="a", column="x", speedup=2.0),
            HeatCell(row="b", column="y", speedup=math.nan),
        ),
    )
    root = check_drawing(draw_heat_map(heat_map))
    assert len(of_class(root, "chart-hatch")) == 3
    assert texts_of(root).count("—") == 1


def test_colours_are_as_deep_for_a_slowdown_as_for_the_speedup_it_undoes() -> None:
    assert [heat_step(value) for value in (1.0, 1.1, 1.5, 3.0, 9.0)] == [
        *("even", "faster-1", "faster-2", "faster-3", "faster-4"),
    ]
    assert heat_step(1 / 3.0) == "slower-3"


def test_refuses_two_cells_of_one_pair_and_unsafe_links() -> None:
    cell = HeatCell(row="a", column="x", speedup=2.0)
    with pytest.raises(ValueError, match="one row and column"):
        HeatMap(title="t", cells=(cell, cell))
    with pytest.raises(ValueError, match="javascript"):
        HeatCell(row="a", column="x", speedup=2.0, href="javascript:alert(1)")
