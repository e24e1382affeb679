"""Texts of our own for comparing a model with its patched self: prose, code and dialogue, one of them long."""

_HARBOUR = """The harbour master kept two books. The first, bound in green cloth, held what the law asked of him: the
name of every vessel, its tonnage, its master, the hour at which it passed the mole and the hour at which it left. The
second was a school notebook with a torn cover, and in it he wrote what he thought worth remembering. On the ninth of
March the green book says that the barque Elena arrived from Porto with cork and salt. The notebook says that her cook,
a man of sixty with one eye, had taught a starling to whistle the first bars of a hymn, and that the whole quay had
come down in the rain to hear it.

Nobody knew about the notebook until the winter in which the customs house burned. The green books went with the roof.
When the insurers came from the capital, two men in identical coats, they asked how many ships had wintered in the
basin, what they had carried, and to whom it belonged. The harbour master put on his spectacles, opened the notebook on
the table of the inn, and read to them for three days. He could not tell them the tonnage of the Elena, but he could
tell them that her hold had smelled of pepper, which cork does not, and that her master had paid his debts in coin that
nobody had seen on this coast for ten years. By the evening of the second day one of the insurers had stopped writing
figures. By the third he had begun to ask questions of another kind.

There is a way of measuring that loses what it measures. Weigh a letter and you learn the postage. The clerks of the
company had weighed every bale for forty years and still could not say why the trade had moved, in a single season, from
the north shore to the south. The notebook could. It had been moving for years, a captain at a time: first the ones who
had quarrelled with the pilots, then their brothers-in-law, then those who wanted a berth beside someone they could
borrow rope from. On the day when the figures changed there was nothing left to change.

I have tried since then to keep two books myself. In the first I put the numbers that my work demands: requests in an
hour, the time until the first answer, the share of answers that came too late. In the second I write what the numbers
cannot hold. That the evenings are slow because a school two streets away sends its homework at six. That the long
questions come from one person, who writes them on a train and loses the signal in the same tunnel every day. That a
queue is not a line of tasks but a room full of people who are waiting, and that some of them are waiting for the first
time in their lives.

A friend who builds bridges told me that she distrusts any model she has not walked across. She does not mean that the
equations are wrong. They are right in the way a map is right: every line on it corresponds to something, and it is
silent about the smell of the place. So before she signs a drawing she goes and stands where the bridge will stand, at
the hour when most people will cross, and counts what goes by: a cart, a child with a kite, two dogs, a man who carries
a door on his back. She has never changed a beam because of what she saw. But she has moved a railing, and twice a lamp.

The insurers paid in full. It took them until the following autumn, and the letter that came with the money ran to
eleven pages, of which nine were about the starling. The harbour master copied the letter into the notebook by hand,
since by then he no longer trusted paper that existed only once. Then he bought a new green book, ruled the columns for
name and tonnage and hour, and on the first line, under remarks, where for forty years he had written a dash, he wrote:
wind from the west, the cook is back, he says that the bird has learned the second verse.

When I visited, the old man was long dead and his granddaughter kept the office. She has a computer, and it has a field
for remarks. It holds two hundred and fifty-five characters. She showed me how she gets around it: she enters the same
ship several times, once for its cargo, once for its weather, once for its people. The statisticians in the capital have
written to her about it. According to their tables hers is the busiest small harbour in the country, and every spring
they propose to build a second mole. She answers every spring that the first is wide enough, and that she will explain
if someone comes to read. So far nobody has come, she said, but the kettle is always warm, and the shelf with the
notebooks is long, and there is, as you can see, a chair."""

PROMPTS = (
    _HARBOUR,
    """def merge_intervals(intervals):
    \"\"\"Merge overlapping closed intervals and return them sorted by their start.\"\"\"
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
""",
    """User: My tomato plants have yellow leaves at the bottom, but the new growth looks fine. I water them every
evening. What am I doing wrong, and should I cut the yellow leaves off?
Assistant:""",
    """#include <vector>

// Returns the index of the first element that is not less than the key, by binary search over a sorted range.
int lower_bound(const std::vector<int>& values, int key) {
  int low = 0, high = static_cast<int>(values.size());
  while (low < high) {""",
    """The committee met on Tuesday to discuss the budget for the coming year. After two hours of debate it was agreed
that the library would stay open on Saturdays, that the bridge would be painted, and that the""",
    """Explain step by step how a bicycle stays upright. Start with what happens when the rider leans to the left, then
describe the role of the front wheel, and finish with why it is harder at low speed.""",
    """SELECT customers.name, COUNT(orders.id) AS order_count, SUM(orders.total) AS revenue
FROM customers
LEFT JOIN orders ON orders.customer_id = customers.id
WHERE orders.created_at >= '2024-01-01'
GROUP BY""",
    """Once upon a time, in a valley between two mountains, there lived a clockmaker whose clocks all ran backwards.
People came from far away to laugh at them, until one day a girl noticed that""",
    """Translate the following sentences into French. Keep the tone polite and formal.

1. Could you please tell me when the next train leaves for Lyon?
2. I would like to change my reservation.
3.""",
    """class LruCache:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries = {}

    def get(self, key):
        if key not in self.entries:
            return None
        value = self.entries.pop(key)""",
    """The mitochondrion is an organelle found in most eukaryotic cells. It produces most of the cell's supply of
adenosine triphosphate, which is used as a source of chemical energy. The process by which this happens is called""",
    """Dear Ms Okafor,

Thank you for your letter of 3 May. I am sorry to hear that the parcel arrived damaged, and I have looked into what
happened at our warehouse. It appears that""",
    """Q: A train leaves the station at 9:00 and travels at 80 kilometres an hour. A second train leaves the same
station at 9:30 and travels at 120 kilometres an hour in the same direction. When does the second train catch up?
A: Let us""",
)
