"""Ancestry: which candidates of a lineage are worth drawing, and in which generation each stands.

Agents write who the parents are, so a candidate may be its own ancestor, and parents may not exist.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence


def choose_kin(
    parents: Mapping[str, Sequence[str]], rank: Sequence[str], highlighted: str | None, most: int
) -> list[str]:
    """At most `most` ids: the highlighted one, its ancestors from the nearest on, then by rank.

    `parents` has every id as a key; `rank` has every id once.
    """
    chosen: dict[str, None] = {}
    waiting = deque([highlighted] if highlighted in parents else [])
    while waiting and len(chosen) < most:
        one = waiting.popleft()
        if one is not None and one in parents and one not in chosen:
            chosen[one] = None
            waiting.extend(parents[one])
    for one in rank:
        if len(chosen) >= most:
            break
        chosen.setdefault(one)
    return list(chosen)


def number_generations(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """For each key one more than the greatest of its parents', 0 without any; a circle is cut at its first member.

    Every parent must be a key.
    """
    children: defaultdict[str, list[str]] = defaultdict(list)
    unnumbered = {one: set(mine) - {one} for one, mine in parents.items()}
    for one, mine in unnumbered.items():
        for parent in mine:
            children[parent].append(one)
    generations: dict[str, int] = {}
    ready = deque(one for one, mine in unnumbered.items() if not mine)
    undecided = deque(parents)
    while len(generations) < len(parents):
        if not ready:
            # Only circles are left, and what descends from them.
            ready.append(next_of(undecided, generations))
        one = ready.popleft()
        if one in generations:
            continue
        generations[one] = 1 + max(
            (generations[parent] for parent in parents[one] if parent in generations), default=-1
        )
        for child in children[one]:
            unnumbered[child].discard(one)
            if not unnumbered[child] and child not in generations:
                ready.append(child)
    return generations


def next_of(undecided: deque[str], generations: Mapping[str, int]) -> str:
    while undecided[0] in generations:
        undecided.popleft()
    return undecided[0]
