"""What the watch over a kernel's host side sees, and what it lets pass."""

import contextlib
from collections.abc import Callable

import pytest
import torch

from kernel_sandbox.runners.host_watch import HostWatch

X, Y = torch.arange(8.0), torch.zeros(8)


def watched(host: Callable[[HostWatch], object]) -> list[str]:
    watch = HostWatch([X, Y], sees_memory=True)
    with watch:
        host(watch)
    watch.finish()
    return watch.calls


@pytest.mark.parametrize(
    "host",
    [
        lambda watch: Y.zero_(),
        lambda watch: X.view(2, 4).t()[:, 1].unsqueeze(0),
        lambda watch: watch.begin_launch([X, (Y, 3), torch.empty(4), torch.zeros_like(X)]),
        lambda watch: (watch.begin_launch([Y]), Y.numpy().fill(7), watch.end_launch()),
    ],
    ids=["fill", "views", "launch", "written_by_a_launch"],
)
def test_lets_pass_what_a_kernel_may_do(host: Callable[[HostWatch], object]) -> None:
    assert watched(host) == []


@pytest.mark.parametrize(
    ("host", "call"),
    [
        (lambda watch: X + 1, "aten::add"),
        (lambda watch: X.clone(), "aten::clone"),
        (lambda watch: Y.numpy().fill(5), "something else than a launch"),
        (lambda watch: (Y.numpy().fill(6), watch.begin_launch([Y])), "something else than a launch"),
        (lambda watch: watch.begin_launch([torch.from_numpy(X.numpy() + 1)]), "has not allocated"),
        (lambda watch: [Y[i % 8].fill_(i) for i in range(100)], "fills"),
    ],
    ids=["operator", "copy", "numpy", "numpy_before_a_launch", "memory_of_numpy", "element_by_element"],
)
def test_sees_what_is_computed(host: Callable[[HostWatch], object], call: str) -> None:
    assert any(call in seen for seen in watched(host))


def test_memory_without_content_holds_none() -> None:
    made: list[torch.Tensor] = []
    assert watched(lambda watch: made.append(torch.empty(4))) == []
    assert bool(made[0].isnan().all())


def test_reports_what_was_called_before_an_error() -> None:
    def host(watch: HostWatch) -> None:
        with contextlib.suppress(ZeroDivisionError):
            _ = X * 2
            _ = 1 // 0

    assert watched(host) == ["aten::mul"]
