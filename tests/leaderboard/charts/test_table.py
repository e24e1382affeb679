"""Tables beside charts."""

import pytest

from leaderboard.charts.table import Table


def test_refuses_a_row_that_does_not_fit_its_columns() -> None:
    with pytest.raises(ValueError, match="1 cells in a table of 2"):
        Table(caption="", columns=("a", "b"), rows=(("x",),))
