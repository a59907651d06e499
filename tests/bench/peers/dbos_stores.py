"""The same steps on DBOS over any database: `python dbos_stores.py live|replay URL COUNT`; prints wall and CPU us per step.

The live process dies once the steps are done and before the workflow ends; the replay recovers it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from dbos import DBOS, SetWorkflowID

RESULT = {"rows": 3, "name": "a step's result of some length", "flags": [True, False, None]}
MODE, URL, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
ended = threading.Event()
spent: list[tuple[float, float]] = []

DBOS(
    config={
        "name": "bench",
        "system_database_url": URL,
        "log_level": "ERROR",
        "application_version": "1",
    }
)


@DBOS.step()
def load(number: int) -> dict[str, Any]:
    return RESULT


@DBOS.workflow()
def steps(count: int) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        load(number)
    spent.append((time.perf_counter() - wall, time.process_time() - cpu))
    ended.set()
    threading.Event().wait()


DBOS.launch()
if MODE == "live":
    with SetWorkflowID("bench"):
        DBOS.start_workflow(steps, COUNT)
ended.wait()
print(*(seconds / COUNT * 1e6 for seconds in spent[0]), flush=True)
os._exit(0)
