"""Runs the probes in Triton's interpreter on small shapes and prints their worst errors, for test_probes."""

import json
import os
from dataclasses import replace

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import torch

from compiler_agent.gpu_check import contests
from compiler_agent.gpu_check.contest import own_bounds, worst_error

SMALL = {"HIDDEN": 256, "FEED_FORWARD": 200, "CLASSES": 1000}


def main() -> None:
    torch.set_num_threads(1)
    for name, value in SMALL.items():
        setattr(contests, name, value)
    errors = {}
    for name, op in contests.OPS.items():
        for launch in (op.launches[0], op.launches[-1]):
            contest = contests.make_contest(name, replace(op, launches=(launch,)), 3, torch.device("cpu"), 1)
            exact = contest.exact()
            contest.eager.call()
            ours = contest.ours[0]()
            ours.call()
            bounds = own_bounds(contest.eager.outputs(), exact)
            errors[f"{name} {launch}"] = worst_error(ours.outputs(), exact, bounds, contest.dtype)
    print(json.dumps(errors))  # noqa: T201


if __name__ == "__main__":
    main()
