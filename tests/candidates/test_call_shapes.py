import pytest

from candidates.call_shapes import name_call_shapes
from candidates.task import ElementType
from traces.model_calls import CallRate, ModelCall
from traces.sites import ObservedTensor, SiteCall


def tensor(*shape: int, order: tuple[int, ...] | None = None, argument: str = "x") -> ObservedTensor:
    strides, step = [0] * len(shape), 1
    for dim in reversed(order or range(len(shape))):
        strides[dim] = step
        step *= shape[dim]
    return ObservedTensor(argument=argument, shape=shape, strides=tuple(strides), element_type="float32")


def call(*tensors: ObservedTensor, source: ModelCall, rate: float = 1.0, settings: str = "") -> SiteCall:
    return SiteCall(
        tensors=tensors,
        calls_per_hour=rate,
        settings=((settings, "True"),) if settings else (),
        sources={source: CallRate(per_hour=rate)},
    )


PREFILL = ModelCall(batch=1, tokens=6, context=5)
DECODE = ModelCall(batch=3, tokens=1, context=9)
PROBE = ModelCall(batch=2, tokens=3, context=7)


def test_dims_are_named_after_the_pass_and_constants_stay_numbers() -> None:
    calls = [call(tensor(s.batch, 8, s.tokens), source=s) for s in (PREFILL, DECODE)]
    shapes = name_call_shapes(calls)
    assert shapes is not None
    assert shapes.shapes == (("batch", 8, "tokens"),)
    assert shapes.axes == ("batch", "tokens")
    assert [shaped.axes for shaped in shapes.calls] == [{"batch": 1, "tokens": 6}, {"batch": 3, "tokens": 1}]


def test_dims_that_follow_rows_context_or_nothing_have_names_too() -> None:
    calls = [
        call(tensor(s.batch * s.tokens, s.tokens_read, extra), source=s)
        for s, extra in ((PREFILL, 5), (DECODE, 2), (PROBE, 9))
    ]
    shapes = name_call_shapes(calls)
    assert shapes is not None
    assert shapes.shapes == (("rows", "context", "size0"),)


def test_a_probe_shows_an_axis_that_traffic_holds_still() -> None:
    decode = ModelCall(batch=1, tokens=1, context=9)
    shapes = name_call_shapes([call(tensor(1, 1, 8), source=decode), call(tensor(2, 3, 8), source=PROBE, rate=0.0)])
    assert shapes is not None
    assert shapes.shapes == (("batch", "tokens", 8),)


def test_a_dim_of_size_one_does_not_hide_the_order_in_memory() -> None:
    calls = [
        call(tensor(3, 4, 1, 8), source=DECODE, rate=1000.0),
        call(tensor(2, 4, 3, 8, order=(0, 2, 1, 3)), source=PROBE, rate=0.0),
    ]
    shapes = name_call_shapes(calls)
    assert shapes is not None
    assert shapes.dim_orders == ((0, 2, 1, 3),)
    assert shapes.left_out == ()


def test_calls_of_another_order_settings_or_arguments_are_left_out() -> None:
    heavy = call(tensor(3, 1, 8), source=DECODE, rate=100.0)
    others = [
        call(tensor(2, 3, 8, order=(1, 0, 2)), source=PROBE),
        call(tensor(1, 6, 8), source=PREFILL, settings="inverse"),
        call(tensor(1, 6, 8), tensor(6, argument="mask"), source=PREFILL),
    ]
    straight = call(tensor(2, 6, 8), source=PREFILL, rate=50.0)
    shapes = name_call_shapes([heavy, straight, *others])
    assert shapes is not None
    assert [shaped.call for shaped in shapes.calls] == [heavy, straight]
    assert list(shapes.left_out) == others
    assert shapes.element_types == (ElementType.FLOAT32,)


@pytest.mark.parametrize("has_settings", [True, False])
def test_a_site_without_a_dense_plain_call_has_no_shapes(has_settings: bool) -> None:
    sliced = ObservedTensor(argument="x", shape=(2, 3), strides=(5, 1), element_type="float32")
    settings = "inverse" if has_settings else ""
    assert name_call_shapes([call(tensor(2, 3) if has_settings else sliced, source=PROBE, settings=settings)]) is None
