"""Runs Berth's processes on one machine (no Django here).

env, table = processes(load())
with Supervisor(env, table) as supervisor:
    supervisor.wait()
"""

from portal.supervisor.core import Supervisor
from portal.supervisor.spec import Backoff, ProcessSpec, Report, State, SupervisorError
from portal.supervisor.table import processes, select

__all__ = ["Backoff", "ProcessSpec", "Report", "State", "Supervisor", "SupervisorError", "processes", "select"]
