"""CallShapes: what the calls at one site have in common: dims that are numbers, dims that are axes, order in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from candidates.serving_build.runtime import reserved_length
from candidates.task import ElementType
from traces.model_calls import ModelCall
from traces.sites import Constant, ObservedCache, ObservedTensor, SiteCall

_CAPACITY = "capacity"
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
    allocated: tuple[tuple[int | str, ...] | None, ...]
    """Of keys and values: their shapes in memory, which serving reserves ahead."""
    dim_orders: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]
    calls: tuple[ShapedCall, ...]
    left_out: tuple[SiteCall, ...]
    """Calls with settings, other arguments or another order in memory: no kernel of these shapes may serve them."""

    @property
    def cache(self) -> ObservedCache | None:
        """What all the calls do to a cache."""
        return self.calls[0].call.cache

    @property
    def constants(self) -> dict[str, Constant]:
        """Arguments of all the calls that are no tensors."""
        return dict(self.calls[0].call.constants)


def name_call_shapes(calls: Sequence[SiteCall]) -> CallShapes | None:
    """None where no call passes dense tensors alone, or with them a cache to which it adds one token.

    A dim that follows the forward pass is named after it: `batch`, `tokens` (new ones a sequence), `context` (all
    that attention sees), `rows` (batch × tokens); one that varies otherwise is `size0`, `size1`, … The axis `capacity`
    is what serving reserves for a cache.
    """
    plain = [call for call in calls if not call.settings and call.tensors and _adds_at_most_one(call)]
    if not plain:
        return None
    structure = _heaviest_structure(plain)
    alike = [call for call in plain if _structure(call) == structure]
    dim_orders = []
    for index in range(len(structure.tensors)):
        order = common_order([(call.tensors[index], call.calls_per_hour) for call in alike])
        if order is None:
            return None
        dim_orders.append(order)
    kept = [call for call in alike if all(map(_is_laid_out, call.tensors, dim_orders))]
    if not kept:
        return None
    shapes = _name_dims(kept)
    allocated = tuple(_allocated(kept[0], index, shape) for index, shape in enumerate(shapes))
    in_memory = (*shapes, *(sizes for sizes in allocated if sizes is not None))
    names = tuple(dict.fromkeys(dim for shape in in_memory for dim in shape if isinstance(dim, str)))
    shaped = [ShapedCall(axes=_axes_of(call, shapes), call=call) for call in kept]
    return CallShapes(
        arguments=tuple(tensor.argument for tensor in kept[0].tensors),
        element_types=tuple(ElementType(tensor.element_type) for tensor in kept[0].tensors),
        shapes=shapes,
        allocated=allocated,
        dim_orders=tuple(dim_orders),
        axes=names,
        calls=tuple(shaped),
        left_out=tuple(call for call in calls if not any(call is other for other in kept)),
    )


@dataclass(frozen=True, slots=True)
class _Structure:
    """What must be one for calls to have one kernel."""

    tensors: tuple[tuple[str, int, str], ...]
    cache: ObservedCache | None
    constants: tuple[tuple[str, Constant], ...]


def _structure(call: SiteCall) -> _Structure:
    tensors = tuple((tensor.argument, len(tensor.shape), tensor.element_type) for tensor in call.tensors)
    return _Structure(tensors, call.cache, call.constants)


def _adds_at_most_one(call: SiteCall) -> bool:
    return call.cache is None or call.cache.grows_by == 1


def _heaviest_structure(calls: Sequence[SiteCall]) -> _Structure:
    weights: dict[_Structure, float] = {}
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


def is_of_cache(cache: ObservedCache | None, argument: str) -> bool:
    return cache is not None and argument in (f"{cache.argument}.keys", f"{cache.argument}.values")


def _allocated(call: SiteCall, index: int, shape: tuple[int | str, ...]) -> tuple[int | str, ...] | None:
    if call.cache is None or not is_of_cache(call.cache, call.tensors[index].argument):
        return None
    return tuple(_CAPACITY if dim == call.cache.grows_along else size for dim, size in enumerate(shape))


def _axes_of(call: SiteCall, shapes: tuple[tuple[int | str, ...], ...]) -> dict[str, int]:
    axes = {
        name: size
        for tensor, shape in zip(call.tensors, shapes, strict=True)
        for size, name in zip(tensor.shape, shape, strict=True)
        if isinstance(name, str)
    }
    if call.cache is not None:
        axes[_CAPACITY] = reserved_length(call.tensors[-1].shape[call.cache.grows_along])
    return axes
