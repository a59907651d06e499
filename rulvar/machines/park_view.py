"""What a person would see of a run that waits: the prompt, and how it can be answered.

The same rules serve tests and the command line. They walk the whole run tree, since it is often a child
that asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.machines.app import App, Apps
from rulvar.machines.document import Document, Widget
from rulvar.machines.hitl import HITL
from rulvar.machines.view import RunView

__all__ = ["ParkView", "park_view"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkView:
    """The prompt of a run tree.

    Attributes:
        workflow_id, workflow_name, place, status: of the run that asks.
        widget: the kind of widget; None when nothing can be shown, and the person sees a bare wait.
        document_name, content: of the document that the widget sits on.
        schema: JSON Schema of the answer, where one is declared.
        options: what the widget knows.
        transitions: what may be answered; of a workflow that is no machine the keys of its waits.
        default_transition: what an answer fires that names none.
        actions: labels of a form's buttons that can be pressed now.
        key: what answers it through ``resolve_external``, for the default transition.
    """

    workflow_id: str
    workflow_name: str
    place: str | None
    status: str
    transitions: list[str]
    default_transition: str | None = None
    widget: str | None = None
    document_name: str | None = None
    content: Any = None
    schema: Any = None
    options: Mapping[str, Any] | None = None
    actions: list[str] | None = None
    key: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object; fields that do not apply are left out."""
        wire: dict[str, Any] = {
            "workflowId": self.workflow_id,
            "workflowName": self.workflow_name,
            "place": self.place,
            "status": self.status,
            "transitions": list(self.transitions),
        }
        for name, value in (
            ("defaultTransition", self.default_transition),
            ("widget", self.widget),
            ("documentName", self.document_name),
            ("content", self.content),
            ("schema", self.schema),
            ("options", self.options),
            ("actions", self.actions),
            ("key", self.key),
        ):
            if value is not None:
                wire[name] = value
        return wire


def park_view(root: RunView, apps: Apps | Iterable[App] = ()) -> ParkView | None:
    """Return what a person would see; None when nobody can answer anything.

    Args:
        root: a run tree, for instance ``run.view`` of a test run.
        apps: where widgets are found; without its app a prompt is a bare wait. What ``rulvar.hitl`` asks is
            always found.

    Raises:
        ConfigError: something among the apps that is none.
    """
    known = apps if isinstance(apps, Apps) else Apps((*apps, HITL))
    bare: ParkView | None = None
    pending = deque([root])
    while pending:
        node = pending.popleft()
        if node.is_over:
            continue
        pending.extend(node.children)
        if node.status not in ("waiting", "failed") or not node.waits:
            continue
        prompt = next(_prompts(node, known), None)
        if prompt is not None:
            return prompt
        bare = bare or _bare(node)
    return bare


def _prompts(node: RunView, apps: Apps) -> Iterator[ParkView]:
    """Yield the prompts that can be answered: documents in order, then widgets of the machine."""
    for document in node.documents:
        declared = apps.document(document.name)
        widget = None if declared is None else declared.widget
        schema = None if declared is None or declared.contract is None else declared.contract.json
        if widget is None or not _is_active(document, node.place) or _is_answered(document, schema):
            continue
        made = _view(node, widget, document.options, document, schema)
        if made is not None:
            yield made
    definition = apps.machine(node.workflow)
    for widget in () if definition is None else definition.widgets:
        made = _view(node, widget, {}, None, None)
        if made is not None:
            yield made


def _is_active(document: Document, place: str | None) -> bool:
    if document.internal or place in document.hide_at:
        return False
    return document.place == place or place in document.enable_at


def _is_answered(document: Document, schema: Any) -> bool:
    """Whether an answer is there, whatever it is; the None that a type gives as a default is none."""
    if not isinstance(document.content, Mapping) or "answer" not in document.content:
        return False
    return document.content["answer"] is not None or not _is_none_by_default(schema, "answer")


def _is_none_by_default(schema: Any, name: str) -> bool:
    """Whether a schema says that a member is null where nobody gives it."""
    node = schema if isinstance(schema, Mapping) else {}
    if isinstance(ref := node.get("$ref"), str):
        node = (node.get("$defs") or {}).get(ref.rpartition("/")[2]) or {}
    member = (node.get("properties") or {}).get(name)
    return isinstance(member, Mapping) and "default" in member and member["default"] is None


def _view(
    node: RunView, widget: Widget, own: Mapping[str, Any], document: Document | None, schema: Any
) -> ParkView | None:
    """Return the view of one widget; None when it is hidden, disabled or only shows something."""
    if widget.only_shows:
        return None
    shown = tuple(own.get("show_when", own.get("showWhen", widget.show_when)))
    enabled = tuple(own.get("enabled_when", own.get("enabledWhen", widget.enabled_when)))
    if (shown and node.place not in shown) or (enabled and node.place not in enabled):
        return None
    actions = [dict(action) for action in own.get("actions", widget.actions)]
    chosen = own.get("transition", widget.transition)
    declared = [name for name in (chosen, *(action.get("transition") for action in actions)) if name]
    available = node.available_transitions
    if declared:
        submit = next((name for name in declared if name in available), None)
    else:
        submit = available[0] if len(available) == 1 else None
    if submit is None:
        return None
    payload = node.way(submit)
    pressable = [item for item in actions if not item.get("transition") or item["transition"] in available]
    labels = [str(label) for item in pressable if (label := item.get("label") or item.get("transition"))]
    options = {**widget.options, **own}
    return ParkView(
        workflow_id=node.run_id,
        workflow_name=node.workflow,
        place=node.place,
        status=node.status,
        transitions=list(available),
        default_transition=submit,
        widget=widget.type,
        document_name=None if document is None else document.name,
        content=None if document is None else document.content,
        schema=schema if payload is None or payload.schema is None else payload.schema,
        options=options or None,
        actions=labels or None,
        key=None if payload is None else payload.key,
    )


def _bare(node: RunView) -> ParkView:
    names = [way.transition or way.key for way in node.waits]
    only, way = (names[0], node.waits[0]) if len(names) == 1 else (None, None)
    return ParkView(
        workflow_id=node.run_id,
        workflow_name=node.workflow,
        place=node.place,
        status=node.status,
        transitions=names,
        default_transition=only,
        content=None if way is None else way.prompt,
        schema=None if way is None else way.schema,
        key=None if way is None else way.key,
    )
