"""What the watch over a kernel's host side sees, and what it lets pass."""

import contextlib
from collections.abc import Callable

import pytest
import torch

from kernel_sandbox.runners.host_watch import HostWatch

X, Y = torch.arange(8.0), torch.zeros(8)
SQUARE = torch.zeros(4, 4)


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
    "made",
    [
        lambda: SQUARE.as_strided((2, 2), (1, 4)),
        lambda: SQUARE.chunk(2)[0].detach().diagonal(),
        lambda: SQUARE[:1].expand(3, 4).expand_as(torch.empty(3, 4)),
        lambda: SQUARE.flatten().unflatten(0, (2, 8)).movedim(0, 1).narrow(0, 1, 2),
        lambda: SQUARE.permute(1, 0).T.mT.t().ravel().reshape(2, 8).contiguous(),
        lambda: SQUARE.select(0, 1).split(2)[1].unsqueeze(0).squeeze(),
        lambda: SQUARE.swapaxes(0, 1).transpose(0, 1).unbind()[0].unfold(0, 2, 1),
        lambda: SQUARE.view(torch.int32).view_as(SQUARE)[..., None, 1:3],
        lambda: [torch.empty(4), torch.empty_like(X), torch.empty_strided((2, 2), (2, 1)), torch.zeros(4)],
        lambda: [torch.zeros_like(X), torch.full((4,), -1.0), torch.full_like(X, 2), torch.ones(4), torch.ones_like(X)],
        lambda: [X.new_empty(4), X.new_zeros(4), X.new_full((4,), 7), X.new_ones(4), X.new_empty_strided((2,), (1,))],
        lambda: [torch.empty(4, dtype=torch.bool).fill_(True), torch.zeros(2, dtype=torch.bfloat16).zero_()],
    ],
)
def test_lets_pass_every_view_and_allocation_of_the_rules(made: Callable[[], object]) -> None:
    assert watched(lambda watch: made()) == []


@pytest.mark.parametrize(
    ("host", "call"),
    [
        (lambda watch: X + 1, "aten::add"),
        (lambda watch: X.clone(), "aten::clone"),
        (lambda watch: Y.numpy().fill(5), "something else than a launch"),
        (lambda watch: (Y.numpy().fill(6), watch.begin_launch([Y])), "something else than a launch"),
        (lambda watch: (Y.numpy().fill(8), Y[:1].zero_()), "something else than a launch"),
        (lambda watch: watch.begin_launch([torch.from_numpy(X.numpy() + 1)]), "has not allocated"),
        (lambda watch: watch.begin_launch([torch.from_numpy(X.numpy() + 1)[:1].fill_(0)]), "has not allocated"),
        (lambda watch: [Y[i % 8].fill_(i) for i in range(100)], "fills"),
    ],
    ids=[
        "operator",
        "copy",
        "numpy",
        "numpy_before_a_launch",
        "numpy_before_a_fill",
        "memory_of_numpy",
        "fill_of_memory_of_numpy",
        "element_by_element",
    ],
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
