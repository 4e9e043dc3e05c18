"""The page of state machines, from the tables by which the coordinators check transitions."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from broker.coordinators.share.runs import RecordState
from coordinator.group.classic.state import LEGAL_FROM as CLASSIC_FROM
from coordinator.group.classic.state import GroupState
from coordinator.group.consumer.group import ConsumerGroupState
from coordinator.group.consumer.member import MemberState
from coordinator.group.share.group import ShareGroupState
from coordinator.group.streams.group import StreamsGroupState
from coordinator.transaction.state import LEGAL_FROM as TRANSACTION_FROM
from tools.site.diagrams import states_diagram
from tools.site.markdown import table

#: As broker/coordinators/share/runs.py defines it.
_RECORDS_FROM: Mapping[RecordState, Sequence[RecordState]] = {
    RecordState.AVAILABLE: (RecordState.ACQUIRED,),
    RecordState.ACQUIRED: (RecordState.AVAILABLE,),
    RecordState.ACKNOWLEDGED: (RecordState.ACQUIRED,),
    RecordState.ARCHIVED: (RecordState.ACQUIRED, RecordState.AVAILABLE),
}


def states_page() -> str:
    """Return the page."""
    classic = {to.value: [each.value for each in GroupState if each in before] for to, before in CLASSIC_FROM.items()}
    transaction = {to.text: [each.text for each in sorted(before)] for to, before in TRANSACTION_FROM.items()}
    records = {to.name.lower(): [each.name.lower() for each in before] for to, before in _RECORDS_FROM.items()}
    return "".join(
        (
            "# State machines\n\nAn arrow leads from a state to a possible next state. A thick frame means that a state"
            " may follow itself. Any other transition is an error in the broker and raises an exception.\n",
            "\n## Classic groups\n",
            states_diagram(classic),
            _state_table(GroupState),
            "\n## Transactions\n",
            states_diagram(transaction),
            "A transactional id has one of these states. `Prepare...` is the decision, stored in the log; `Complete...`"
            " means that each partition has its marker.\n",
            "\n## Records of a share group\n",
            states_diagram(records),
            "A member acquires records, and accepts (acknowledged), rejects (archived) or releases them (available)."
            " If it does nothing in time, they are available again, or archived after their last allowed delivery."
            " Available records that the log no longer has are archived, too.\n",
            "\n## Groups of the newer protocols\n\nTheir states are not stored but computed on request (KIP-848,"
            " KIP-932, KIP-1071).\n\n",
            f"Consumer groups:\n\n{_state_table(ConsumerGroupState)}\n",
            f"Members of consumer groups, by the numbers of the log:\n\n{_state_table(MemberState)}\n",
            f"Share groups:\n\n{_state_table(ShareGroupState)}\n",
            f"Streams groups:\n\n{_state_table(StreamsGroupState)}\n",
        )
    )


def _state_table(states: type[Enum]) -> str:
    """Return the states with the docstrings below them, if any."""
    texts = _docstrings(states)
    return table(("state", "meaning"), ((f"`{each.value}` {_name(each)}", texts.get(each.name, "")) for each in states))


def _name(state: Any) -> str:
    return state.name.lower().replace("_", " ") if isinstance(state.value, int) else ""


def _docstrings(states: type[Enum]) -> dict[str, str]:
    (definition,) = ast.parse(inspect.getsource(states)).body
    assert isinstance(definition, ast.ClassDef)
    found, last = {}, ""
    for each in definition.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            last = each.targets[0].id
        elif isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and last:
            found[last] = str(each.value.value)
    return found
