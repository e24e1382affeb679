"""Names of a task's tensors and axes as identifiers that collide with nothing in an emitted source of any language."""

import re
from typing import TypeVar

from candidates.languages.triton_rules import RESERVED_PARAMETERS
from candidates.task import KernelTask, TensorSpec

Spec = TypeVar("Spec", bound=TensorSpec)

# C++ keywords and library names, what the prelude defines, and what stages call their own variables.
_RESERVED_IN_CPP = """
    alignas and asm auto bool break case catch char class const continue default delete do double else enum explicit
    export extern false final float for friend goto if inline int long mutable namespace new not operator or private
    protected public register requires return short signed sizeof static struct switch template this throw true try
    typedef typename union unsigned using virtual void volatile while xor constexpr decltype noexcept import module
    abs acos asin atan cos exp free gamma j0 j1 jn log malloc memcpy pow sin sqrt tan tanh y0 y1 yn std unix linux
    across bits body call each_of gather in_register kept load load_scalar mask_of memory repeat scatter share_out size
    splat store store_scalar sweep sweep_blocks value where work with_count dot_tile panel_tile prepare kernel prepared
    begin end block blocks c finish group height j k lane lanes left left_stride m n out p packed panel r row rows
    sum sums lines blocks c_count r_count with_rows point_at_rows tile top u weights width product
    block_sums line_sums sum_blocks block_tile pack_blocks store_scalar
    in_pairs add_products pair_tile step stream end_of_stream store_as is_aligned exp_between prefetch
"""
# The same of Python and Triton.
_RESERVED_IN_TRITON = """
    as assert async await def del elif except finally from global in is lambda nonlocal pass raise with yield
    float int max min range torch triton tl chain chain_start columns count first depth part parts right start
"""
_RESERVED = frozenset(f"{_RESERVED_IN_CPP} {_RESERVED_IN_TRITON}".split()) | RESERVED_PARAMETERS
_GENERATED = re.compile(
    r"i\d+[io]*|[sfv]\d+|p\d+_\w+|(sum|max|min|rest|kept|packed|stage|parts)\d+|scratch\d*|\w+_of|\w+_at\d+"
    r"|j\d+|in_\w+|\w+_over|__.*|_stage.*"
)


def with_emitted_names(task: KernelTask) -> KernelTask:
    """The same task, its clashing names changed; a kernel receives tensors and sizes by position."""
    axes = {axis: _identifier(axis) for axis in task.axes}

    return task.model_copy(
        update={
            "workloads": tuple(
                workload.model_copy(update={"axes": {axes[axis]: size for axis, size in workload.axes.items()}})
                for workload in task.workloads
            ),
            "axes": tuple(axes.values()),
            "inputs": tuple(_renamed(spec, axes) for spec in task.inputs),
            "outputs": tuple(_renamed(spec, axes) for spec in task.outputs),
        }
    )


def _renamed(spec: Spec, axes: dict[str, str]) -> Spec:
    shape = tuple(axes[dim] if isinstance(dim, str) else dim for dim in spec.shape)
    return spec.model_copy(update={"name": _identifier(spec.name), "shape": shape})


def _identifier(name: str) -> str:
    clashes = name in _RESERVED or _GENERATED.fullmatch(name) or not re.fullmatch(r"[A-Za-z_]\w*", name)
    return f"task_{re.sub(r'[^0-9A-Za-z_]', '_', name).strip('_')}" if clashes else name
