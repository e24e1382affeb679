"""What the runtime of a build adds to a call: `python -m benchmarks.dispatch --json`.

Two activations of 64 floats, one parameter, one output, a compiled kernel that does nothing. A hit is compared with a
plain Python function that makes the output and calls the same compiled function through ctypes; a miss with the
original. Rounds of both sides alternate; the figure is the difference of their lower deciles, as others on the machine
only ever make a round slower.
"""

import argparse
import contextlib
import json
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from candidates.ceilings import fingerprint_device
from candidates.dispatch import Call, EmptySite, empty_site, time_calls_us

CALLS = 200
IN_GRAPH = 8
"""Calls that a compiled graph makes more of than the graph it is compared with."""


def measure(rounds: int, with_compile: bool) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with empty_site(fingerprint_device()) as site:
        for mode, context in (("no_grad", torch.no_grad), ("inference_mode", torch.inference_mode)):
            with context():
                served, operator = site.module.forward, _through_the_op(site)
                figures |= {
                    f"eager_hit_{mode}_us": _over(served, site.plain, site.hit, rounds),
                    f"eager_miss_{mode}_us": _over(served, site.original, site.miss, rounds),
                    f"op_{mode}_us": _over(operator, site.plain, site.hit, rounds),
                    f"op_miss_{mode}_us": _over(operator, site.original, site.miss, rounds),
                }
                if with_compile:
                    figures[f"compiled_{mode}_us"] = _in_graph(site, rounds)
        with torch.no_grad():
            figures["plain_us"] = _decile([time_calls_us(site.plain, site.hit, CALLS) for _ in range(rounds)])
    figures["eager_hit_us"] = figures["eager_hit_no_grad_us"]
    figures["eager_miss_us"] = figures["eager_miss_no_grad_us"]
    return figures


def _through_the_op(site: EmptySite) -> Call:
    """The op as a compiled graph calls it, taken from such a graph."""
    found: list[Any] = []

    def keep(graph: torch.fx.GraphModule, _: Sequence[torch.Tensor]) -> Callable[..., Any]:
        found.extend(node for node in graph.graph.nodes if "compiler_agent" in str(node.target))
        return graph.forward

    torch.compile(site.module, backend=keep, fullgraph=True)(*site.hit)
    torch._dynamo.reset()
    (node,) = found
    operator, number = node.target, node.args[-1]
    return lambda hidden, residual: operator(hidden, residual, number)


def _in_graph(site: EmptySite, rounds: int) -> float:
    """One call more in a graph of Inductor, less a plain call."""

    def repeat(count: int) -> Call:
        def chain(hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
            for _ in range(count):
                hidden = site.module.forward(hidden, residual)
            return hidden

        return torch.compile(chain, fullgraph=True)

    one, many = repeat(1), repeat(1 + IN_GRAPH)
    for call in (one, many):
        call(*site.hit)
    more_us = _over(many, one, site.hit, rounds) / IN_GRAPH
    torch._dynamo.reset()
    return more_us - _decile([time_calls_us(site.plain, site.hit, CALLS) for _ in range(rounds)])


def _over(one: Call, other: Call, arguments: Sequence[torch.Tensor], rounds: int) -> float:
    first, second = [], []
    for _ in range(rounds):
        first.append(time_calls_us(one, arguments, CALLS))
        second.append(time_calls_us(other, arguments, CALLS))
    return _decile(first) - _decile(second)


def _decile(times_us: list[float]) -> float:
    return sorted(times_us)[len(times_us) // 10]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--compile", action="store_true", help="also inside graphs of Inductor; takes a minute")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(sys.stderr):
        figures = measure(options.rounds, options.compile)
    machine = {"device": fingerprint_device().model, "python": platform.python_version(), "torch": torch.__version__}
    if options.json:
        command = " ".join(["python -m benchmarks.dispatch", *sys.argv[1:]])
        sys.stdout.write(
            json.dumps(
                {"machine": machine, "command": command} | {name: round(value, 2) for name, value in figures.items()},
                indent=2,
            )
            + "\n"
        )
        return
    for name, value in figures.items():
        sys.stdout.write(f"{name:32s} {value:6.2f}\n")


if __name__ == "__main__":
    main()
