"""CallShapes: what the calls at one site have in common: dims that are numbers, dims that are axes, order in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from candidates.task import ElementType
from traces.model_calls import ModelCall
from traces.sites import ObservedTensor, SiteCall

_UNSEEN_WEIGHT = 1e-9  # a probe outweighs nothing, but decides where all calls of the traffic agree


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedCall:
    axes: dict[str, int]
    call: SiteCall


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShapes:
    arguments: tuple[str, ...]
    """Names of the tensor arguments, in order."""
    element_types: tuple[ElementType, ...]
    """Of each tensor argument, in order."""
    shapes: tuple[tuple[int | str, ...], ...]
    dim_orders: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]
    calls: tuple[ShapedCall, ...]
    left_out: tuple[SiteCall, ...]
    """Calls with settings, other arguments or another order in memory: no kernel of these shapes may serve them."""


def name_call_shapes(calls: Sequence[SiteCall]) -> CallShapes | None:
    """None where no call passes dense tensors alone.

    A dim that follows the forward pass is named after it: `batch`, `tokens` (new ones a sequence), `context` (all
    that attention sees), `rows` (batch × tokens); one that varies otherwise is `size0`, `size1`, …
    """
    plain = [call for call in calls if not call.settings and call.tensors]
    if not plain:
        return None
    structure = _heaviest_structure(plain)
    alike = [call for call in plain if _structure(call) == structure]
    dim_orders = []
    for index in range(len(structure)):
        order = common_order([(call.tensors[index], call.calls_per_hour) for call in alike])
        if order is None:
            return None
        dim_orders.append(order)
    kept = [call for call in alike if all(map(_is_laid_out, call.tensors, dim_orders))]
    if not kept:
        return None
    shapes = _name_dims(kept)
    names = tuple(dict.fromkeys(dim for shape in shapes for dim in shape if isinstance(dim, str)))
    shaped = [ShapedCall(axes=_axes_of(call, shapes), call=call) for call in kept]
    return CallShapes(
        arguments=tuple(tensor.argument for tensor in kept[0].tensors),
        element_types=tuple(ElementType(tensor.element_type) for tensor in kept[0].tensors),
        shapes=shapes,
        dim_orders=tuple(dim_orders),
        axes=names,
        calls=tuple(shaped),
        left_out=tuple(call for call in calls if not any(call is other for other in kept)),
    )


def _structure(call: SiteCall) -> tuple[tuple[str, int, str], ...]:
    return tuple((tensor.argument, len(tensor.shape), tensor.element_type) for tensor in call.tensors)


def _heaviest_structure(calls: Sequence[SiteCall]) -> tuple[tuple[str, int, str], ...]:
    weights: dict[tuple[tuple[str, int, str], ...], float] = {}
    for call in calls:
        key = _structure(call)
        weights[key] = weights.get(key, 0.0) + call.calls_per_hour + _UNSEEN_WEIGHT
    return max(weights, key=weights.__getitem__)


def common_order(tensors: Sequence[tuple[ObservedTensor, float]]) -> tuple[int, ...] | None:
    """The order in memory that fits most of the tensors by their weights; None where none is dense.

    One with a dim of size 1 fits several orders; the others decide.
    """
    orders = dict.fromkeys(_dim_order(tensor) for tensor, _ in tensors)
    weights = {
        order: sum(weight + _UNSEEN_WEIGHT for tensor, weight in tensors if _is_laid_out(tensor, order))
        for order in orders
    }
    best = max(weights, key=weights.__getitem__)
    return best if weights[best] else None


def _dim_order(tensor: ObservedTensor) -> tuple[int, ...]:
    """Outermost first; strides of dims of size 1 follow their neighbours, so such a dim keeps its place."""
    return tuple(sorted(range(len(tensor.shape)), key=lambda dim: -tensor.strides[dim]))


def _is_laid_out(tensor: ObservedTensor, dim_order: tuple[int, ...]) -> bool:
    step = 1
    for dim in reversed(dim_order):
        if tensor.shape[dim] != 1 and tensor.strides[dim] != step:
            return False
        step *= tensor.shape[dim]
    return True


def _name_dims(calls: Sequence[SiteCall]) -> tuple[tuple[int | str, ...], ...]:
    names: dict[tuple[int, ...], str] = {}
    shapes = []
    for index, tensor in enumerate(calls[0].tensors):
        shape: list[int | str] = []
        for dim in range(len(tensor.shape)):
            sizes = tuple(call.tensors[index].shape[dim] for call in calls)
            if len(set(sizes)) == 1:
                shape.append(sizes[0])
                continue
            if sizes not in names:
                unnamed = sum(name.startswith("size") for name in names.values())
                names[sizes] = _meaning(calls, sizes) or f"size{unnamed}"
            shape.append(names[sizes])
        shapes.append(tuple(shape))
    return tuple(shapes)


def _meaning(calls: Sequence[SiteCall], sizes: tuple[int, ...]) -> str | None:
    pairs: list[tuple[ModelCall, int]] = [
        (source, size) for call, size in zip(calls, sizes, strict=True) for source in call.sources
    ]
    if not pairs:
        return None
    meanings = {
        "batch": [source.batch for source, _ in pairs],
        "tokens": [source.tokens for source, _ in pairs],
        "context": [source.tokens_read for source, _ in pairs],
        "rows": [source.batch * source.tokens for source, _ in pairs],
    }
    observed = [size for _, size in pairs]
    return next((name for name, meant in meanings.items() if meant == observed), None)


def _axes_of(call: SiteCall, shapes: tuple[tuple[int | str, ...], ...]) -> dict[str, int]:
    return {
        name: size
        for tensor, shape in zip(call.tensors, shapes, strict=True)
        for size, name in zip(tensor.shape, shape, strict=True)
        if isinstance(name, str)
    }
