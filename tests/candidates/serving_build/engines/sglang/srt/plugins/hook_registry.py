"""`HookRegistry.register(path, hook, type)` notes a hook, `apply_hooks` puts it in place once."""

import pkgutil
from collections.abc import Callable
from enum import Enum
from typing import Any


class HookType(Enum):
    AFTER = "after"


class HookRegistry:
    hooks: dict[str, list[Callable[..., Any]]] = {}  # noqa: RUF012  (one registry for the process)
    applied: set[str] = set()  # noqa: RUF012

    @classmethod
    def register(cls, target: str, hook: Callable[..., Any], hook_type: HookType = HookType.AFTER) -> None:
        cls.hooks.setdefault(target, []).append(hook)

    @classmethod
    def apply_hooks(cls) -> None:
        for target in cls.hooks.keys() - cls.applied:
            owner_path, _, name = target.rpartition(".")
            owner = pkgutil.resolve_name(owner_path)
            setattr(owner, name, _after(getattr(owner, name), cls.hooks[target]))
            cls.applied.add(target)


def _after(original: Callable[..., Any], hooks: list[Callable[..., Any]]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        for hook in hooks:
            modified = hook(result, *arguments, **keywords)
            result = result if modified is None else modified
        return result

    return wrapped
