"""A Python package that vLLM finds as a general plugin (docs.vllm.ai, Plugin System)."""

from candidates.serving_build.build import Build
from candidates.serving_build.exported import vllm_plugin
from candidates.serving_build.target import Export
from candidates.serving_build.targets.engine_package import Engine, engine_package

_VLLM = Engine(name="vLLM", entry_point_group="vllm.general_plugins", plugin=vllm_plugin, allow_list="VLLM_PLUGINS")


class Vllm:
    def export(self, build: Build) -> Export:
        return engine_package(build, _VLLM)
