"""Tasks and measurements of tiny kernels, for this machine."""

import functools
from collections.abc import Mapping

import torch

from candidates.ceilings import fingerprint_device
from candidates.device import DeviceFingerprint
from candidates.measurement import Baseline, Decision, Interval, Measurement, Stage, WorkloadMeasurement
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload

FLOAT = ElementType.FLOAT32


@functools.cache
def local_device() -> DeviceFingerprint:
    here = fingerprint_device()
    return DeviceFingerprint(
        kind="cpu",
        model=here.model,
        features=tuple(flag for flag in ("avx2", "fma") if flag in here.features),
        cores=1,
        cache_bytes=(32768,),
        compiler="g++",
        torch_version=torch.__version__,
    )


def tensor(name: str, *shape: int | str, dim_order: tuple[int, ...] | None = None) -> TensorSpec:
    order = tuple(range(len(shape))) if dim_order is None else dim_order
    return TensorSpec(name=name, element_type=FLOAT, shape=shape, dim_order=order)


def taken(spec: TensorSpec, attribute: str | None = None) -> InputSpec:
    role = InputRole.ACTIVATION if attribute is None else InputRole.PARAMETER
    return InputSpec(**spec.model_dump(), role=role, attribute=attribute)


def make_task(op: str, reference: str, inputs: tuple[InputSpec, ...], outputs: tuple[TensorSpec, ...]) -> KernelTask:
    workloads = (Workload(axes={"batch": 1, "tokens": 1}, calls_per_hour=10.0),)
    return KernelTask(
        op=op,
        site="model.layers.*",
        level=SiteLevel.LEAF,
        reference=reference,
        inputs=inputs,
        outputs=outputs,
        axes=("batch", "tokens"),
        workloads=workloads,
        error_bound=ErrorBound(scaled_error=1e-6),
        device_id=local_device().id,
    )


def make_measurement(task: KernelTask, decisions: Mapping[str, Decision]) -> Measurement:
    workloads = tuple(
        WorkloadMeasurement(
            workload=name,
            candidate_us=1.0,
            kernel_only_us=0.5,
            baselines_us={Baseline.EAGER: 2.0},
            best_baseline=Baseline.EAGER,
            speedup_over_best=2.0,
            interval=Interval(1.9, 2.1),
            pairs=60,
            share_of_floor=0.5,
            parameters_are_cold=False,
            decision=decision,
        )
        for name, decision in decisions.items()
    )
    return Measurement(
        stage=Stage.CONFIRM,
        device_id=task.device_id,
        threads=1,
        workloads=workloads,
        traffic_weighted_speedup=2.0,
        interval=Interval(1.9, 2.1),
        decision=Decision.WIN,
        wall_s=1.0,
    )
