"""The determinism lint of rulvar.

What is public is listed in `__all__`; it is loaded when it is first used, so that importing the
package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rulvar_lint.config import Config, ConfigError
    from rulvar_lint.core.diagnostic import Diagnostic, Edit, Fix, Related
    from rulvar_lint.core.rule import RuleInfo
    from rulvar_lint.fixes import fix_source
    from rulvar_lint.oneshot import lint_paths, lint_source
    from rulvar_lint.project import Project
    from rulvar_lint.rules.pages import rule_info
    from rulvar_lint.units import CtxCallSpan, WorkflowSpan

__version__ = "0.1.0"

__all__ = [
    "Config",
    "ConfigError",
    "CtxCallSpan",
    "Diagnostic",
    "Edit",
    "Fix",
    "Project",
    "Related",
    "RuleInfo",
    "WorkflowSpan",
    "fix_source",
    "lint_paths",
    "lint_source",
    "rule_info",
]

_HOMES = {
    "Config": "config",
    "ConfigError": "config",
    "Diagnostic": "core.diagnostic",
    "Edit": "core.diagnostic",
    "Fix": "core.diagnostic",
    "Related": "core.diagnostic",
    "RuleInfo": "core.rule",
    "fix_source": "fixes",
    "CtxCallSpan": "units",
    "Project": "project",
    "WorkflowSpan": "units",
    "lint_paths": "oneshot",
    "lint_source": "oneshot",
    "rule_info": "rules.pages",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
