"""Type variables that stand for "anything" where nothing says more.

Type checkers read defaults of type variables on every Python; older interpreters do not know them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    Parameters = ParamSpec("Parameters", default=...)
    Value = TypeVar("Value", default=Any)
    ValueOut = TypeVar("ValueOut", default=Any, covariant=True)
else:
    from typing import ParamSpec, TypeVar

    Parameters = ParamSpec("Parameters")
    Value = TypeVar("Value")
    ValueOut = TypeVar("ValueOut", covariant=True)

__all__ = ["Parameters", "Value", "ValueOut"]
