"""A Python package that SGLang finds as a general plugin (`sglang/srt/plugins` of SGLang 0.5.23)."""

from candidates.serving_build.build import Build
from candidates.serving_build.exported import sglang_plugin
from candidates.serving_build.target import Export
from candidates.serving_build.targets.engine_package import Engine, engine_package

_SGLANG = Engine(
    name="SGLang", entry_point_group="sglang.srt.plugins", plugin=sglang_plugin, allow_list="SGLANG_PLUGINS"
)


class Sglang:
    def export(self, build: Build) -> Export:
        return engine_package(build, _SGLANG)
