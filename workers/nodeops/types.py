"""Values that node operations return."""

from __future__ import annotations

from dataclasses import dataclass


class NodeOpError(Exception):
    """An operation on a node failed; `code` is stable, the message says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Check:
    """One preflight finding; `required` ones must be ok before a node may be added."""

    code: str
    ok: bool
    title: str
    detail: str
    fix: str
    required: bool = True
