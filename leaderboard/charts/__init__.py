"""Charts of the leaderboard, as SVG that needs no script: a frozen dataclass in, Markup and a Table out.

text, href      what names may do: nothing, and where links may lead: to this site
table           the numbers of a chart, for those who read them
svg             elements, sheets, and the limits on bytes
axis, marks     places and ticks; shapes and legends
interval_bars   speedups with intervals, a row each
heat_map        speedups of ops by workloads
roofline        performance under the machine's limits
history         the best over time
lineage         candidates and their parents, chosen and layered by ancestry
frame           a drawing for wide pages and one for narrow ones, in one element

Colours, type and what shows at which width: leaderboard/static/charts.css.
"""
